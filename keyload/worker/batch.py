"""What goes into the executor and what comes out of it."""

from __future__ import annotations

import msgspec

from keyload.link.messages import Command
from keyload.models.context import Evidence, NeedsEvidence


class Pending(msgspec.Struct, frozen=True, gc=False):
    """A command that waits, with what was read for it in other shards."""

    command: Command
    evidence: tuple[Evidence, ...] = ()


class Answer(msgspec.Struct, frozen=True, gc=False):
    """The answer of a command or read: the result as JSON text, or the `Problem` as MessagePack when
    refused. With `again` the front is to send the call again (`keyload.link.messages.Refusal`)."""

    refused: bool
    payload: bytes
    again: bool = False


class Batch(msgspec.Struct):
    """What the executed commands change and answer.

    `answers` has one item per command taken, None for one that waits for evidence; its place among them
    stands in `evidence`. `writes` are logical and empty when nothing has to be logged; answers may leave only
    after the writes are committed. `count` commands took commit positions up to `position` at `instant`
    (ticks). `clock_uncertain` asks the worker to hand leadership over (SCH-2).
    """

    writes: dict[bytes, bytes | None]
    answers: list[Answer | None]
    evidence: list[tuple[int, NeedsEvidence]]
    taken: int
    count: int
    instant: int
    position: int
    clock_uncertain: bool
