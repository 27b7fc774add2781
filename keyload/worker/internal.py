"""The commands that the server issues by itself (SEC-9): their names, and what those of the system shard do.

They keep no outcome of their own and may be repeated. Each takes a commit position, whether it writes or not:
what its answer rests on must be committed before the answer leaves. Those whose answer nobody awaits take one
only when they write, so that a start by itself changes no state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import msgspec

from keyload.contract.tables import Node
from keyload.link.launch import Bootstrap
from keyload.link.messages import INTERNAL, Command
from keyload.models.cluster import nodes
from keyload.models.security.bootstrap import bootstrap
from keyload.storage.txn import Txn

BOOTSTRAP = "internal.bootstrap"
CLOSE = "internal.placement.close"
SETTLE = "internal.placement.settle"
REGISTER = "internal.nodes.register"
REPLACE = "internal.nodes.replace"
WITHDRAW = "internal.nodes.withdraw"
SHARD_REPLACED = "internal.nodes.shardReplaced"
FINISH_REPLACEMENT = "internal.nodes.finishReplacement"
UNAWAITED = frozenset({BOOTSTRAP, REGISTER})
"""Every new leader issues these; nobody waits for their answers."""


def internal_command(operation: str, payload: bytes) -> Command:
    """A command of the server itself for the system shard."""
    return Command(
        call=0,
        shard=0,
        operation=operation,
        principal=INTERNAL,
        catalog_version=0,
        command_id=bytes(16),
        fingerprint=bytes(32),
        partition=None,
        payload=payload,
        control=True,
    )


class SystemFacts(msgspec.Struct, frozen=True):
    """What a command of the server may know beside the store: the logged instant in ticks, the number of
    data shards, and the nodes that answer the leader, itself included."""

    instant: int
    data_shards: int
    heard: frozenset[int]


def _bootstrap(txn: Txn, payload: bytes, facts: SystemFacts) -> bool:
    request = msgspec.msgpack.decode(payload, type=Bootstrap)
    return bootstrap(txn, request.key_id, request.verifier)


def _register(txn: Txn, payload: bytes, facts: SystemFacts) -> bool:
    return nodes.register(txn, msgspec.msgpack.decode(payload, type=list[Node]))


def _replace(txn: Txn, payload: bytes, facts: SystemFacts) -> bool:
    request = msgspec.msgpack.decode(payload, type=nodes.ReplaceRequest)
    return nodes.begin_replacement(txn, request, facts.instant, facts.heard)


def _withdraw(txn: Txn, payload: bytes, facts: SystemFacts) -> bool:
    request = msgspec.msgpack.decode(payload, type=nodes.WithdrawRequest)
    return nodes.withdraw_replacement(txn, request, facts.instant)


def _shard_replaced(txn: Txn, payload: bytes, facts: SystemFacts) -> bool:
    shard, withdrawn = msgspec.msgpack.decode(payload, type=tuple[int, bool])
    return nodes.shard_replaced(txn, shard, withdrawn)


def _finish_replacement(txn: Txn, payload: bytes, facts: SystemFacts) -> bool:
    return nodes.finish_replacement(txn, facts.data_shards)


SYSTEM_COMMANDS: Mapping[str, Callable[[Txn, bytes, SystemFacts], bool]] = MappingProxyType(
    {
        BOOTSTRAP: _bootstrap,
        REGISTER: _register,
        REPLACE: _replace,
        WITHDRAW: _withdraw,
        SHARD_REPLACED: _shard_replaced,
        FINISH_REPLACEMENT: _finish_replacement,
    }
)
"""Commands of the server in the system shard by operation; each tells whether it changed anything."""
