"""Credentials over real HTTP: every wrong one gets the same bytes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from keyload.codec.instants import instant_text
from keyload.contract.operations import OPERATIONS
from keyload.link.messages import Barrier, CatalogDelta, Command, Confirmed, Read, Usage

from .hubs import READER, ROOT, VERSION, catalog, key, principal, run, until
from .nodes import NOW, Node, RawResponse, ask, commit, connect, get_document, node_of
from .peers import WorkerPeer

LONGEST = "long." + "x" * 507  # 512 bytes
ROWS = (
    key("revoked.secret", "reader", revoked=True),
    key("expired.secret", "reader", expires_at=instant_text(NOW)),
    key("lives.secret", "reader", expires_at=instant_text(NOW + 1)),
    key("orphan.secret", "nobody"),
    principal("gone", revoked=True),
    key("gone.secret", "gone"),
    principal("old", expires_at=instant_text(NOW - 1)),
    key("old.secret", "old"),
    key("dots.a.b.c", "reader"),
    key(LONGEST, "reader"),
    key("over" + LONGEST, "reader"),
)
WRONG: dict[str, list[str]] = {
    "missing": [],
    "empty": [""],
    "scheme alone": ["Bearer"],
    "scheme and space": ["Bearer "],
    "other scheme": [f"Basic {READER}"],
    "no scheme": [READER],
    "repeated": [f"Bearer {READER}", f"Bearer {READER}"],
    "two different": [f"Bearer {READER}", "Basic x"],
    "list": [f"Bearer {READER}, Bearer {READER}"],
    "no dot": ["Bearer reader"],
    "no secret": ["Bearer reader."],
    "no id": ["Bearer .secret"],
    "unknown id": ["Bearer nobody.secret"],
    "wrong secret": ["Bearer reader.secreT"],
    "longer secret": ["Bearer reader.secret1"],
    "shorter secret": ["Bearer reader.secre"],
    "two spaces": [f"Bearer  {READER}"],
    "tab": [f"Bearer\t{READER}"],
    "not utf-8": ["Bearer \xff.secret"],
    "too long": ["Bearer over" + LONGEST],
    "revoked key": ["Bearer revoked.secret"],
    "expired key": ["Bearer expired.secret"],
    "key without principal": ["Bearer orphan.secret"],
    "revoked principal": ["Bearer gone.secret"],
    "expired principal": ["Bearer old.secret"],
}


def reads(peers: list[WorkerPeer]) -> list[Read]:
    return [message for peer in peers for message in peer.received if isinstance(message, Read)]


def without_date(response: RawResponse) -> tuple[int, dict[str, str], bytes]:
    headers = {name: value for name, value in response.headers.items() if name != "date"}
    return response.status, headers, response.body


def barriers(peer: WorkerPeer) -> list[Barrier]:
    return [message for message in peer.received if isinstance(message, Barrier)]


ENDPOINTS = [
    *((operation.http_method, operation.http_route) for operation in OPERATIONS.values()),
    ("POST", "/v1/nothing"),
    ("DELETE", "/v1/documents/get"),
    ("GET", "/metrics"),
    ("GET", "/admin/cluster/replace"),
]
"""Everything that looks at a credential, `/mcp` beside it."""


async def answers_to(node: Node, method: str, target: str, values: list[str]) -> tuple[Any, ...]:
    headers = [("authorization", value) for value in values]
    return without_date(await ask(node, method, target, b"{}", headers=headers, key_text=None))


@pytest.mark.covers("SEC-1", "SEC-2", "SEC-3", "CON-31", "CON-32", "CON-36", "HTTP-5")
def test_every_wrong_credential_gets_the_same_answer_everywhere() -> None:
    async def main() -> None:
        async with node_of(catalog(*ROWS)) as node:
            found = {
                (name, *endpoint): await answers_to(node, *endpoint, values)
                for endpoint in ENDPOINTS
                for name, values in WRONG.items()
            }
            (first, *others) = found.values()
            assert others == [first] * len(others)
            assert first[0] == 401
            assert first[1]["www-authenticate"] == "Bearer"
            assert "x-keyload-request-id" not in first[1]
            assert b"Unauthenticated" in first[2]
            sent = [message for peer in node.peers for message in peer.received]
            assert not any(isinstance(message, Read | Command | Usage) for message in sent)
            await node.idle()

    run(main(), 120)


@pytest.mark.covers("SEC-3")
def test_no_wrong_credential_is_refused_before_the_barrier_that_could_make_it_right() -> None:
    """Otherwise the time of the answer would tell what is wrong with it."""

    async def main() -> None:
        async with node_of(catalog(*ROWS)) as node:
            peer = node.peers[0]
            for name, values in WRONG.items():
                held: list[Barrier] = []
                peer.behaviour = lambda message, held=held: (
                    held.append(message) or () if isinstance(message, Barrier) else peer.answer(message)
                )
                asked = asyncio.create_task(answers_to(node, "POST", "/v1/documents/get", values))
                await until(lambda held=held: bool(held))
                await asyncio.sleep(0)
                assert not asked.done(), name
                peer.behaviour = peer.answer
                while not asked.done():
                    peer.say(*(Confirmed(held.pop().call, VERSION) for _ in range(len(held))))
                    await asyncio.sleep(0.002)
                assert (await asked)[0] == 401
            await node.idle()

    run(main())


@pytest.mark.covers("SEC-1", "SEC-2", "SEC-4", "SEC-5", "CON-32")
def test_right_credentials_are_taken() -> None:
    async def main() -> None:
        async with node_of(catalog(*ROWS)) as node:
            for value in (
                f"Bearer {READER}",
                f"bearer {READER}",
                f"BEARER {ROOT}",
                "Bearer lives.secret",
                "Bearer dots.a.b.c",
                f"Bearer {LONGEST}",
            ):
                headers = [("authorization", value)]
                response = await ask(
                    node, "POST", "/v1/documents/get", get_document(), headers=headers, key_text=None
                )
                assert response.status == 200, value
            assert [read.principal for read in reads(node.peers)] == [
                "reader",
                "reader",
                "root",
                *["reader"] * 3,
            ]

    run(main())


@pytest.mark.covers("SEC-3", "SEC-41", "CON-102", "CLU-24")
def test_a_revocation_counts_for_every_request_that_arrives_after_it() -> None:
    async def main() -> None:
        async with node_of() as node:
            peer = node.peers[0]
            peer.behaviour = lambda message: () if isinstance(message, Barrier) else peer.answer(message)
            await until(lambda: peer.version == VERSION)
            before = len(barriers(peer))
            asking = ask(node, "POST", "/v1/documents/get", get_document(), key_text=READER)
            waiting = asyncio.create_task(asking)
            await until(lambda: len(barriers(peer)) > before)
            peer.version, peer.behaviour = VERSION + 1, peer.answer
            revoked = CatalogDelta(VERSION + 1, False, [key(READER, "reader", revoked=True)])
            begun = barriers(peer)[before:]
            peer.say(revoked, *(Confirmed(barrier.call, VERSION + 1) for barrier in begun))
            assert (await waiting).status == 401

    run(main())


@pytest.mark.covers("SEC-41")
def test_a_read_is_made_again_when_the_catalog_changes_while_its_caller_is_confirmed() -> None:
    async def main() -> None:
        async with node_of() as node:
            peer = node.peers[0]
            peer.behaviour = lambda message: () if isinstance(message, Barrier) else peer.answer(message)
            await until(lambda: peer.version == VERSION)
            before = len(barriers(peer))
            waiting = asyncio.create_task(
                ask(node, "POST", "/v1/documents/get", get_document(), key_text=READER)
            )
            await until(lambda: len(barriers(peer)) > before and len(reads(node.peers)) == 1)
            peer.version, peer.behaviour = VERSION + 1, peer.answer
            begun = barriers(peer)[before:]
            changed = CatalogDelta(VERSION + 1, False, [principal("reader", policy_epoch=2)])
            peer.say(changed, *(Confirmed(barrier.call, VERSION + 1) for barrier in begun))
            assert (await waiting).status == 200
            assert [read.catalog_version for read in reads(node.peers)] == [VERSION, VERSION + 1]

    run(main())


@pytest.mark.covers("SEC-3", "CLU-25")
def test_without_a_confirmed_catalog_nobody_is_served() -> None:
    async def main() -> None:
        async with node_of(call_ms=100) as node:
            peer = node.peers[0]
            peer.behaviour = lambda message: () if isinstance(message, Barrier) else peer.answer(message)
            for target, body in (("/v1/documents/get", get_document()), ("/v1/commands", commit())):
                response = await ask(node, "POST", target, body)
                assert (response.status, response.json["errorCode"]) == (503, "OwnershipLost")
            assert not any(isinstance(m, Command) for m in node.peers[0].received + node.peers[1].received)
            await node.idle()

    run(main())


@pytest.mark.covers("MCP-3", "MCP-4", "MCP-6", "CON-38")
def test_mcp_refuses_wrong_credentials_alike() -> None:
    async def main() -> None:
        async with node_of(catalog(*ROWS)) as node:
            answers = [
                await answers_to(node, method, "/mcp", values)
                for method in ("POST", "GET", "DELETE")
                for values in WRONG.values()
            ]
            assert answers == [answers[0]] * len(answers)
            assert (answers[0][0], answers[0][1]["www-authenticate"]) == (401, "Bearer")
            assert b'"id":null' in answers[0][2]
            await node.idle()

    run(main())


@pytest.mark.covers("SEC-7")
def test_nothing_in_a_request_chooses_its_principal() -> None:
    async def main() -> None:
        async with node_of() as node:
            headers = [("x-principal", "root"), ("x-tenant", "system"), ("x-keyload-principal", "root")]
            response = await ask(
                node, "POST", "/v1/documents/get", get_document(), headers=headers, key_text=READER
            )
            assert response.status == 200
            (read,) = [m for peer in node.peers for m in peer.received if isinstance(m, Read)]
            assert read.principal == "reader"

    run(main())


@pytest.mark.covers("SEC-40")
def test_no_key_shows_up_in_a_log_line(capfd: pytest.CaptureFixture[str]) -> None:
    async def main() -> None:
        async with node_of() as node, connect(node) as connection:
            await connection.send(
                "POST", "/v1/MARKERPATH", [("authorization", "Bearer MARKERKEY.MARKERSECRET")], b"{"
            )
            assert (await connection.response()).status == 401

    run(main())
    captured = capfd.readouterr()
    assert "MARKER" not in captured.err + captured.out
    assert captured.err
