"""The register of nodes and the exchange of a voter, as the system shard keeps them (CLU-19)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from keyload.contract.errors import ErrorCode
from keyload.contract.security import PrincipalRecord
from keyload.contract.tables import Node, Replacement, Voters
from keyload.link.messages import INTERNAL, Command
from keyload.models.catalog import FreshCatalog, row_key
from keyload.models.cluster.nodes import ReplaceRequest, WithdrawRequest
from keyload.worker.batch import Answer
from keyload.worker.internal import FINISH_REPLACEMENT, REGISTER, REPLACE, SHARD_REPLACED, WITHDRAW
from tests.unit.shards import ROOT, Shard, code_of, principal

from .conftest import OpenShard

FIRST = [Node(n, f"node{n}", f"http://127.0.0.{n}:1", f"127.0.0.{n}", 7, f"{n}" * 40) for n in (1, 2, 3)]
NEW = Node(0, "node4", "http://127.0.0.4:1", "127.0.0.4", 7, "4" * 40)
EVERYBODY = frozenset({1, 2, 3})


@pytest.fixture
def system(open_shard: OpenShard) -> Shard:
    shard = open_shard(shard=0)
    for record in (ROOT, principal(), replace(ROOT, id="gone", revoked=True)):
        put_principal(shard, record)
    shard.executor.heard = EVERYBODY
    assert ask(shard, REGISTER, FIRST) is True
    return shard


def put_principal(shard: Shard, record: PrincipalRecord) -> None:
    shard.apply({row_key("principals", (record.id,)): msgspec.msgpack.encode(record)})


def answer(shard: Shard, operation: str, content: Any, **changes: Any) -> Answer:
    values: dict[str, Any] = {
        "call": 0,
        "shard": 0,
        "operation": operation,
        "principal": INTERNAL,
        "catalog_version": 0,
        "command_id": bytes(16),
        "fingerprint": bytes(32),
        "partition": None,
        "payload": msgspec.msgpack.encode(content),
    }
    found = shard.run(Command(**values | changes))[0]
    assert found is not None
    return found


def ask(shard: Shard, operation: str, content: Any = None) -> bool:
    """Whether a command of the server changed anything."""
    found = answer(shard, operation, content)
    assert not found.refused, code_of(found)
    return msgspec.json.decode(found.payload)


def exchange(shard: Shard, old: str = "node2", new: Node = NEW, by: str = "root") -> bool:
    return ask(shard, REPLACE, ReplaceRequest(by, old, new))


def refused(shard: Shard, old: str = "node2", new: Node = NEW, by: str = "root") -> str:
    before = register(shard)
    code = code_of(answer(shard, REPLACE, ReplaceRequest(by, old, new)))
    assert register(shard) == before
    return code


def register(shard: Shard) -> tuple[list[Node], Voters | None, Replacement | None]:
    with shard.store.reader() as reader:
        catalog = FreshCatalog(reader)
        return catalog.nodes(), catalog.voters, catalog.replacement


@pytest.mark.covers("CLU-19", "SEC-9")
def test_the_first_voters_are_registered_once(system: Shard) -> None:
    expected = (FIRST, Voters(("node1", "node2", "node3"), (1, 2, 3)), None)
    assert register(system) == expected
    assert ask(system, REGISTER, FIRST[:1]) is False
    assert register(system) == expected
    outside = answer(system, REGISTER, FIRST, principal="root")
    assert code_of(outside) == ErrorCode.NOT_FOUND


@pytest.mark.covers("CLU-19")
def test_an_exchange_from_wish_to_end(system: Shard) -> None:
    assert exchange(system) is True
    new = replace(NEW, number=4)
    nodes, voters, under_way = register(system)
    assert (nodes, under_way) == ([*FIRST, new], Replacement(2, 4))
    assert voters == Voters(("node1", "node2", "node3"), (1, 2, 3))
    assert exchange(system) is False
    assert exchange(system, new=new) is False
    assert ask(system, FINISH_REPLACEMENT) is False
    for shard in (3, 1):
        assert ask(system, SHARD_REPLACED, (shard, False)) is True
        assert ask(system, SHARD_REPLACED, (shard, False)) is False
        assert ask(system, FINISH_REPLACEMENT) is False
    assert register(system)[2] == Replacement(2, 4, (1, 3))
    assert ask(system, SHARD_REPLACED, (2, False)) is True
    assert ask(system, FINISH_REPLACEMENT) is True
    voters = Voters(("node1", "node4", "node3"), (1, 4, 3))
    assert register(system) == ([FIRST[0], FIRST[2], new], voters, None)
    for operation, content in ((FINISH_REPLACEMENT, None), (SHARD_REPLACED, (1, False))):
        assert ask(system, operation, content) is False
    assert exchange(system) is False  # done
    system.executor.heard = frozenset({1, 3, 4})
    assert exchange(system, "node1", replace(FIRST[1], number=0)) is True  # its number is a new one
    assert register(system)[2] == Replacement(1, 5)


@pytest.mark.covers("CLU-19")
@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"old": "node9"}, ErrorCode.NOT_FOUND),
        ({"new": replace(NEW, id="node1")}, ErrorCode.CONFLICT),
        ({"new": replace(NEW, origin=FIRST[0].origin)}, ErrorCode.CONFLICT),
        ({"new": replace(NEW, host="127.0.0.3")}, ErrorCode.CONFLICT),
        ({"new": replace(NEW, public_key=FIRST[1].public_key)}, ErrorCode.CONFLICT),
        ({"new": replace(NEW, number=5)}, ErrorCode.CONFLICT),
        ({"new": replace(NEW, number=2)}, ErrorCode.CONFLICT),
        ({"by": "ann"}, ErrorCode.PERMISSION_DENIED),
        ({"by": "gone"}, ErrorCode.UNAUTHENTICATED),
        ({"by": "nobody"}, ErrorCode.UNAUTHENTICATED),
    ],
)
def test_what_makes_no_exchange_is_refused(system: Shard, changes: dict[str, Any], code: ErrorCode) -> None:
    assert refused(system, **changes) == code


@pytest.mark.covers("CLU-19")
@pytest.mark.parametrize(
    ("heard", "code"), [({1}, False), ({1, 2}, False), ({1, 3}, True), ({1, 2, 3}, True)]
)
def test_a_majority_must_be_left_without_the_old_voter(system: Shard, heard: set[int], code: bool) -> None:
    system.executor.heard = frozenset(heard)
    if code:
        assert exchange(system) is True
    else:
        assert refused(system) == ErrorCode.CONFLICT


@pytest.mark.covers("CLU-19")
def test_one_exchange_at_a_time(system: Shard) -> None:
    exchange(system)
    for old, new in (("node1", NEW), ("node2", replace(NEW, host="127.0.0.5")), ("node2", FIRST[2])):
        assert refused(system, old, new) == ErrorCode.CONFLICT


@pytest.mark.covers("CLU-19")
def test_a_node_alone_has_no_voter_to_exchange(open_shard: OpenShard) -> None:
    shard = open_shard(shard=0)
    put_principal(shard, ROOT)
    assert refused(shard) == ErrorCode.UNSUPPORTED_CAPABILITY


def withdraw(shard: Shard, by: str = "root") -> str:
    found = answer(shard, WITHDRAW, WithdrawRequest(by))
    return code_of(found) if found.refused else found.payload.decode()


@pytest.mark.covers("CLU-19")
def test_an_exchange_that_has_not_gone_far_is_withdrawn(system: Shard) -> None:
    assert withdraw(system) == "false"
    exchange(system)
    assert withdraw(system, "ann") == ErrorCode.PERMISSION_DENIED
    assert withdraw(system) == "true"
    assert withdraw(system) == "false"
    assert register(system)[2] == Replacement(2, 4, (), True)
    assert refused(system) == ErrorCode.CONFLICT
    assert ask(system, SHARD_REPLACED, (1, False)) is False, "a report of before"
    for shard in (1, 2, 3):
        assert ask(system, FINISH_REPLACEMENT) is False
        assert ask(system, SHARD_REPLACED, (shard, True)) is True
    assert ask(system, FINISH_REPLACEMENT) is True
    assert register(system) == (FIRST, Voters(("node1", "node2", "node3"), (1, 2, 3), 4), None)
    assert refused(system, new=replace(NEW, number=4)) == ErrorCode.CONFLICT
    assert exchange(system) is True
    assert register(system)[2] == Replacement(2, 5), "no number is used twice"


@pytest.mark.covers("CLU-19")
def test_an_exchange_that_a_shard_has_done_is_not_withdrawn(system: Shard) -> None:
    exchange(system)
    ask(system, SHARD_REPLACED, (1, False))
    before = register(system)
    assert withdraw(system) == ErrorCode.CONFLICT
    assert register(system) == before
