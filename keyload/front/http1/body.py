"""Where the body of a request ends: by its length, or by its chunks (RFC 9112, 6 and 7).

`feed` takes bytes of the connection and says which of them belong to the body and which come after it.
"""

from __future__ import annotations

import re

from keyload.front.http1.head import HEAD_BYTES, Refused

LINE_BYTES = 256
_FRAMING = frozenset((b"content-length", b"transfer-encoding"))
_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_QUOTED = rb'"[\t\x20\x21\x23-\x5b\x5d-\x7e\x80-\xff]*"'
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,16})(?:;%b(?:=(?:%b|%b))?)*" % (_TOKEN, _TOKEN, _QUOTED))
_TRAILER = re.compile(rb"(%b):[\t\x20-\x7e\x80-\xff]*" % _TOKEN)


class Sized:
    """A body of `length` bytes."""

    __slots__ = ("_left",)

    def __init__(self, length: int) -> None:
        self._left = length

    @property
    def complete(self) -> bool:
        return not self._left

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """The bytes of the body in `data`, and those after it."""
        if len(data) <= self._left:
            self._left -= len(data)
            return data, b""
        left, self._left = self._left, 0
        return data[:left], data[left:]


class Chunked:
    """A body in chunks. Extensions and trailers are checked and forgotten."""

    __slots__ = ("_begun", "_left", "_trailer_bytes", "_within", "complete")

    def __init__(self) -> None:
        self.complete = False
        self._begun = b""  # of a line that is not complete
        self._left = 0
        self._within = False  # the line end behind a chunk is still to come
        self._trailer_bytes: int | None = None  # a number from the last chunk on

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """The bytes of the body in `data`, and those after it. Raises Refused."""
        data, self._begun = self._begun + data, b""
        pieces: list[bytes] = []
        at = 0
        while not self.complete:
            if self._left:
                piece = data[at : at + self._left]
                pieces.append(piece)
                self._left -= len(piece)
                at += len(piece)
            end = data.find(b"\r\n", at)
            if self._left or end < 0:
                self._begun = self._unfinished(data[at:])
                return b"".join(pieces), b""
            self._line(data[at:end])
            at = end + 2
        return b"".join(pieces), data[at:]

    def _unfinished(self, begun: bytes) -> bytes:
        if self._within and begun not in (b"", b"\r"):
            raise Refused(400)
        limit = LINE_BYTES if self._trailer_bytes is None else HEAD_BYTES
        if len(begun) > limit or b"\n" in begun or b"\r" in begun[:-1]:
            raise Refused(400)
        return begun

    def _line(self, line: bytes) -> None:
        if self._trailer_bytes is not None:
            self._trailer(line)
        elif self._within:
            if line:
                raise Refused(400)
            self._within = False
        else:
            size = _SIZE.fullmatch(line)
            if size is None or len(line) > LINE_BYTES:
                raise Refused(400)
            self._left = int(size[1], 16)
            self._within = self._left > 0
            if not self._left:
                self._trailer_bytes = 0

    def _trailer(self, line: bytes) -> None:
        assert self._trailer_bytes is not None
        self._trailer_bytes += len(line) + 2
        if self._trailer_bytes > HEAD_BYTES:
            raise Refused(431)
        if not line:
            self.complete = True
            return
        field = _TRAILER.fullmatch(line)
        if field is None or field[1].lower() in _FRAMING:
            raise Refused(400)


Body = Sized | Chunked
