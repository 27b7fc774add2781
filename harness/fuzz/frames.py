"""Targets that read bytes of other processes and of clients: frames between them, and HTTP/1."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import h11
import msgspec

from harness.fuzz.source import Source, attempt
from harness.wires import Bench, Recorded
from keyload.consensus.errors import MalformedMessage
from keyload.consensus.messages import Entry, Message, MessageKind, decode_messages, encode_messages
from keyload.contract.errors import KeyLoadError
from keyload.front.http1.connection import PREFACE
from keyload.link import framing, messages
from keyload.storage.manifest import unpack_manifest

_GUARD = bytes(32)


def frames(data: bytes) -> None:
    """A frame is refused as a whole, or means the same when it is packed again; so do the consensus messages
    and manifests that it carries."""
    source = Source(data)
    direction = source.number() % 3
    frame = source.rest()
    try:
        if direction == 0:
            content = framing.unpack_from_front(frame)
            again = framing.unpack_from_front(framing.pack(content))
        elif direction == 1:
            content = framing.unpack_from_worker(frame)
            again = framing.unpack_from_worker(framing.pack(content))
        else:
            content = framing.unpack_from_peer(frame).messages
            again = framing.unpack_from_peer(framing.pack_peer(_GUARD, content)).messages
    except framing.FrameError:
        _consensus(frame)
        return
    assert again == content
    for message in content:
        match message:
            case messages.Raft():
                _consensus(message.payload)
            case messages.SnapshotOffer():
                attempt(lambda manifest=message.manifest: unpack_manifest(manifest), KeyLoadError)
            case _:
                pass


def _consensus(payload: bytes) -> None:
    try:
        found = decode_messages(payload)
    except MalformedMessage:
        return
    assert decode_messages(encode_messages(found)) == found


def frames_seeds() -> Iterator[bytes]:
    """One frame in each direction with each kind of message, and consensus messages."""
    partition = ("t", "d", "x", "p")
    command = messages.Command(1, 2, "op", "me", 3, bytes(16), bytes(32), partition, b"\x80", True, 7)
    read = messages.Read(1, 2, "op", "me", 3, None, b"\x80")
    catalog = messages.CatalogDelta(9, True, [("keys", ("a", "b"), b"x"), ("keys", (), None)])
    to_worker = [command, read, messages.Barrier(1), messages.Cancel(1), catalog, messages.Usage(2)]
    to_front = [messages.Reply(1, b"{}"), messages.Refusal(1, b"", True), messages.Confirmed(1, 2), catalog]
    more = [messages.Fault("x"), messages.Ready(1, [0, 2], True), messages.Evidence(1, read)]
    entry = Entry(2, 5, b"data")
    raft = encode_messages(
        [
            Message(MessageKind.APPEND, 1, 2, 3, index=4, log_term=2, entries=(entry,), commit=3),
            Message(MessageKind.PRE_VOTE, 1, 2, 3, index=4, log_term=2),
        ]
    )
    peers = [messages.Raft(1, raft), messages.Forward(1, 2, command), messages.ForwardReply(1, False, b"")]
    peers += [messages.Condition(5, True), messages.SnapshotOffer(1, b"{}")]
    peers += [messages.SnapshotWant(1, "a", 0), messages.SnapshotChunk(1, "a", 0, b"x")]
    yield b"\x00" + framing.pack([*to_worker, messages.BackupShard(1, 0, "0" * 32)])
    yield b"\x01" + framing.pack([*to_front, *more, messages.Errand(1, command)])
    yield b"\x02" + framing.pack_peer(_GUARD, peers)
    yield b"\x03" + raft


_DATE = re.compile(rb"date: [^\r]*\r\n")
_STATUS = re.compile(rb"HTTP/1\.1 (\d+) ")
_loop = asyncio.new_event_loop()


def http1(data: bytes) -> None:
    """Any split of a stream is the same stream; a refusal is the last word; what is accepted means the same
    to another parser that accepts it."""
    source = Source(data)
    cuts = [source.number(2) for _ in range(source.number() % 6)]
    stream = source.rest()
    whole = _served([stream])
    places = sorted({cut % (len(stream) + 1) for cut in cuts} | {0, len(stream)})
    split = _served([stream[start:end] for start, end in pairwise(places)])
    assert _complete(split) == _complete(whole)
    assert _undated(split) == _undated(whole)
    found = [int(status) for status in _STATUS.findall(whole.transport.written)]
    final = [status for status in found if status != 100]
    assert set(final) <= {200, 400, 431}
    assert all(status == 200 for status in final[:-1])
    if whole.handed is None:
        for ours, theirs in zip(_complete(whole), _other_parser(stream), strict=False):
            assert _plain(ours) == _plain(theirs)


def _plain(request: Recorded) -> Recorded:
    """With the coding in lower case, as the other parser gives it, and without the mark of an empty query, of
    which ASGI says nothing."""
    fields = [
        (name, value.lower() if name == b"transfer-encoding" else value) for name, value in request.fields
    ]
    path, _, query = request.target.partition(b"?")
    return msgspec.structs.replace(request, target=path + b"?" + query if query else path, fields=fields)


def _complete(bench: Bench) -> list[Recorded]:
    """The requests that came whole. One that breaks off is begun or not, as its first bytes arrive."""
    return [request for request in bench.seen if request.body is not None]


def _undated(bench: Bench) -> bytes:
    return _DATE.sub(b"", bench.transport.written)


def _served(pieces: list[bytes]) -> Bench:
    """A connection that was fed with `pieces` and then left; no callback of it has failed."""

    async def main() -> Bench:
        failures: list[dict[str, Any]] = []
        _loop.set_exception_handler(lambda loop, context: failures.append(context))
        bench = Bench()
        await bench.feed(pieces)
        await bench.hang_up()
        assert not failures, failures[0]
        return bench

    return _loop.run_until_complete(main())


def _other_parser(stream: bytes) -> Iterator[Recorded]:
    """The complete requests that h11 finds, until it finds none or refuses."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
    connection.receive_data(stream)
    request: Any = None
    body = b""
    try:
        while True:
            match connection.next_event():
                case h11.Request() as request:
                    body = b""
                case h11.Data(data=data):
                    body += data
                case h11.EndOfMessage():
                    fields = [(bytes(name), bytes(value)) for name, value in request.headers]
                    yield Recorded(request.method.decode(), bytes(request.target), fields, body)
                    connection.send(h11.Response(status_code=200, headers=[(b"content-length", b"0")]))
                    connection.send(h11.EndOfMessage())
                    connection.start_next_cycle()
                case _:
                    return
    except h11.ProtocolError:
        return


def http1_seeds() -> Iterator[bytes]:
    """Requests of every framing, one behind the other, and what must not pass."""
    get = b"GET /a?b=c HTTP/1.1\r\nHost: x\r\n\r\n"
    post = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nX-A: b\r\n\r\nabc"
    chunked = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunked += b"3;a=b\r\nabc\r\n0\r\nT: x\r\n\r\n"
    expect = b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\nz"
    old = b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
    both = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    twice = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"
    upgrade = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n"
    folded = b"GET / HTTP/1.1\r\nHost: x\r\nX: a\r\n b\r\n\r\n"
    for stream in (get, post, chunked, expect, old, both, twice, upgrade, folded, PREFACE + b"SM\r\n\r\n"):
        yield b"\x00" + stream
        yield b"\x03\x00\x05\x00\x20\x00\x33" + stream + get
    yield b"\x01\x00\x40" + get + post + chunked + get
