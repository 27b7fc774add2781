"""The head of a request: strict, complete, one at a time.

httptools (llhttp in C) checks the grammar; what it leaves open and what decides where the request ends is
settled here. Anything doubtful is refused, so that nobody before this server can see other requests in the
same bytes than it does.
"""

from __future__ import annotations

import re

import msgspec
from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

HEAD_BYTES = 16_384
MAX_FIELDS = 100
LENGTH_DIGITS = 18
END = b"\r\n\r\n"

_REQUEST_LINE = re.compile(rb"([A-Z-]+) ([\x21-\x7e]+) HTTP/(1\.[01])")
_BROKEN = re.compile(rb"(?<!\r)\n|\r(?!\n|\Z)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


class Refused(Exception):
    """The connection cannot go on; `status` says why."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Head(msgspec.Struct, frozen=True):
    """Names of fields are in lower case, their values stripped.

    `length` counts the bytes of the body, None when it comes in chunks. `upgrades`: the sender would rather
    speak another protocol.
    """

    method: str
    target: bytes
    version: str
    fields: list[tuple[bytes, bytes]]
    length: int | None
    keeps_alive: bool
    expects_continue: bool
    upgrades: bool


class _Fields:
    """What the parser found."""

    __slots__ = ("found",)

    def __init__(self) -> None:
        self.found: list[tuple[bytes, bytes]] = []

    def on_header(self, name: bytes, value: bytes) -> None:
        self.found.append((name.lower(), value.strip()))


def check_begun(data: bytes, start: int) -> None:
    """Refuse an unfinished head that can never become a good one; `start` is where to look from."""
    if len(data) >= HEAD_BYTES:
        raise Refused(431)
    if _BROKEN.search(data, start) is not None:
        raise Refused(400)


def parse(data: bytes) -> Head:
    """The head that `data` is, with the empty line at its end."""
    if len(data) > HEAD_BYTES:
        raise Refused(431)
    line = _REQUEST_LINE.fullmatch(data, 0, data.index(b"\r\n"))
    if line is None:
        raise Refused(400)
    fields = _Fields()
    try:
        HttpRequestParser(fields).feed_data(data)
    except HttpParserUpgrade:
        pass  # after CONNECT and Upgrade the parser takes no part in what follows; nor does it else
    except HttpParserError:
        raise Refused(400) from None
    if len(fields.found) > MAX_FIELDS:
        raise Refused(431)
    method, target, version = line.groups()
    return _head(method.decode(), target, version.decode(), fields.found)


def _head(method: str, target: bytes, version: str, fields: list[tuple[bytes, bytes]]) -> Head:
    modern = version == "1.1"
    hosts, length, chunked, expects, offer = 0, None, False, False, False
    options: set[bytes] = set()
    for name, value in fields:
        if name == b"host":
            hosts += 1
        elif name == b"content-length":
            length = _length(value, length)
        elif name == b"transfer-encoding":
            if chunked or not modern or value.lower() != b"chunked":
                raise Refused(400)
            chunked = True
        elif name == b"connection":
            options.update(option.strip() for option in value.lower().split(b","))
        elif name == b"expect":
            expects = modern and value.lower() == b"100-continue"
        elif name == b"upgrade":
            offer = True
    if hosts > 1 or (modern and not hosts) or (chunked and length is not None):
        raise Refused(400)
    return Head(
        method=method,
        target=target,
        version=version,
        fields=fields,
        length=None if chunked else length or 0,
        keeps_alive=modern and b"close" not in options,
        expects_continue=expects,
        upgrades=modern and offer and b"upgrade" in options,
    )


def _length(value: bytes, known: int | None) -> int:
    if known is not None or not value.isdigit() or len(value) > LENGTH_DIGITS:
        raise Refused(400)
    return int(value)
