"""A server that plays a script: what it answers to the first request, the second, and so on."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

import msgspec

from keyload.contract.errors import ERRORS, ErrorCode, KeyLoadError

REQUEST_ID = "11111111-2222-4333-8444-555555555555"


class Request(msgspec.Struct, frozen=True):
    """What came in."""

    line: str
    headers: dict[str, str]
    body: bytes


Step = Callable[[socket.socket, Request], bool]
"""Answers one request; says whether the connection lives on."""


def reply(
    status: int, body: bytes, *, content_type: str = "application/json", length: int | None = None
) -> Step:
    def step(connection: socket.socket, request: Request) -> bool:
        head = (
            f"HTTP/1.1 {status} X\r\ncontent-type: {content_type}\r\nx-keyload-request-id: {REQUEST_ID}\r\n"
            f"content-length: {len(body) if length is None else length}\r\n\r\n"
        )
        connection.sendall(head.encode() + body)
        return length is None or length == len(body)

    return step


def problem(code: ErrorCode, **changes: object) -> Step:
    body = msgspec.json.encode(KeyLoadError(code, "Said so.").problem)
    tree = {**msgspec.json.decode(body), **changes}
    status = ERRORS[code].http_status
    return reply(status, msgspec.json.encode(tree), content_type="application/problem+json")


def hang_up(connection: socket.socket, request: Request) -> bool:
    return False


def say_nothing(connection: socket.socket, request: Request) -> bool:
    """Waits until the peer gives up."""
    connection.settimeout(20)
    assert connection.recv(1) == b""
    return False


class ScriptedServer:
    """Serves on a free loopback port; the last step of the script is repeated."""

    def __init__(self, *script: Step) -> None:
        self.requests: list[Request] = []
        self.connections = 0
        self._script = list(script)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._open: list[socket.socket] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            with suppress(OSError):  # it was closed before
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(20)
            assert not thread.is_alive()

    def _start(self, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(connection)
            self._start(lambda connection=connection: self._serve(connection))

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            try:
                while line := stream.readline():
                    request = self._read(line, stream)
                    with self._lock:
                        self.requests.append(request)
                        step = self._script.pop(0) if len(self._script) > 1 else self._script[0]
                    if not step(connection, request):
                        return
            except OSError:
                return

    def _read(self, line: bytes, stream: object) -> Request:
        headers: dict[str, str] = {}
        while (header := stream.readline().decode().strip()) != "":  # type: ignore[attr-defined]
            name, _, value = header.partition(": ")
            headers[name.lower()] = value
        body = stream.read(int(headers.get("content-length", "0")))  # type: ignore[attr-defined]
        return Request(line.decode().strip(), headers, body)


def refused_address() -> str:
    """An address nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"
