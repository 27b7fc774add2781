"""What the command line offers and how its words are read (CLI-2). Nothing here loads the server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module

import msgspec

MAX_WORD_BYTES = 4096


class UsageError(Exception):
    """The words are no command; the text says why (exit 2)."""


class Words(msgspec.Struct, frozen=True):
    """The operands and options of one command."""

    operands: tuple[str, ...] = ()
    options: Mapping[str, str] = {}


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """One command: its words, what follows them, and the function (`module:name`) that runs it.

    The function takes `Words` and returns the exit status. `required` options must be given.
    """

    words: tuple[str, ...]
    usage: str
    summary: str
    runs: str
    operands: tuple[int, int] = (0, 0)
    options: tuple[str, ...] = ()
    required: tuple[str, ...] = ()

    def run(self, words: Words) -> int:
        """Load and call the function."""
        module, _, name = self.runs.partition(":")
        function: Callable[[Words], int] = getattr(import_module(module), name)
        return function(words)


COMMANDS = (
    Command(
        words=("serve",),
        usage="serve --settings <file>",
        summary="run one node until SIGTERM",
        runs="keyload.cli.serve:run",
        options=("--settings",),
        required=("--settings",),
    ),
    Command(
        words=("dev",),
        usage="dev [--nodes 1|3]",
        summary="start a local cluster, print its key, stop it at the end",
        runs="keyload.cli.dev:run",
        options=("--nodes",),
    ),
    Command(
        words=("status",),
        usage="status <url> [<profile>]",
        summary="print the status of a node as JSON",
        runs="keyload.cli.remote:status",
        operands=(1, 2),
    ),
    Command(
        words=("key", "create"),
        usage="key create <principal> [--url <url>] [--profile <file>]",
        summary="make an API key; it is shown once",
        runs="keyload.cli.remote:create_key",
        operands=(1, 1),
        options=("--url", "--profile"),
    ),
    Command(
        words=("key", "revoke"),
        usage="key revoke <key id> [--url <url>] [--profile <file>]",
        summary="refuse a key id from now on, on every node",
        runs="keyload.cli.remote:revoke_key",
        operands=(1, 1),
        options=("--url", "--profile"),
    ),
    Command(
        words=("cluster", "replace"),
        usage="cluster replace <node> --with <file> [--url <url>] [--profile <file>]",
        summary="exchange a voter for a new node, and tell how far it is until it is done",
        runs="keyload.cli.cluster:replace",
        operands=(1, 1),
        options=("--with", "--url", "--profile"),
        required=("--with",),
    ),
    Command(
        words=("cluster", "keep"),
        usage="cluster keep [--url <url>] [--profile <file>]",
        summary="withdraw an exchange whose new node cannot be reached",
        runs="keyload.cli.cluster:keep",
        options=("--url", "--profile"),
    ),
    Command(
        words=("backup",),
        usage="backup <database> <empty directory>",
        summary="back up the database of a node that does not run",
        runs="keyload.cli.offline:back_up",
        operands=(2, 2),
    ),
    Command(
        words=("restore",),
        usage="restore <backup> <empty database>",
        summary="make the database of a node alone out of a backup",
        runs="keyload.cli.offline:restore",
        operands=(2, 2),
    ),
    Command(
        words=("cluster-restore",),
        usage="cluster-restore <backup> <target directory>",
        summary="make the databases of all nodes of a cluster out of a backup",
        runs="keyload.cli.offline:cluster_restore",
        operands=(2, 2),
    ),
    Command(
        words=("verify",),
        usage="verify <directory>",
        summary="check every record of a database that is not running, or of a backup",
        runs="keyload.cli.offline:verify",
        operands=(1, 1),
    ),
    Command(
        words=("pack-backup",),
        usage="pack-backup <backup> <new file>",
        summary="make one archive file of a backup",
        runs="keyload.cli.offline:pack_backup",
        operands=(2, 2),
    ),
    Command(
        words=("unpack-backup",),
        usage="unpack-backup <file> <empty directory>",
        summary="make a backup of an archive file",
        runs="keyload.cli.offline:unpack_backup",
        operands=(2, 2),
    ),
    Command(
        words=("inspect-artifact",),
        usage="inspect-artifact <file>",
        summary="check an archive file and list what it holds",
        runs="keyload.cli.offline:inspect_artifact",
        operands=(1, 1),
    ),
    Command(
        words=("copy-artifact",),
        usage="copy-artifact <file> <store directory>",
        summary="copy an archive file under its hash and check the copy",
        runs="keyload.cli.offline:copy_artifact",
        operands=(2, 2),
    ),
)

_NOTES = """\
The caller's key comes from KEYLOAD_API_KEY, else from the profile file. The default url is
http://127.0.0.1:5101. Results go to standard output, failures to standard error.
Exit status: 0 success, 1 refused or failed, 2 wrong words or settings, 130 or 143 interrupted.
"""


def help_text() -> str:
    """All commands and what they do."""
    width = max(len(command.usage) for command in COMMANDS)
    lines = [f"  keyload {command.usage:<{width}}  {command.summary}" for command in COMMANDS]
    return "KeyLoad, one replicated database server for AI agents.\n\n" + "\n".join(lines) + "\n\n" + _NOTES


def read(arguments: Sequence[str]) -> tuple[Command, Words]:
    """The command that the arguments name, with its operands and options; raises UsageError."""
    if any(len(word.encode(errors="surrogateescape")) > MAX_WORD_BYTES for word in arguments):
        raise UsageError(f"An argument is longer than {MAX_WORD_BYTES} bytes.")
    for command in COMMANDS:
        if tuple(arguments[: len(command.words)]) == command.words:
            return command, _words(command, arguments[len(command.words) :])
    given = " ".join(arguments[:2])
    names = {" ".join(command.words): command for command in COMMANDS}
    near = get_close_matches(given[:64], names, 1) or get_close_matches(arguments[0][:64], names, 1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise UsageError(f"There is no command {given!r}.{hint}")


def _words(command: Command, rest: Sequence[str]) -> Words:
    operands: list[str] = []
    options: dict[str, str] = {}
    words = iter(rest)
    for word in words:
        if not word.startswith("-"):
            operands.append(word)
            continue
        name, equals, value = word.partition("=")
        if name not in command.options or name in options:
            raise _wrong(command, f"option {name} is unknown or given twice")
        if not equals:
            value = next(words, "")
        if not value:
            raise _wrong(command, f"option {name} needs a value")
        options[name] = value
    least, most = command.operands
    if not least <= len(operands) <= most or "" in operands:
        raise _wrong(command, "wrong number of operands")
    for name in command.required:
        if name not in options:
            raise _wrong(command, f"option {name} is needed")
    return Words(tuple(operands), options)


def _wrong(command: Command, what: str) -> UsageError:
    return UsageError(f"{' '.join(command.words)}: {what}. Usage: keyload {command.usage}")
