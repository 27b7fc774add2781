"""One request and its answer, as ASGI sees them."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any, Protocol
from urllib.parse import unquote

from keyload.front.http1 import answer
from keyload.front.http1.body import Body, Chunked, Sized
from keyload.front.http1.head import Head

Address = tuple[str, int] | None
Message = MutableMapping[str, Any]

READ_AHEAD = 65_536
"""Bytes of a request that wait for the application; beyond them the connection is not read."""
PIECE_BYTES = 262_144
_NO_CONTENT = frozenset((204, 304))


class Channel(Protocol):
    """What a call needs of its connection."""

    @property
    def ending(self) -> bool:
        """Whether this request is the last one."""
        ...

    def write(self, data: bytes | memoryview) -> None:
        """Hand bytes to the transport; without effect when the peer has left."""
        ...

    async def drained(self) -> None:
        """Wait until the peer has taken most of what was written, or has left."""
        ...

    def balance(self) -> None:
        """Read on, or no longer, by what waits now."""
        ...


class Call:
    """A request that is being served.

    The application runs one call of a connection at a time. `receive` waits for the body, after it for the
    end of the exchange; `send` keeps the head back until the first bytes of the body.
    """

    __slots__ = (
        "_bodiless",
        "_body",
        "_channel",
        "_data",
        "_expects",
        "_framing",
        "_head",
        "_news",
        "_opening",
        "_sent",
        "_told",
        "answered",
        "discards",
        "gone",
        "taken",
    )

    def __init__(self, channel: Channel, head: Head) -> None:
        self._channel = channel
        self._head = head
        self._body: Body = Chunked() if head.length is None else Sized(head.length)
        self._data = b""
        self._expects = head.expects_continue and head.length != 0
        self._news: asyncio.Event | None = None
        self._told = False
        self._framing: answer.Framing | None = None
        self._opening = b""
        self._bodiless = False
        self._sent = 0
        self.answered = False
        self.discards = False
        self.gone = False
        self.taken = 0

    @property
    def complete(self) -> bool:
        """Whether the whole request has arrived."""
        return self._body.complete

    @property
    def started(self) -> bool:
        """Whether the application has begun its answer."""
        return self._framing is not None

    @property
    def closes(self) -> bool:
        """Whether the connection ends with this answer."""
        return self._framing is None or self._framing.closes

    @property
    def crowded(self) -> bool:
        """Whether enough of the body waits for the application."""
        return len(self._data) > READ_AHEAD

    def scope(self, client: Address, server: Address) -> dict[str, Any]:
        """The ASGI scope of the request."""
        head = self._head
        path, _, query = head.target.partition(b"?")
        return {
            "type": "http",
            "http_version": head.version,
            "asgi": {"spec_version": "2.1", "version": "3.0"},
            "method": head.method,
            "scheme": "http",
            "path": unquote(path.decode("ascii")),
            "raw_path": path,
            "query_string": query,
            "root_path": "",
            "headers": head.fields,
            "client": client,
            "server": server,
            "state": {},
            "extensions": {},
        }

    def take(self, data: bytes) -> bytes:
        """Take what belongs to this request; gives back what follows it. Raises Refused."""
        mine, rest = self._body.feed(data)
        self._expects = False
        self.taken += len(data) - len(rest)
        if not self.discards and mine:
            self._data = self._data + mine if self._data else mine
        self._tell()
        return rest

    def leave(self) -> None:
        """The exchange is over for the application: the peer has left, or sends nonsense."""
        self.gone = True
        self._tell()

    def discard(self) -> None:
        """Nobody takes the rest of the request any more."""
        self.discards = True
        self._data = b""

    async def receive(self) -> Message:
        """The next part of the body, or that the exchange is over."""
        while True:
            if self.gone or self.answered:
                return {"type": "http.disconnect"}
            if not self._told and (self._data or self.complete):
                return self._part()
            if self._expects:
                if self.started:
                    return {"type": "http.disconnect"}  # it was never asked for, and will not come
                self._expects = False
                self._channel.write(answer.CONTINUE)
            if self._news is None:
                self._news = asyncio.Event()
            self._news.clear()
            await self._news.wait()

    def _part(self) -> Message:
        data, self._data = self._data, b""
        self._told = self.complete
        self._channel.balance()
        return {"type": "http.request", "body": data, "more_body": not self._told}

    async def send(self, message: Message) -> None:
        """Take a part of the answer; returns when the peer has room for more. Raises ValueError for what is
        no answer, RuntimeError for a part out of turn.
        """
        if self.gone:
            return
        kind = message["type"]
        if kind == "http.response.start" and self._framing is None:
            self._start(message)
        elif kind == "http.response.body" and self._framing is not None and not self.answered:
            await self._write(self._framing, message.get("body", b""), message.get("more_body", False))
        else:
            raise RuntimeError("This is not the next part of an answer.")

    def _start(self, message: Message) -> None:
        status = int(message["status"])
        if not 200 <= status <= 999:
            raise ValueError("This is not the status of an answer.")
        head = self._head
        self._bodiless = head.method == "HEAD" or status in _NO_CONTENT
        closes = self._expects or not head.keeps_alive or self._channel.ending
        fields = message.get("headers", ())
        self._opening, self._framing = answer.head(status, fields, head.version, self._bodiless, closes)

    async def _write(self, framing: answer.Framing, data: bytes, more: bool) -> None:
        if self._bodiless:
            data = b""
        self._sent += len(data)
        wrong = framing.length is not None and not self._bodiless and self._sent != framing.length
        if wrong and (not more or self._sent > (framing.length or 0)):
            raise ValueError("The body of the answer has another length than its head says.")
        before, after = self._opening, b""
        self._opening = b""
        if framing.chunked:
            if data:
                before, after = before + b"%x\r\n" % len(data), b"\r\n"
            if not more:
                after += answer.LAST_CHUNK
        channel = self._channel
        if len(data) <= PIECE_BYTES:
            channel.write(b"%b%b%b" % (before, data, after) if before or after else data)
        else:
            channel.write(before)
            view = memoryview(data)
            for start in range(0, len(data), PIECE_BYTES):
                channel.write(view[start : start + PIECE_BYTES])
                await channel.drained()
            channel.write(after)
        if not more:
            self.answered = True
            self._tell()
        await channel.drained()

    @property
    def whole(self) -> bool:
        """Whether the peer has the whole answer, said to be the end or not."""
        framing = self._framing
        counted = framing is not None and framing.length is not None and not self._opening
        return self.answered or (counted and framing is not None and self._sent == framing.length)

    def _tell(self) -> None:
        if self._news is not None:
            self._news.set()
