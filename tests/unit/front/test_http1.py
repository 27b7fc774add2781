"""HTTP/1.1 over real connections: order, bounds, framing, and the peers that do not behave."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.wires import BRIEF, body_of, say
from keyload.front.exchange import Timeouts
from keyload.front.http1 import connection

from .hubs import run, until
from .wires import Served, Wire, echo, serving

GET = b"GET /a HTTP/1.1\r\nhost: x\r\n\r\n"
POST = b"POST /p HTTP/1.1\r\nhost: x\r\n"
CHUNKED = b"transfer-encoding: chunked\r\n\r\n"


def sized(body: bytes) -> bytes:
    return POST + b"content-length: %d\r\n\r\n" % len(body) + body


async def works_on(wire: Wire) -> None:
    """The connection serves another request."""
    wire.send(GET)
    assert (await wire.answer()).body == b"GET /a "


def test_pipelined_requests_are_answered_in_order() -> None:
    async def main() -> None:
        async with serving(echo) as served:
            wire = await served.wire()
            wire.send(GET, sized(b"1"), POST, CHUNKED, b"2\r\n23\r\n1\r\n4\r\n0\r\n\r\n", GET * 300)
            assert (await wire.answer()).body == b"GET /a "
            assert (await wire.answer()).body == b"POST /p 1"
            assert (await wire.answer()).body == b"POST /p 234"
            for _ in range(300):
                assert (await wire.answer()).body == b"GET /a "
            await works_on(wire)

    run(main())


def test_large_bodies_pass_both_ways() -> None:
    async def main() -> None:
        async with serving(echo) as served:
            wire = await served.wire()
            body = bytes(range(256)) * 20_000
            wire.send(sized(body))
            assert (await wire.answer()).body == b"POST /p " + body
            wire.send(POST, CHUNKED)
            for start in range(0, len(body), 100_000):
                piece = body[start : start + 100_000]
                wire.send(b"%x\r\n" % len(piece), piece, b"\r\n")
            wire.send(b"0\r\n\r\n")
            assert (await wire.answer()).body == b"POST /p " + body
            await works_on(wire)

    run(main())


@pytest.mark.parametrize(
    "data",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/1.1\n",
        b"GET / HTTP/1.1\n\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\nhost: x\r\n\r\n",
        b"GET / HTTP/2.0\r\nhost: x\r\n\r\n",
        b"GET / HTTP/0.9\r\nhost: x\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET  / HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nhost: x\r\n\r\n",
        b"get / HTTP/1.1\r\nhost: x\r\n\r\n",
        b"BREW / HTTP/1.1\r\nhost: x\r\n\r\n",
        b"DESCRIBE / RTSP/1.0\r\nhost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\na: b\r\n c\r\n\r\n",
        b"GET / HTTP/1.1\r\n host: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost : x\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\na: b\0\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\na: b\rc\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\na: b\nc: d\r\n\r\n",
        POST + b"content-length: 1\r\ncontent-length: 2\r\n\r\n1",
        POST + b"content-length: 1, 1\r\n\r\n1",
        POST + b"content-length: +1\r\n\r\n1",
        POST + b"content-length: 1000000000000000000\r\n\r\n1",
        POST + b"content-length: 3\r\n" + CHUNKED + b"0\r\n\r\n",
        POST + b"transfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n0\r\n\r\n",
        POST + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        POST + b"transfer-encoding: chunked\r\n" + CHUNKED + b"0\r\n\r\n",
        POST + b"transfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.0\r\nhost: x\r\n" + CHUNKED + b"0\r\n\r\n",
        POST + CHUNKED + b"1\r\nxy\r\n",
        POST + CHUNKED + b"zz\r\n",
    ],
)
def test_doubtful_requests_are_refused_and_end_the_connection(data: bytes) -> None:
    async def main() -> None:
        seen: list[str] = []

        async def application(scope: Any, receive: Any, send: Any) -> None:
            await body_of(receive)
            seen.append(scope["path"])
            await echo(scope, receive, send)

        async with serving(application) as served:
            wire = await served.wire()
            wire.send(data, GET)
            answer = await wire.answer()
            assert (answer.status, answer.fields["connection"], answer.body) == (400, "close", b"")
            assert await wire.ended()
        assert "/a" not in seen  # nothing behind a doubtful request is looked at

    run(main())


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET / HTTP/1.1\r\nhost: x\r\n" + b"a: b\r\n" * 99 + b"\r\n", 200),
        (b"GET / HTTP/1.1\r\nhost: x\r\n" + b"a: b\r\n" * 100 + b"\r\n", 431),
        (b"GET /%b HTTP/1.1\r\nhost: x\r\n\r\n" % (b"a" * (16_384 - 27)), 200),
        (b"GET /%b HTTP/1.1\r\nhost: x\r\n\r\n" % (b"a" * (16_384 - 26)), 431),
        (b"GET / HTTP/1.1\r\nhost: x\r\na: " + b"a" * 16_384, 431),
        (b"a" * 16_384, 431),
        (b"\r\n" * 32 + GET, 200),
        (b"\r\n" * 33 + GET, 400),
        (b"\r\n" * 4_000_000, 400),
    ],
)
def test_heads_are_bounded(head: bytes, status: int) -> None:
    async def main() -> None:
        async with serving(echo) as served:
            wire = await served.wire()
            wire.send(head)
            assert (await wire.answer()).status == status

    run(main())


def test_a_continuation_is_sent_when_the_body_is_wanted() -> None:
    async def main() -> None:
        async with serving(echo) as served:
            wire = await served.wire()
            for _ in range(2):
                wire.send(POST, b"expect: 100-continue\r\ncontent-length: 2\r\n\r\n")
                assert (await wire.answer()).status == 100
                wire.send(b"ok")
                assert (await wire.answer()).body == b"POST /p ok"
            wire.send(POST, b"expect: 100-continue\r\ncontent-length: 2\r\n\r\nok")
            assert (await wire.answer()).body == b"POST /p ok"  # it did not wait
            await works_on(wire)

    run(main())


def test_a_body_that_is_not_wanted_is_not_asked_for() -> None:
    async def main() -> None:
        told: list[str] = []

        async def application(scope: Any, receive: Any, send: Any) -> None:
            await say(send, b"no", status=413)
            told.append((await receive())["type"])

        async with serving(application, timeouts=Timeouts(linger=20.0)) as served:
            wire = await served.wire()
            wire.send(POST, b"expect: 100-continue\r\ncontent-length: 2\r\n\r\n")
            answer = await wire.answer()
            assert (answer.status, answer.fields["connection"]) == (413, "close")
            assert await wire.ended()
        assert told == ["http.disconnect"]

    run(main())


def test_a_head_has_no_body_and_no_content_has_none() -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        await say(send, b"body", status=int(scope["path"][1:]))

    async def main() -> None:
        async with serving(application) as served:
            wire = await served.wire()
            wire.send(b"HEAD /200 HTTP/1.1\r\nhost: x\r\n\r\n")
            answer = await wire.answer(bodiless=True)
            assert (answer.status, answer.fields["content-length"]) == (200, "4")
            for status in (204, 304):
                wire.send(b"GET /%d HTTP/1.1\r\nhost: x\r\n\r\n" % status)
                assert (await wire.answer(bodiless=True)).status == status
            wire.send(b"GET /200 HTTP/1.1\r\nhost: x\r\n\r\n")
            assert (await wire.answer()).body == b"body"

    run(main())


@pytest.mark.parametrize(
    "head",
    [
        b"GET /a HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
        b"GET /a HTTP/1.1\r\nhost: x\r\nConnection: x, Close\r\n\r\n",
        b"GET /a HTTP/1.0\r\n\r\n",
        b"GET /a HTTP/1.0\r\nconnection: keep-alive\r\n\r\n",
    ],
)
def test_the_connection_closes_when_it_is_to(head: bytes) -> None:
    async def main() -> None:
        async with serving(echo) as served:
            wire = await served.wire()
            wire.send(head, GET)
            answer = await wire.answer()
            assert (answer.body, answer.fields["connection"]) == (b"GET /a ", "close")
            assert await wire.ended()

    run(main())


async def two_parts(scope: Any, receive: Any, send: Any) -> None:
    """An answer of unknown length."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"one ", "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": True})
    await send({"type": "http.response.body", "body": b"two", "more_body": True})
    await send({"type": "http.response.body"})


def test_an_answer_of_unknown_length_comes_in_chunks_or_ends_with_the_connection() -> None:
    async def main() -> None:
        async with serving(two_parts) as served:
            wire = await served.wire()
            wire.send(GET, GET)
            for _ in range(2):
                answer = await wire.answer()
                assert (answer.body, answer.fields["transfer-encoding"]) == (b"one two", "chunked")
            old = await served.wire()
            old.send(b"GET / HTTP/1.0\r\n\r\n")
            answer = await old.answer()
            assert answer.body == b"one two"
            assert "transfer-encoding" not in answer.fields

    run(main())


async def early(scope: Any, receive: Any, send: Any) -> None:
    """Answers without a look at the body."""
    await say(send, b"early")


@pytest.mark.covers("ADM-7")
def test_the_rest_of_an_early_answered_request_is_thrown_away() -> None:
    async def main() -> None:
        async with serving(early, timeouts=Timeouts(linger=20.0)) as served:
            wire = await served.wire()
            wire.send(POST, CHUNKED, b"1\r\nx\r\n")
            assert (await wire.answer()).body == b"early"
            for _ in range(200):
                wire.send(b"400\r\n", b"x" * 1_024, b"\r\n")
            wire.send(b"0\r\n\r\n", GET)
            assert (await wire.answer()).body == b"early"

    run(main())


@pytest.mark.covers("ADM-7")
def test_an_early_answered_request_that_never_ends_is_cut_off() -> None:
    async def main() -> None:
        async with serving(early) as served:
            wire = await served.wire()
            wire.send(POST, CHUNKED, b"1\r\nx\r\n")
            assert (await wire.answer()).body == b"early"
            assert await wire.ended()

    run(main())


def test_a_refused_request_that_goes_on_and_on_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "LINGER_BYTES", 100_000)

    async def main() -> None:
        async with serving(early, timeouts=Timeouts(linger=20.0)) as served:
            wire = await served.wire()
            wire.send(POST, b"content-length: 900000000\r\n\r\n")
            assert (await wire.answer()).body == b"early"
            wire.send(b"x" * 200_000)
            assert await wire.ended()

    run(main())


def test_a_request_that_nobody_reads_stops_its_sender() -> None:
    async def main() -> None:
        go = asyncio.Event()

        async def application(scope: Any, receive: Any, send: Any) -> None:
            await go.wait()
            await echo(scope, receive, send)

        async with serving(application) as served:
            wire = await served.wire()
            body = b"x" * (24 << 20)
            wire.send(sized(body))
            held = await only_connection(served)
            await until(lambda: not held._reads)
            call = held._call
            assert call is not None
            assert len(call._data) <= (64 << 10) + (256 << 10)
            assert wire.writer.transport.get_write_buffer_size() > 0
            go.set()
            assert (await wire.answer()).body == b"POST /p " + body
            wire.send(GET * 20_000)
            await until(lambda: not held._reads)
            assert len(held._buffer) <= (64 << 10) + (256 << 10)
            for _ in range(20_000):
                await wire.answer()

    run(main(), 60)


async def only_connection(served: Served) -> connection.Connection:
    """The connection of the server."""
    await until(lambda: served.server.connections == 1)
    return next(iter(served.server._connections))


def test_an_answer_that_nobody_reads_stops_the_application_until_it_is_cut_off(
    capfd: pytest.CaptureFixture[str],
) -> None:
    async def main() -> None:
        parts: list[int] = []
        ended = asyncio.Event()

        async def application(scope: Any, receive: Any, send: Any) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            for part in range(1_000):
                await send({"type": "http.response.body", "body": b"x" * 100_000, "more_body": True})
                parts.append(part)
            ended.set()

        async with serving(application, timeouts=BRIEF) as served:
            wire = await served.wire()
            wire.writer.transport.pause_reading()
            wire.send(GET)
            held = await only_connection(served)
            await until(lambda: held._writable is not None and len(parts) > 0)
            assert len(parts) < 200
            await ended.wait()  # parts of an answer to nobody do nothing

    run(main())
    assert '"write-timeout"' in capfd.readouterr().err


@pytest.mark.covers("ADM-7")
def test_the_application_hears_that_its_peer_has_left() -> None:
    async def main() -> None:
        told: list[Any] = []
        running = asyncio.Event()

        async def application(scope: Any, receive: Any, send: Any) -> None:
            told.append(await receive())
            running.set()
            told.append(await receive())
            await say(send, b"nobody reads this")

        async with serving(application) as served:
            for data in (GET, POST + b"content-length: 5\r\n\r\nx"):
                running.clear()
                told.clear()
                wire = await served.wire()
                wire.send(data)
                await running.wait()
                wire.writer.close()
                await until(lambda: served.server.connections == 0)
                assert [message["type"] for message in told] == ["http.request", "http.disconnect"]

    run(main())


def test_after_the_answer_the_application_hears_that_the_exchange_is_over() -> None:
    async def main() -> None:
        told: list[str] = []

        async def application(scope: Any, receive: Any, send: Any) -> None:
            assert await body_of(receive) == b""
            waiting = asyncio.create_task(receive())
            await say(send, b"ok")
            told.append((await waiting)["type"])

        async with serving(application) as served:
            wire = await served.wire()
            wire.send(GET, GET)
            for _ in range(2):
                assert (await wire.answer()).body == b"ok"
        assert told == ["http.disconnect"] * 2

    run(main())


@pytest.mark.parametrize("data", [b"", b"GET / HT", GET + b"GET / HT"])
def test_a_head_that_does_not_come_in_time_ends_the_connection(data: bytes) -> None:
    async def main() -> None:
        async with serving(echo, keep_alive=0.2) as served:
            wire = await served.wire()
            wire.send(data)
            if data.startswith(GET):
                await wire.answer()
            assert await wire.ended()

    run(main())


def test_a_connection_serves_so_many_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MAX_REQUESTS", 3)

    async def main() -> None:
        async with serving(echo) as served:
            wire = await served.wire()
            wire.send(GET * 5)
            fields = [(await wire.answer()).fields for _ in range(3)]
            assert ["connection" in each for each in fields] == [False, False, True]
            assert await wire.ended()

    run(main())


@pytest.mark.covers("CLU-30")
def test_running_requests_are_finished_and_told_that_it_is_the_end() -> None:
    async def main() -> None:
        go, running = asyncio.Event(), asyncio.Event()

        async def application(scope: Any, receive: Any, send: Any) -> None:
            running.set()
            await go.wait()
            await echo(scope, receive, send)

        async with serving(application) as served:
            wire, begun = await served.wire(), await served.wire()
            begun.send(b"GET / HT")
            wire.send(GET, GET)
            await running.wait()
            served.stop.set()
            assert await begun.ended()
            go.set()
            answer = await wire.answer()
            assert (answer.body, answer.fields["connection"]) == (b"GET /a ", "close")
            assert await wire.ended()

    run(main())


@pytest.mark.covers("SEC-40")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b"x-a", b"1\r\nset-cookie: a=b"),
        (b"x-a", b"1\nb: c"),
        (b"x-a", b"1\r\n\r\n<html>"),
        (b"x-a", b"1\0"),
        (b"x-a\r\nx-b: c\r\nx-d", b"1"),
        (b"x a", b"1"),
        (b"", b"1"),
        (b"content-length", b"7"),
    ],
)
def test_an_answer_gets_no_field_that_it_was_not_given(name: bytes, value: bytes) -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        await say(send, b"ok", (name, value))

    async def main() -> None:
        async with serving(application) as served:
            wire = await served.wire()
            wire.send(GET)
            answer = await wire.answer()
            assert (answer.status, answer.body) == (500, b"")
            assert set(answer.fields) == {"content-length", "date", "connection"}
            assert await wire.ended()

    run(main())


@pytest.mark.parametrize("body", [b"too long", b"short"])
def test_an_answer_of_another_length_than_it_says_is_cut_off(body: bytes) -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-length", b"6")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body[:3], "more_body": True})
        await send({"type": "http.response.body", "body": body[3:]})

    async def main() -> None:
        async with serving(application) as served:
            wire = await served.wire()
            wire.send(GET)
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await wire.answer()

    run(main())


def test_an_application_that_says_nothing_or_only_half_is_an_error() -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/a":
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x", "more_body": True})

    async def main() -> None:
        async with serving(application) as served:
            wire = await served.wire()
            wire.send(GET)
            assert (await wire.answer()).status == 500
            assert await wire.ended()
            half = await served.wire()
            half.send(GET.replace(b"/a", b"/b"))
            with pytest.raises((ValueError, asyncio.IncompleteReadError, ConnectionError)):
                await half.answer()

    run(main())


def test_the_scope_is_the_one_that_hypercorn_gives() -> None:
    async def main() -> None:
        scopes: list[dict[str, Any]] = []

        async def application(scope: Any, receive: Any, send: Any) -> None:
            scopes.append(dict(scope))
            await echo(scope, receive, send)

        async with serving(application) as served:
            wire = await served.wire()
            target = b"/a%20b/%C3%A9?x=%201&y"
            lines = b"Host: X\r\nX-Ab:  c d \r\nx-ab: e\r\nContent-Length: 2\r\nUpgrade: other\r\n"
            for extra in (b"Connection: x-other\r\n", b"Connection: upgrade\r\n"):
                wire.send(b"PUT %b HTTP/1.1\r\n%b%b\r\nok" % (target, lines, extra))
                answer = await wire.answer()
                assert answer.body == "PUT /a b/é ok".encode()
                assert set(answer.fields) == {"content-length", "date"}
        ours, theirs = scopes
        assert ours["headers"].pop() == (b"connection", b"x-other")
        assert theirs["headers"].pop() == (b"connection", b"upgrade")
        assert ours == theirs
        assert list(map(type, ours.values())) == list(map(type, theirs.values()))

    run(main())


def test_other_protocols_go_to_hypercorn() -> None:
    async def main() -> None:
        async with serving(echo) as served:
            upgraded = await served.wire()
            upgraded.send(GET)  # also after other requests
            assert (await upgraded.answer()).body == b"GET /a "
            offer = b"connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n\r\n"
            upgraded.send(GET[:-2], offer)
            assert (await upgraded.answer()).status == 101
            assert (await upgraded.reader.readexactly(9))[3:5] == b"\x04\x00"  # a frame of settings
            known = await served.wire()
            known.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\0\0\0\4\0\0\0\0\0")
            assert (await known.reader.readexactly(9))[3:5] == b"\x04\x00"
            assert served.server.connections == 2
            late = await served.wire()
            late.send(GET, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            assert (await late.answer()).status == 200
            assert (await late.answer()).status == 400

    run(main())


def test_hypercorn_gives_up_its_idle_connections_too() -> None:
    async def main() -> None:
        async with serving(echo, keep_alive=0.2, timeouts=BRIEF) as served:
            wire = await served.wire()
            wire.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\0\0\0\4\0\0\0\0\0")
            await wire.reader.readexactly(9)
            await wire.reader.read()
            await until(lambda: served.server.connections == 0)

    run(main())
