"""The tables of the system shard that every node holds in memory: their names, keys and row types.

Shard 0 keeps each row under its table and key; the catalog feed carries the same bytes to fronts and workers
(docs/architecture.md). The row types that are no contract types are declared here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from keyload.contract.catalog import ResourceDefinition
from keyload.contract.security import ApiKeyRecord, PrincipalRecord

RESOURCES = "resources"
PRINCIPALS = "principals"
KEYS = "keys"
SWITCHES = "switches"
PLACEMENTS = "placements"
DIRECTORIES = "directories"
BINDINGS = "bindings"
NODES = "nodes"
VOTERS = "voters"
REPLACEMENTS = "replacements"

DISPATCH_PAUSED = ("dispatchPaused",)
PLACEMENT_DIRECTORY = ("placement",)
UNDER_WAY = ("underWay",)
ALL_SHARDS = ("allShards",)


class Placement(msgspec.Struct, frozen=True, array_like=True):
    """A row of the placement directory: the data shard a partition is assigned to, and how often the
    partition was assigned (CLU-31)."""

    shard: int
    revision: int


class Directory(msgspec.Struct, frozen=True, array_like=True):
    """The placement directory as a whole: how often it changed, and how many partitions it assigns."""

    revision: int = 0
    assignments: int = 0


class Binding(msgspec.Struct, frozen=True, array_like=True):
    """An assignment that has begun: partition `partition` is being closed in shard `source` for everything
    routed by placement epoch `epoch` or an earlier one, to be assigned to shard `target`.

    `number` is the commit position at which it began. The rest is the identity under which the outcome of
    its command will be kept.
    """

    number: int
    partition: tuple[str, str, str, str]
    source: int
    epoch: int
    target: int
    principal: str
    command_id: bytes
    fingerprint: bytes
    policy_epoch: int


class Node(msgspec.Struct, frozen=True, array_like=True):
    """A node that belongs to the cluster: its number, never used twice, its id, public origin, peer address
    (worker K listens on `port` + K) and CURVE key in Z85."""

    number: int
    id: str
    origin: str
    host: str
    port: int
    public_key: str


class Voters(msgspec.Struct, frozen=True, array_like=True):
    """The voters of all shards, in the order of the guard record (CLU-6): ids and numbers. A replacement
    that is under way has changed nothing here yet. `withdrawn` is the greatest number of a node that was to
    become a voter and did not."""

    ids: tuple[str, ...]
    numbers: tuple[int, ...]
    withdrawn: int = 0

    @property
    def greatest(self) -> int:
        """The greatest number that was ever used: a new voter gets one more."""
        return max(*self.numbers, self.withdrawn)


class Replacement(msgspec.Struct, frozen=True, array_like=True):
    """The exchange of voter `old` for node `new`, by number, and the data shards that have done it.

    `withdrawn` turns it round: `old` stays, `new` goes.
    """

    old: int
    new: int
    done: tuple[int, ...] = ()
    withdrawn: bool = False

    @property
    def coming(self) -> int:
        """The node that is to be a voter in the end."""
        return self.old if self.withdrawn else self.new

    @property
    def leaving(self) -> int:
        """The node that is to be none."""
        return self.new if self.withdrawn else self.old


TABLES: Mapping[str, Any] = MappingProxyType(
    {
        RESOURCES: ResourceDefinition,  # key: tenantId, databaseId, name
        PRINCIPALS: PrincipalRecord,  # key: id
        KEYS: ApiKeyRecord,  # key: id
        SWITCHES: bool,  # key: name of the switch
        PLACEMENTS: Placement,  # key: the four texts of the partition
        DIRECTORIES: Directory,  # key: PLACEMENT_DIRECTORY
        BINDINGS: Binding,  # key: UNDER_WAY
        NODES: Node,  # key: number in decimal
        VOTERS: Voters,  # key: ALL_SHARDS
        REPLACEMENTS: Replacement,  # key: UNDER_WAY
    }
)
"""Row type by table."""
