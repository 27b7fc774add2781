"""Reading a request's body and writing its answer, bounded in bytes and time.

No server below limits the time of both, and Hypercorn (HTTP/2) never finishes an answer while chunks of the
request that nobody took wait in its queue. So an answer that is given early is written completely first, then
the rest of the request is read and thrown away within bounds, and only then is the answer declared finished.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from typing import Any, TypeVar

import msgspec

from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.front.admission import body_too_large
from keyload.front.responses import Response
from keyload.link import log

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_Result = TypeVar("_Result")

LENGTH_DIGITS = 18
LINGER_BYTES = 64 << 20
"""How much of a refused request is still read, so that its sender comes to see the answer."""


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of an exchange, in seconds: body read, answer written, rest of a refused request skipped."""

    body: float = 30.0
    write: float = 30.0
    linger: float = 5.0


class Disconnected(Exception):
    """The peer left before its request was complete; nobody waits for an answer."""


class Exchange:
    """One request and its answer."""

    __slots__ = ("_send", "_timeouts", "complete", "gone", "receive", "scope", "started")

    def __init__(self, scope: Scope, receive: Receive, send: Send, timeouts: Timeouts) -> None:
        self.scope = scope
        self.complete = False
        self.gone = False
        self.started = False
        self.receive = receive
        self._send = send
        self._timeouts = timeouts

    def declared_length(self) -> int | None:
        """Length of the body by the request's own word, None when it is streamed."""
        for name, value in self.scope["headers"]:
            if name == b"transfer-encoding":
                return None
            if name == b"content-length":
                return int(value) if value.isdigit() and len(value) <= LENGTH_DIGITS else None
        return 0 if self.scope["http_version"].startswith("1") else None

    async def read(self, cap: int, on_growth: Callable[[int], None] | None = None) -> bytes:
        """The whole body. Raises ResourceExhausted above `cap` bytes, Cancelled when it takes too long,
        Disconnected.

        `on_growth` hears of the bytes received so far before more are taken.
        """
        chunks: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._timeouts.body):
                while not self.complete:
                    chunk = await self._take()
                    size += len(chunk)
                    if size > cap:
                        raise body_too_large(cap)
                    if on_growth is not None:
                        on_growth(size)
                    chunks.append(chunk)
        except TimeoutError:
            log.event(log.Category.BODY_TIMEOUT)
            raise KeyLoadError(
                ErrorCode.CANCELLED, "The body of the request did not arrive in time."
            ) from None
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    async def write(self, response: Response) -> None:
        """Send the answer down to its last byte."""
        length = (b"content-length", str(len(response.body)).encode())
        start = {
            "type": "http.response.start",
            "status": response.status,
            "headers": [*response.headers, length],
        }
        body = {"type": "http.response.body", "body": response.body, "more_body": not self.complete}
        try:
            async with asyncio.timeout(self._timeouts.write):
                await self._send(start)
                await self._send(body)
        except TimeoutError:
            self._stalled()

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Pass on one ASGI message of an application behind the edge, in time or not at all (raises
        Disconnected).
        """
        self.started = True
        try:
            async with asyncio.timeout(self._timeouts.write):
                await self._send(message)
        except TimeoutError:
            self._stalled()
            raise Disconnected from None

    async def finish(self) -> None:
        """After an early answer: take the rest of the request, within bounds, then declare the answer
        finished.
        """
        if self.complete or self.gone:
            return
        taken = 0
        try:
            async with asyncio.timeout(self._timeouts.linger):
                while not self.complete and taken < LINGER_BYTES:
                    taken += len(await self._take())
        except TimeoutError:
            pass
        except Disconnected:
            return
        draining = asyncio.create_task(self._drain())
        try:
            async with asyncio.timeout(self._timeouts.write):
                await self._send({"type": "http.response.body", "body": b"", "more_body": False})
                await draining
        except TimeoutError:
            self._stalled()
        finally:
            draining.cancel()

    def _stalled(self) -> None:
        """The peer does not read; the kernel drops the connection (`TCP_USER_TIMEOUT` of the listener)."""
        self.gone = True
        log.event(log.Category.WRITE_TIMEOUT)

    async def while_connected(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Do `work` while the peer stays; when it leaves, the work is cancelled, awaited, and Disconnected
        raised.

        The whole request must have been read.
        """
        working = asyncio.ensure_future(work)
        leaving = asyncio.create_task(self._drain())
        try:
            await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                self.gone = True
                raise Disconnected
            return await working
        finally:
            leaving.cancel()
            working.cancel()
            await asyncio.wait((working, leaving))

    async def _take(self) -> bytes:
        message = await self.receive()
        if message["type"] == "http.disconnect":
            self.gone = True
            raise Disconnected
        self.complete = not message.get("more_body", False)
        return message.get("body", b"")

    async def _drain(self) -> None:
        """Take whatever comes until the server says that the exchange is over."""
        while (await self.receive())["type"] != "http.disconnect":
            pass
