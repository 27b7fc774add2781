"""Catalog rows as shard 0 keeps them: one key per row, the value exactly as a catalog delta carries it.

The tables and their row types are declared in `keyload.contract.tables`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from keyload.codec.identity import PartitionKey
from keyload.codec.tuples import pack, unpack
from keyload.contract.catalog import ResourceDefinition
from keyload.contract.security import ApiKeyRecord, PrincipalRecord
from keyload.contract.tables import (
    ALL_SHARDS,
    BINDINGS,
    DIRECTORIES,
    DISPATCH_PAUSED,
    KEYS,
    NODES,
    PLACEMENT_DIRECTORY,
    PLACEMENTS,
    PRINCIPALS,
    REPLACEMENTS,
    RESOURCES,
    SWITCHES,
    UNDER_WAY,
    VOTERS,
    Binding,
    Directory,
    Node,
    Placement,
    Replacement,
    Voters,
)
from keyload.models import tags
from keyload.models.partitions.keys import SHARD_SPACE
from keyload.models.records import Stored, pack_record
from keyload.storage.txn import Reader, Txn

_PREFIX = SHARD_SPACE + tags.CATALOG
CATALOG_RANGE = (_PREFIX, SHARD_SPACE + bytes([tags.CATALOG[0] + 1]))
"""First key and end of all catalog rows."""

_RESOURCE = Stored(ResourceDefinition, "resource definition")
_PRINCIPAL = Stored(PrincipalRecord, "principal")
_KEY = Stored(ApiKeyRecord, "key record")
_SWITCH = Stored(bool, "switch")
_PLACEMENT = Stored(Placement, "placement")
_DIRECTORY = Stored(Directory, "placement directory")
_BINDING = Stored(Binding, "binding")
_NODE = Stored(Node, "node")
_VOTERS = Stored(Voters, "list of voters")
_REPLACEMENT = Stored(Replacement, "replacement")


def row_key(table: str, parts: tuple[str, ...]) -> bytes:
    """Where a row is kept in shard 0."""
    return _PREFIX + pack((table, *parts))


def parse_row_key(key: bytes) -> tuple[str, tuple[str, ...]] | None:
    """Table and key parts of a catalog row; None for any other key."""
    if not key.startswith(_PREFIX):
        return None
    table, *parts = unpack(key[len(_PREFIX) :])
    return str(table), tuple(str(part) for part in parts)


def table_range(table: str, parts: tuple[str, ...] = ()) -> tuple[bytes, bytes]:
    """First key and end of the rows of a table whose key begins with `parts`."""
    start = row_key(table, parts)
    return start, start + b"\xff"


class FreshCatalog:
    """The catalog as a transaction of shard 0 sees it: what handlers there read instead of the fed copy."""

    __slots__ = ("_reader",)

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def resource(self, tenant_id: str, database_id: str, name: str) -> ResourceDefinition | None:
        """The definition of a resource, None when there is none."""
        data = self._reader.get(row_key(RESOURCES, (tenant_id, database_id, name)))
        return None if data is None else _RESOURCE.decode(data)

    def resources(self, tenant_id: str, database_id: str) -> Iterator[ResourceDefinition]:
        """All resources of one database, by name."""
        for _, data in self._reader.scan(*table_range(RESOURCES, (tenant_id, database_id))):
            yield _RESOURCE.decode(data)

    def resources_after(
        self, tenant_id: str, database_id: str, name: str | None, charge: Callable[[int, int], None]
    ) -> Iterator[ResourceDefinition]:
        """As `resources`, from the first name after `name`; `charge` hears of each record and its bytes."""
        start, end = table_range(RESOURCES, (tenant_id, database_id))
        if name is not None:
            start = row_key(RESOURCES, (tenant_id, database_id, name)) + b"\x00"
        for _, data in self._reader.scan(start, end):
            charge(1, len(data))
            yield _RESOURCE.decode(data)

    def principal(self, principal_id: str) -> PrincipalRecord | None:
        """The stored principal, revoked and expired ones included."""
        data = self._reader.get(row_key(PRINCIPALS, (principal_id,)))
        return None if data is None else _PRINCIPAL.decode(data)

    def key(self, key_id: str) -> ApiKeyRecord | None:
        """The stored key record, revoked and expired ones included."""
        data = self._reader.get(row_key(KEYS, (key_id,)))
        return None if data is None else _KEY.decode(data)

    def placement(self, partition: PartitionKey) -> Placement | None:
        """The row of a partition in the placement directory, None when it is not assigned."""
        data = self._reader.get(row_key(PLACEMENTS, partition))
        return None if data is None else _PLACEMENT.decode(data)

    @property
    def directory(self) -> Directory:
        """The placement directory as a whole."""
        data = self._reader.get(row_key(DIRECTORIES, PLACEMENT_DIRECTORY))
        return Directory() if data is None else _DIRECTORY.decode(data)

    @property
    def binding(self) -> Binding | None:
        """The assignment that has begun and is not settled, None when there is none."""
        data = self._reader.get(row_key(BINDINGS, UNDER_WAY))
        return None if data is None else _BINDING.decode(data)

    def nodes(self) -> list[Node]:
        """The registered nodes."""
        return [_NODE.decode(data) for _, data in self._reader.scan(*table_range(NODES))]

    @property
    def voters(self) -> Voters | None:
        """The voters of all shards; None before they were registered."""
        data = self._reader.get(row_key(VOTERS, ALL_SHARDS))
        return None if data is None else _VOTERS.decode(data)

    @property
    def replacement(self) -> Replacement | None:
        """The exchange of a voter that is under way, None when there is none."""
        data = self._reader.get(row_key(REPLACEMENTS, UNDER_WAY))
        return None if data is None else _REPLACEMENT.decode(data)

    def holds_principals(self) -> bool:
        """Whether the store has any principal, that is: is no empty store (SEC-6)."""
        return next(iter(self._reader.scan(*table_range(PRINCIPALS))), None) is not None

    @property
    def dispatch_paused(self) -> bool:
        """Whether delivery is switched off for the whole store."""
        data = self._reader.get(row_key(SWITCHES, DISPATCH_PAUSED))
        return data is not None and _SWITCH.decode(data)


def put_row(txn: Txn, table: str, parts: tuple[str, ...], row: Any) -> None:
    """Write a row."""
    txn.put(row_key(table, parts), pack_record(row))


def delete_row(txn: Txn, table: str, parts: tuple[str, ...]) -> None:
    """Remove a row."""
    txn.delete(row_key(table, parts))
