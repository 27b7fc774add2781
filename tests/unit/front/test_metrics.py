"""`GET /metrics`: who may read it, what stands in it, and that it is the format that Prometheus reads."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import msgspec
import pytest

from harness.evidence import ROOT
from keyload.contract.errors import ErrorCode
from keyload.contract.operations import OPERATIONS
from keyload.front.app import FrontSettings
from keyload.front.measures import BOUNDS, LANES, Histogram
from keyload.front.scrape import MAX_AT_ONCE, ROLES
from keyload.link.messages import Command, Reply, Usage
from tests.unit.front_mcp.support import headers_for, message

from .hubs import READER, run, until
from .metrics import Family, parse
from .nodes import Node, RawResponse, ask, bearer, commit, connect, get_document, node_of
from .peers import USAGE, refusal
from .test_mcp_edge import call, invoke

TOKEN = "scrape-0123456789abcdef0123456789abcdef"
SHARD = {
    "role": "leader",
    "term": 5,
    "leader": 2,
    "commit": 40,
    "applied": 37,
    "logBytes": 512,
    "waiting": 4,
    "generation": 0,
}


def settings() -> FrontSettings:
    return FrontSettings(shards=6, scrape_token=TOKEN)


async def scrape(node: Node, key_text: str | None = TOKEN) -> RawResponse:
    return await ask(node, "GET", "/metrics", key_text=key_text)


async def families(node: Node) -> dict[str, Family]:
    response = await scrape(node)
    assert (response.status, response.headers["content-type"]) == (
        200,
        "text/plain; version=0.0.4; charset=utf-8",
    )
    return parse(response.body)


def value(family: Family, name: str, **labels: object) -> float:
    return family.samples[name, frozenset((label, str(content)) for label, content in labels.items())]


@pytest.mark.covers("CLU-29", "SEC-8")
def test_an_administrator_and_the_scrape_token_read_metrics_and_nobody_else() -> None:
    async def main() -> None:
        async with node_of(settings=settings()) as node:
            for key_text in (TOKEN, "root.0123456789abcdef0123456789abcdef"):
                assert (await scrape(node, key_text)).status == 200
            refused = await scrape(node, READER)
            assert (refused.status, refused.json["errorCode"]) == (403, "PermissionDenied")
            for key_text in (None, TOKEN + "x", TOKEN[:-1], "", "root.wrong"):
                response = await scrape(node, key_text)
                assert (response.status, response.json["errorCode"]) == (401, "Unauthenticated")
            twice = await ask(node, "GET", "/metrics", key_text=TOKEN, headers=[bearer(TOKEN)])
            assert twice.status == 401
            for method in ("POST", "HEAD", "PUT"):
                async with connect(node) as connection:
                    await connection.send(method, "/metrics", [bearer(TOKEN)])
                    head = await connection.reader.readuntil(b"\r\n\r\n")
                    assert head.startswith(b"HTTP/1.1 404 ")

    run(main())


@pytest.mark.covers("CLU-29", "ADM-3", "ADM-9")
def test_a_few_requests_are_answered_at_once_and_the_next_is_told_to_come_again() -> None:
    async def main() -> None:
        async with node_of(settings=settings(), call_ms=600) as node:
            for peer in node.peers:
                peer.behaviour = lambda message: ()
            waiting = [asyncio.create_task(scrape(node)) for _ in range(MAX_AT_ONCE)]
            await until(lambda: node.front.scrape.held == MAX_AT_ONCE)
            for key_text in (TOKEN, None):
                refused = await scrape(node, key_text)
                assert (refused.status, refused.headers["retry-after"]) == (429, "1")
                assert refused.json["errorCode"] == "ResourceExhausted"
            assert node.front.gate.idle, "it draws on no lane"
            assert [answer.status for answer in await asyncio.gather(*waiting)] == [200] * MAX_AT_ONCE
            assert node.front.scrape.held == 0
            assert (await scrape(node)).status == 200

    run(main())


@pytest.mark.covers("CLU-29", "SEC-8")
def test_without_a_configured_token_none_is_accepted() -> None:
    async def main() -> None:
        async with node_of() as node:
            for key_text in (TOKEN, "", "None"):
                assert (await scrape(node, key_text)).status == 401

    run(main())


@pytest.mark.covers("CLU-29")
def test_the_scrape_token_works_while_no_catalog_can_be_confirmed() -> None:
    async def main() -> None:
        async with node_of(settings=settings(), call_ms=200) as node:
            node.peers[0].behaviour = lambda message: ()
            found = await families(node)
            up = found["keyload_worker_up"]
            assert (value(up, "keyload_worker_up", worker=0), value(up, "keyload_worker_up", worker=1)) == (
                0,
                1,
            )
            assert (await scrape(node, "root.0123456789abcdef0123456789abcdef")).status == 503

    run(main())


@pytest.mark.covers("CLU-29")
def test_every_shard_of_every_worker_stands_in_the_metrics() -> None:
    def shards_of(worker: int) -> list[dict[str, Any]]:
        return [SHARD | {"shard": shard, "term": 5 + shard} for shard in range(worker, 7, 2)]

    async def main() -> None:
        async with node_of(settings=settings()) as node:
            for peer in node.peers:
                counters = msgspec.json.encode(USAGE | {"shards": shards_of(peer.worker)})
                ordinary = peer.answer
                peer.behaviour = lambda message, counters=counters, ordinary=ordinary: (
                    [Reply(message.call, counters)] if isinstance(message, Usage) else ordinary(message)
                )
            found = await families(node)
            for name, expected in (
                ("leader", 2),
                ("commit_index", 40),
                ("applied_index", 37),
                ("lag_entries", 3),
                ("log_bytes", 512),
                ("waiting_calls", 4),
            ):
                family = found[f"keyload_shard_{name}"]
                assert [value(family, f"keyload_shard_{name}", shard=s) for s in range(7)] == [expected] * 7
            for shard in range(7):
                terms = found["keyload_shard_term"]
                assert value(terms, "keyload_shard_term", shard=shard) == 5 + shard
                roles = {
                    role: value(found["keyload_shard_role"], "keyload_shard_role", shard=shard, role=role)
                    for role in ROLES
                }
                assert roles == dict.fromkeys(ROLES, 0) | {"leader": 1}
            commands = found["keyload_worker_commands"]
            assert value(commands, "keyload_worker_commands", worker=1, lane="data") == 3
            assert value(commands, "keyload_worker_commands", worker=1, lane="control") == 1
            assert value(found["keyload_ready"], "keyload_ready") == 1

    run(main())


@pytest.mark.covers("CLU-29")
def test_the_document_names_every_metric_with_its_kind_and_labels() -> None:
    row = re.compile(r"^\| `(keyload_\w+)` \| (\w+) \| ([\w, ]*?) ?\|", re.MULTILINE)
    text = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
    documented = {name: (kind, labels) for name, kind, labels in row.findall(text)}

    async def main() -> None:
        async with node_of(settings=settings(), workers=1) as node:
            counters = msgspec.json.encode(USAGE | {"shards": [SHARD | {"shard": 0}]})
            ordinary = node.peers[0].answer
            node.peers[0].behaviour = lambda message: (
                [Reply(message.call, counters)] if isinstance(message, Usage) else ordinary(message)
            )
            await ask(node, "POST", "/v1/nothing", b"{}")
            found = {
                name: (family.kind, {label for _, labels in family.samples for label, _ in labels} - {"le"})
                for name, family in (await families(node)).items()
            }
            assert found == {
                name: (kind, set(filter(None, labels.split(", "))))
                for name, (kind, labels) in documented.items()
            }

    run(main())


@pytest.mark.covers("CLU-29")
def test_calls_and_failures_are_counted_by_lane_and_code() -> None:
    async def main() -> None:
        async with node_of(settings=settings()) as node:
            for peer in node.peers:
                ordinary = peer.answer
                peer.behaviour = lambda message, ordinary=ordinary: (
                    [refusal(message.call, ErrorCode.CONFLICT)]
                    if isinstance(message, Command)
                    else ordinary(message)
                )
            assert (await ask(node, "POST", "/v1/documents/get", get_document())).status == 200
            assert (await ask(node, "POST", "/v1/commands", commit())).status == 409
            assert (await ask(node, "POST", "/v1/commands", b"{")).status == 400
            assert (await ask(node, "POST", "/v1/nothing", b"{}")).status == 404
            assert (await ask(node, "GET", "/v1/status", key_text="root.x")).status == 401
            switch = {"commandId": "0b1d3f5a-7c9e-4b2d-8f60-112233445566", "request": True}
            assert (await call(node, invoke("keyload_admin_dispatch", switch))).status == 200
            assert (await call(node, invoke("keyload_documents_get", {"request": {}}))).status == 200
            headers = list(headers_for(message("tools/list")).items())
            assert (await ask(node, "POST", "/mcp", b"{", headers=headers)).status == 400
            found = await families(node)
            latency, failures = found["keyload_call_seconds"], found["keyload_failures_total"]
            counts = {lane: value(latency, "keyload_call_seconds_count", lane=lane) for lane in LANES}
            assert counts == {"control": 1, "delivery": 0, "heavy-read": 0, "data": 2}
            assert {tuple(sorted(labels)): count for (_, labels), count in failures.samples.items()} == {
                (("code", "Conflict"), ("lane", "control")): 1,
                (("code", "Conflict"), ("lane", "data")): 1,
                (("code", "NotFound"), ("lane", "data")): 1,
                (("code", "Unauthenticated"), ("lane", "data")): 1,
                (("code", "Validation"), ("lane", "control")): 1,
                (("code", "Validation"), ("lane", "data")): 2,
            }
            held = found["keyload_http_requests"]
            assert value(held, "keyload_http_requests", lane="data") == 0
            limit = found["keyload_http_requests_limit"]
            assert value(limit, "keyload_http_requests_limit", lane="data") == 512

    run(main())


@pytest.mark.covers("CLU-29", "ADM-31")
def test_the_number_of_lines_does_not_grow_with_callers_and_names_nobody() -> None:
    async def main() -> None:
        async with node_of(settings=settings()) as node:
            await families(node)
            before = (await scrape(node)).body.count(b"\n")
            for number in range(30):
                await ask(node, "POST", "/v1/documents/get", get_document(f"secret-document-{number}"))
                await ask(node, "POST", f"/v1/secret-path-{number}", b"", key_text=f"secret-key-{number}.x")
            text = (await scrape(node)).body
            assert text.count(b"\n") <= before + len(ErrorCode)
            words = (b"secret", b"reader", b"root", b"tenant", b"principal", b"127.0.0.1")
            assert not [word for word in words if word in text.lower()]

    run(main())


@pytest.mark.covers("CLU-29")
def test_those_who_ask_at_once_share_one_gathering() -> None:
    async def main() -> None:
        async with node_of(settings=settings(), workers=1) as node:
            headers = [(b"authorization", b"Bearer " + TOKEN.encode())]
            answers = await asyncio.gather(*(node.front.scrape.answer(headers) for _ in range(20)))
            assert len({answer.body for answer in answers}) == 1
            assert sum(isinstance(message, Usage) for message in node.peers[0].received) == 1
            await node.front.scrape.answer(headers)
            assert sum(isinstance(message, Usage) for message in node.peers[0].received) == 2

    run(main())


def test_buckets_hold_what_is_not_above_their_bound() -> None:
    histogram = Histogram()
    for seconds in (0.0, BOUNDS[0], BOUNDS[0] * 1.01, BOUNDS[-1], 100.0):
        histogram.observe(seconds)
    assert histogram.counts == [2, 1, *[0] * (len(BOUNDS) - 3), 1, 1]


def test_every_operation_has_a_counted_lane() -> None:
    assert {operation.lane for operation in OPERATIONS.values()} <= set(LANES)


@pytest.mark.covers("CLU-29")
@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"# TYPE keyload_a gauge\nkeyload_a 1\n",
        b"# HELP keyload_a A.\n# TYPE keyload_a gauge\nkeyload_b 1\n",
        b"# HELP keyload_a A.\n# TYPE keyload_a gauge\nkeyload_a 1\nkeyload_a 2\n",
        b'# HELP keyload_a A.\n# TYPE keyload_a gauge\nkeyload_a{x="1",x="2"} 1\n',
        b"# HELP keyload_a A.\n# TYPE keyload_a counter\nkeyload_a 1\n",
        b"# HELP keyload_a A.\n# TYPE keyload_a gauge\nkeyload_a one\n",
        b"# HELP keyload_a A.\n# TYPE keyload_a gauge\nkeyload_a 1",
    ],
)
def test_the_reader_of_this_test_refuses_what_is_not_the_format(text: bytes) -> None:
    with pytest.raises((AssertionError, KeyError)):
        parse(text)
