"""What the owner of a tool knows beyond its schema (GTW-23)."""

from __future__ import annotations

import msgspec

from keyload.gateway.errors import RegistrationError

MAX_PHRASES = 2048  # aliases, examples, related tools and next steps of one tool
MAX_PHRASE_CHARS = 512


class ToolHints(msgspec.Struct, frozen=True, kw_only=True):
    """Hints for finding a tool and for choosing it; effect hints authorize nothing.

    `related` and `next_steps` name other tools, by id or by a name of the same source. The number of
    phrases and their length are bounded; all of them count towards `descriptor_text_limit`, examples and
    names of other tools excepted.
    """

    title: str = ""
    category: str = ""
    aliases: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    related: tuple[str, ...] = ()
    next_steps: tuple[str, ...] = ()
    read_only: bool = False
    destructive: bool = True
    idempotent: bool = False

    @property
    def phrases(self) -> tuple[str, ...]:
        """Everything there may be several of."""
        return (*self.aliases, *self.examples, *self.related, *self.next_steps)


def check(hints: ToolHints) -> None:
    """Raises RegistrationError when a bound is passed, or for anything but hints (GTW-23)."""
    if not isinstance(hints, ToolHints):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise RegistrationError("The hints of a tool are given as ToolHints(...).")
    if len(hints.phrases) > MAX_PHRASES:
        raise RegistrationError(f"The hints of a tool hold at most {MAX_PHRASES} phrases.")
    if any(len(phrase) > MAX_PHRASE_CHARS for phrase in (hints.title, hints.category, *hints.phrases)):
        raise RegistrationError(f"A phrase of a hint has at most {MAX_PHRASE_CHARS} characters.")
