"""Entry of the command `keyload`: exit statuses and where output goes (CLI-1, CLI-2, CLI-7)."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from types import FrameType

import msgspec

from keyload.cli.commands import UsageError, help_text, read
from keyload.contract.errors import KeyLoadError

REFUSED = 1
WRONG_USE = 2
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_HELP_WORDS = (["help"], ["--help"], ["-h"])


class Interrupted(BaseException):
    """A signal ended the command; `status` is its exit status."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.status = 128 + number


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words in _HELP_WORDS or "--help" in words:
        sys.stdout.write(help_text())
        return 0
    try:
        command, rest = read(words)
        _raise_on_signals()
        return command.run(rest)
    except UsageError as error:
        sys.stderr.write(f"{help_text()}\n{error}\n")
        return WRONG_USE
    except KeyLoadError as error:
        sys.stderr.write(_shown(error) + "\n")
        return REFUSED
    except Interrupted as interruption:
        return interruption.status
    except BrokenPipeError:
        return REFUSED


def _shown(error: KeyLoadError) -> str:
    """The problem as one JSON object: on one line for programs, member by member for people."""
    text = msgspec.json.encode(error.problem)
    return (msgspec.json.format(text, indent=2) if sys.stderr.isatty() else text).decode()


def _raise_on_signals() -> None:
    """Let SIGINT and SIGTERM unwind the command, so that what it began is taken back."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        for other in _SIGNALS:
            signal.signal(other, signal.SIG_IGN)  # a second wish must not disturb the cleaning up
        raise Interrupted(number)

    for number in _SIGNALS:
        signal.signal(number, interrupt)
