"""Any split of a stream is the same stream; no stream hangs a connection or makes it fail."""

from __future__ import annotations

import asyncio
import re
from itertools import pairwise
from typing import Any

import httptools
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness.wires import Bench, Recorded
from keyload.front.http1.body import Chunked
from keyload.front.http1.connection import PREFACE
from keyload.front.http1.head import Refused

from .hubs import run

METHODS = st.sampled_from(["GET", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "HEAD"])
TARGETS = st.from_regex(rb"/[a-z0-9/%.?&=-]{0,20}", fullmatch=True)
NAMES = st.from_regex(rb"x-[A-Za-z0-9_-]{1,10}", fullmatch=True)
VALUES = st.from_regex(rb"([!-~\x80-\xff]([ \t!-~\x80-\xff]{0,12}[!-~\x80-\xff])?)?", fullmatch=True)
BODIES = st.binary(max_size=300) | st.sampled_from([b"", b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", b"0\r\n\r\n"])


@st.composite
def chunked(draw: st.DrawFn, body: bytes) -> bytes:
    """`body` in chunks, with extensions and trailers."""
    text, at = b"", 0
    while at < len(body):
        size = draw(st.integers(1, len(body) - at))
        extension = draw(st.sampled_from([b"", b";a", b';a="b c"']))
        spelled = draw(st.sampled_from([b"%x", b"%X", b"0%x"])) % size
        text += spelled + extension + b"\r\n" + body[at : at + size] + b"\r\n"
        at += size
    return text + b"0\r\n" + draw(st.sampled_from([b"", b"x-t: 1\r\n", b"a:\r\nb: c\r\n"])) + b"\r\n"


@st.composite
def requests(draw: st.DrawFn) -> tuple[Recorded, bytes]:
    """A request as the application has to see it, and its bytes."""
    method, target, body = draw(METHODS), draw(TARGETS), draw(BODIES)
    fields = [(b"Host", b"x"), *draw(st.lists(st.tuples(NAMES, VALUES), max_size=4))]
    framing = draw(st.sampled_from(["length", "chunked", "none"]))
    if framing == "length":
        fields.append((b"Content-Length", b"%d" % len(body)))
        text = body
    elif framing == "chunked":
        fields.append((b"Transfer-Encoding", draw(st.sampled_from([b"chunked", b"Chunked"]))))
        text = draw(chunked(body))
    else:
        body = text = b""
    head = b"%b %b HTTP/1.1\r\n" % (method.encode(), target)
    space = draw(st.sampled_from([b"", b" ", b"  "]))
    lines = b"".join(b"%b:%b%b%b\r\n" % (name, space, value, space) for name, value in fields)
    seen = [(name.lower(), value) for name, value in fields]
    before = draw(st.sampled_from([b"", b"\r\n"]))
    path, _, query = target.partition(b"?")
    shown = path + b"?" + query if query else path  # an empty query and none are alike to the application
    return Recorded(method, shown, seen, body), before + head + lines + b"\r\n" + text


STREAMS = st.lists(requests(), min_size=1, max_size=5)
CUTS = st.lists(st.integers(0, 2_000), max_size=12)


def split(stream: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({cut % (len(stream) + 1) for cut in cuts} | {0, len(stream)})
    return [stream[start:end] for start, end in pairwise(places)]


def served(pieces: list[bytes]) -> Bench:
    """A connection that was fed with `pieces` and then left; no callback of it has failed."""
    benches: list[Bench] = []

    async def main() -> None:
        failures: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: failures.append(context))
        bench = Bench()
        benches.append(bench)
        await bench.feed(pieces)
        await bench.hang_up()
        assert not failures

    run(main())
    return benches[0]


def statuses(written: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+) ", written)]


@given(STREAMS, CUTS)
@settings(derandomize=True, deadline=None, max_examples=150)
def test_any_split_of_a_stream_gives_the_same_requests(
    stream: list[tuple[Recorded, bytes]], cuts: list[int]
) -> None:
    bench = served(split(b"".join(text for _, text in stream), cuts))
    assert bench.seen == [request for request, _ in stream]
    assert statuses(bench.transport.written) == [200] * len(stream)


@given(STREAMS)
@settings(derandomize=True, deadline=None, max_examples=25)
def test_single_bytes_give_the_same_requests(stream: list[tuple[Recorded, bytes]]) -> None:
    text = b"".join(text for _, text in stream)
    bench = served([text[at : at + 1] for at in range(len(text))])
    assert bench.seen == [request for request, _ in stream]


PIECES = st.binary(min_size=1, max_size=4) | st.sampled_from(
    [
        *(b"\r\n", b"\n", b"\r", b"\0", b" ", b":", b"\r\n\r\n", b"0\r\n\r\n", b"HTTP/1.0", PREFACE),
        *(b"Transfer-Encoding: chunked\r\n", b"Content-Length: 5\r\n", b"Host: y\r\n"),
        *(b"Expect: 100-continue\r\n", b"Connection: close\r\n", b"Upgrade: h2c\r\n"),
        *(b"ffffffffffffffff", b"\xff" * 40, b"a" * 20_000),
    ]
)
MUTATIONS = st.lists(st.tuples(st.integers(0, 2_000), st.integers(0, 12), PIECES), min_size=1, max_size=4)


@given(STREAMS, MUTATIONS, CUTS)
@example([], [(0, 0, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")], [])
@example([], [(0, 0, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")], [])
@settings(derandomize=True, deadline=None, max_examples=250)
def test_a_broken_stream_ends_with_a_refusal_or_not_at_all(
    stream: list[tuple[Recorded, bytes]], mutations: list[tuple[int, int, bytes]], cuts: list[int]
) -> None:
    text = b"".join(text for _, text in stream)
    for place, removed, added in mutations:
        at = place % (len(text) + 1)
        text = text[:at] + added + text[at + removed :]
    bench = served(split(text, cuts))
    found = [status for status in statuses(bench.transport.written) if status != 100]
    assert set(found) <= {200, 400, 431}
    assert all(status == 200 for status in found[:-1])  # a refusal is the last word
    assert len(found) <= len(bench.seen) + 1


class Oracle:
    """What llhttp makes of the chunks of one request."""

    def __init__(self, text: bytes) -> None:
        self.body = b""
        self.complete = False
        self.refused = False
        parser = httptools.HttpRequestParser(self)
        parser.feed_data(b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n")
        try:
            parser.feed_data(text)
        except httptools.HttpParserError:
            self.refused = not self.complete

    def on_body(self, body: bytes) -> None:
        if not self.complete:
            self.body += body

    def on_message_complete(self) -> None:
        self.complete = True


@given(BODIES.flatmap(chunked), st.none() | MUTATIONS, CUTS)
@settings(derandomize=True, deadline=None, max_examples=250)
def test_chunks_mean_what_the_parser_in_c_says(
    text: bytes, mutations: list[tuple[int, int, bytes]] | None, cuts: list[int]
) -> None:
    for place, removed, added in mutations or ():
        at = place % (len(text) + 1)
        text = text[:at] + added + text[at + removed :]
    chunks, body = Chunked(), b""
    try:
        for piece in split(text, cuts):
            if not chunks.complete:
                body += chunks.feed(piece)[0]
    except Refused:
        assert mutations is not None  # it may refuse more than the parser does
        return
    oracle = Oracle(text)
    assert not oracle.refused or not chunks.complete
    assert (body, chunks.complete) == (oracle.body, oracle.complete) or oracle.refused


@pytest.mark.parametrize(
    "text",
    [
        *(
            b"g\r\n",
            b"\r\n",
            b" 1\r\n",
            b"1 \r\n",
            b"-1\r\n",
            b"0x1\r\n",
            b"11111111111111111\r\n",
            b"0" * 300,
        ),
        *(b"1\nx", b"1\r\nxy", b"1\r\nx\n", b"1\r\nx\r\r\n", b"\r\r", b"1;\0\r\n", b"1;a\rb\r\n"),
        *(
            b"0\r\n a: b\r\n",
            b"0\r\nab\r\n",
            b"0\r\na: b\n",
            b"0\r\na: \0\r\n",
            b"0\r\n" + b"a: b\r\n" * 3_000,
        ),
    ],
)
def test_malformed_chunks_are_refused(text: bytes) -> None:
    chunks = Chunked()
    with pytest.raises(Refused):
        chunks.feed(text)
