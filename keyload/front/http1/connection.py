"""A connection that speaks HTTP/1.1: requests in turn, one task for the application of each.

At any time one deadline stands: for the next request while none runs, for the peer to take what was written
while it does not, for the rest of a request whose answer is complete. The server looks at the deadlines of
all connections now and then (`expire`); there is no timer for each.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, cast

from keyload.front.exchange import LINGER_BYTES, Timeouts
from keyload.front.http1 import answer
from keyload.front.http1 import head as heads
from keyload.front.http1.call import READ_AHEAD, Address, Call
from keyload.front.http1.head import Head, Refused
from keyload.link import log

PREFACE = b"PRI * HTTP/2.0\r\n\r\n"
MAX_REQUESTS = 1_000_000
MAX_EMPTY_BYTES = 64
"""Of empty lines before a request, which clients of old sent behind a body."""

_EMPTY_LINES = re.compile(rb"(?:\r\n)+")


class Host(Protocol):
    """What connections need of their server."""

    application: Callable[[Any, Any, Any], Awaitable[None]]
    keep_alive: float
    timeouts: Timeouts

    def admit(self, connection: Connection) -> bool:
        """Whether there is room for another connection; if so, it counts from now on."""
        ...

    def forget(self, connection: Connection) -> None:
        """The connection is over, and so is its last call."""
        ...

    def hand_over(self, transport: asyncio.Transport, begun: bytes) -> None:
        """Serve a connection that wants another protocol; `begun` are its unread bytes."""
        ...


class Connection(asyncio.Protocol):
    """One connection from its first byte to its last, unless it is handed over."""

    def __init__(self, host: Host, loop: asyncio.AbstractEventLoop) -> None:
        self._host = host
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._client: Address = None
        self._server: Address = None
        self._buffer = b""
        self._skipped = 0
        self._searched = 0  # so much of the buffer holds no end of a head
        self._call: Call | None = None
        self._task: asyncio.Task[None] | None = None
        self._deadline = math.inf
        self._writable: asyncio.Event | None = None  # while the peer does not take what was written
        self._reads = True
        self._refused = False  # nothing is understood any more, only thrown away
        self._requests = 0
        self.ending = False

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, if there is room."""
        self._transport = cast("asyncio.Transport", transport)
        if not self._host.admit(self):
            log.event(log.Category.CONNECTION_REFUSED)
            self._transport.abort()
            return
        self._client = _address(transport.get_extra_info("peername"))
        self._server = _address(transport.get_extra_info("sockname"))
        self._deadline = self._loop.time() + self._host.keep_alive

    def data_received(self, data: bytes) -> None:
        """Give the running request what is its own; the rest waits for its turn."""
        if self._refused:
            return
        call = self._call
        if call is not None and not call.complete:
            try:
                data = call.take(data)
            except Refused as error:
                self._refuse(error.status)
                return
            if call.discards and (call.complete or call.taken > LINGER_BYTES):
                self._next_or_end(call)
        if data:
            self._buffer = self._buffer + data if self._buffer else data
            if self._call is None:
                self._next()
        self.balance()

    def pause_writing(self) -> None:
        """The peer takes less than is written."""
        self._writable = asyncio.Event()
        self._deadline = self._loop.time() + self._host.timeouts.write

    def resume_writing(self) -> None:
        """The peer has taken it."""
        self._release_writer()
        if self._task is not None:
            self._deadline = math.inf
        else:
            lingers = self._refused or self._call is not None
            patience = self._host.timeouts.linger if lingers else self._host.keep_alive
            self._deadline = self._loop.time() + patience

    def connection_lost(self, exc: Exception | None) -> None:
        """The peer has left, or was left."""
        if exc is not None and not isinstance(exc, ConnectionError):
            log.failure(log.Category.CONNECTION_FAILED, exc)
        self._transport = None
        self._buffer = b""
        self._release_writer()
        if self._call is not None:
            self._call.leave()
        if self._task is None:
            self._host.forget(self)

    # for the call

    def write(self, data: bytes | memoryview) -> None:
        """Hand bytes to the transport; without effect when the peer has left."""
        transport = self._transport
        if data and transport is not None and not transport.is_closing():
            transport.write(data)

    async def drained(self) -> None:
        """Wait until the peer has taken most of what was written, or has left."""
        if self._writable is not None:
            await self._writable.wait()

    def balance(self) -> None:
        """Stop reading while enough waits, and read on when it does not."""
        call = self._call
        reads = call is None or not (call.crowded or len(self._buffer) > READ_AHEAD)
        transport = self._transport
        if reads == self._reads or transport is None or transport.is_closing():
            return
        self._reads = reads
        if reads:
            transport.resume_reading()
        else:
            transport.pause_reading()

    # for the server

    def expire(self, now: float) -> None:
        """Close the connection when its deadline is over."""
        transport = self._transport
        if now < self._deadline or transport is None:
            return
        if not transport.is_closing() and not transport.get_write_buffer_size():
            transport.close()
        else:
            log.event(log.Category.WRITE_TIMEOUT)
            transport.abort()

    def end(self) -> None:
        """Close when the running request is answered, at once if none runs."""
        self.ending = True
        if self._task is None and self._transport is not None:
            self._transport.close()

    def cut(self) -> asyncio.Task[None] | None:
        """Stop in the middle of whatever runs; gives the task that ends for it."""
        if self._transport is not None:
            self._transport.abort()
        if self._task is not None:
            self._task.cancel()
        return self._task

    # requests in turn

    def _next(self) -> None:
        """Begin with the next request when its head is here."""
        empty = _EMPTY_LINES.match(self._buffer)
        if empty is not None:
            self._buffer = self._buffer[empty.end() :]
            self._searched = 0
            self._skipped += empty.end()
            if self._skipped > MAX_EMPTY_BYTES:
                self._refuse(400)
                return
        buffer = self._buffer
        at = buffer.find(heads.END, self._searched)
        try:
            if at < 0:
                heads.check_begun(buffer, self._searched)
                self._searched = max(0, len(buffer) - len(heads.END) + 1)
                return
            self._searched = 0
            end = at + len(heads.END)
            if buffer.startswith(PREFACE) and not self._requests:
                self._hand_over()
                return
            head = heads.parse(buffer[:end])
            if head.upgrades:
                self._hand_over()
                return
            self._buffer = buffer[end:]
            self._begin(head)
        except Refused as error:
            self._refuse(error.status)

    def _begin(self, head: Head) -> None:
        self._requests += 1
        self._skipped = 0
        if self._requests >= MAX_REQUESTS:
            self.ending = True
        call = Call(self, head)
        if self._buffer and not call.complete:
            self._buffer = call.take(self._buffer)
        self._call = call
        self._deadline = math.inf
        self._task = self._loop.create_task(self._run(call))

    async def _run(self, call: Call) -> None:
        scope = call.scope(self._client, self._server)
        try:
            await self._host.application(scope, call.receive, call.send)
        except asyncio.CancelledError:
            self._close(at_once=True)  # the grace of the server is over
        except Exception as error:
            log.failure(log.Category.REQUEST_FAILED, error)
        self._task = None
        if self._transport is None:
            self._host.forget(self)
        elif (call.started and not call.whole) or self._writable is not None:
            log.event(log.Category.CONNECTION_FAILED)
            self._close(at_once=True)
        else:
            if not call.started and not call.gone:
                self.write(answer.empty(500))
            self._next_or_end(call)

    def _next_or_end(self, call: Call) -> None:
        """After an answer: the next request, if there may be one."""
        if call.gone:
            return  # refused in its middle; `_refuse` has said what happens
        if call.complete and not call.closes and not self.ending:
            self._call = None
            self._deadline = self._loop.time() + self._host.keep_alive
            if self._buffer:
                self._next()
            self.balance()
        elif call.complete or call.taken > LINGER_BYTES:
            self._close()
        elif not call.discards:
            call.discard()
            self._linger(call.closes)

    def _linger(self, last: bool) -> None:
        """Throw away what still comes, for a while; when nothing will be sent any more, the peer sees it."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        self._deadline = self._loop.time() + self._host.timeouts.linger
        if last and transport.can_write_eof():
            transport.write_eof()
        self.balance()

    def _refuse(self, status: int) -> None:
        """Say what is wrong, and throw away what still comes until the peer has seen it."""
        call = self._call
        self._refused = True
        self._buffer = b""
        if call is not None:
            call.leave()
            call.discard()
            if call.started and not call.whole:
                self._close()
                return
        if call is None or not call.started:
            self.write(answer.empty(status))
        self._linger(True)

    def _hand_over(self) -> None:
        transport, begun = self._transport, self._buffer
        assert transport is not None
        self._transport, self._buffer = None, b""
        self._host.forget(self)
        self._host.hand_over(transport, begun)
        if not self._reads:
            transport.resume_reading()

    def _close(self, *, at_once: bool = False) -> None:
        if self._transport is None:
            return
        if at_once:
            self._transport.abort()
        else:
            self._transport.close()

    def _release_writer(self) -> None:
        if self._writable is not None:
            self._writable.set()
            self._writable = None


def _address(name: object) -> Address:
    """Host and port of a socket name, also of the longer ones of IPv6."""
    if not isinstance(name, tuple):
        return None
    host, port = cast("tuple[str, int]", name[:2])
    return host, port
