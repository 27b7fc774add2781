"""The other side of a worker link: a thread that speaks the link protocol over a real ZeroMQ socket."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import zmq

from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.link.framing import pack, unpack_from_front
from keyload.link.messages import (
    Barrier,
    CatalogDelta,
    Command,
    Confirmed,
    Read,
    Ready,
    Refusal,
    Reply,
    Usage,
)

Behaviour = Callable[[Any], Iterable[Any]]
USAGE = {
    "worker": 0,
    "processId": 1,
    "commands": 3,
    "retainedBytes": 300,
    "controlCommands": 1,
    "controlRetainedBytes": 100,
    "tenants": ["t"],
    "principals": ["a", "b"],
    "shards": [],
    "accelerated": {},
}


def refusal(call: int, code: ErrorCode, detail: str = "Refused.") -> Refusal:
    return Refusal(call, msgspec.msgpack.encode(KeyLoadError(code, detail).problem))


class WorkerPeer:
    """One worker. `behaviour` may be exchanged while it runs; what it yields is sent back in one frame."""

    def __init__(self, worker: int, endpoint: str, catalog: CatalogDelta | None = None) -> None:
        self.worker = worker
        self.received: list[Any] = []
        self.frames: list[list[Any]] = []
        self.behaviour: Behaviour = self.answer
        self.version = catalog.version if catalog is not None else 0
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._said = self._context.socket(zmq.PUSH)
        self._said.bind("inproc://said")
        hello: list[Any] = [] if catalog is None else [catalog]
        hello.append(Ready(worker, [worker], True))
        self._thread = threading.Thread(target=self._run, args=(endpoint, hello))
        self._thread.start()

    def say(self, *messages: Any) -> None:
        self._said.send(pack(messages))

    def say_frame(self, frame: bytes) -> None:
        self._said.send(frame)

    def stop(self) -> None:
        self._said.send(b"")
        self._thread.join(10)
        assert not self._thread.is_alive()
        self._said.close(0)
        self._context.term()

    def answer(self, message: Any) -> Iterable[Any]:
        match message:
            case Barrier():
                yield Confirmed(message.call, self.version)
            case Usage():
                yield Reply(message.call, msgspec.json.encode(USAGE))
            case Read() | Command():
                yield Reply(message.call, self.result(message))
            case _:
                pass

    def result(self, message: Read | Command) -> bytes:
        return msgspec.json.encode({"operation": message.operation, "worker": self.worker})

    def _run(self, endpoint: str, hello: list[Any]) -> None:
        link = self._context.socket(zmq.DEALER)
        link.setsockopt(zmq.LINGER, 0)
        link.connect(endpoint)
        told = self._context.socket(zmq.PULL)
        told.connect("inproc://said")
        poller = zmq.Poller()
        poller.register(link, zmq.POLLIN)
        poller.register(told, zmq.POLLIN)
        link.send(pack(hello))
        while True:
            for socket, _ in poller.poll():
                frame = socket.recv()
                if socket is told:
                    if not frame:
                        link.close()
                        told.close()
                        return
                    link.send(frame)
                else:
                    self._take(link, frame)

    def _take(self, link: zmq.Socket[bytes], frame: bytes) -> None:
        messages = unpack_from_front(frame)
        self.frames.append(messages)
        self.received.extend(messages)
        answers = [answer for message in messages for answer in self.behaviour(message)]
        if answers:
            link.send(pack(answers))
