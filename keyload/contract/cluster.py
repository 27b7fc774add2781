"""What a node tells of itself and its cluster (spec cluster.md)."""

from __future__ import annotations

from typing import Annotated

from keyload.contract.base import Member, Record
from keyload.contract.errors import ErrorCode
from keyload.contract.operation import Operation, RequiredGrant
from keyload.contract.shared import DurabilityProfile, PartitionRef


class NodeStatus(Record, frozen=True, kw_only=True):
    """State of the node that answered."""

    node_id: Annotated[str, Member(format="identifier", meaning="Node id.")]
    incarnation: Annotated[str, Member(scalar="guid", meaning="Store incarnation.")]
    applied: Annotated[
        int, Member(scalar="int64", min=0, meaning="Last applied position of the system shard.")
    ]
    leader: Annotated[
        str | None,
        Member(
            format="identifier", meaning="Node id of the system shard's current leader; null when unknown."
        ),
    ]
    voters: Annotated[int, Member(scalar="int32", min=1, meaning="Number of voters.")]
    durability: Annotated[DurabilityProfile, Member(meaning="Profile that commits reach.")]
    routing_ready: Annotated[bool, Member(meaning="Whether the node takes part in routing.")]
    process_id: Annotated[
        int, Member(scalar="int32", min=0, meaning="Operating system process id of the front process.")
    ]
    read_generation: Annotated[
        int,
        Member(
            scalar="int64",
            min=0,
            meaning="Grows when the stored image of one of the node's shards is replaced.",
        ),
    ]


class AtomicPartitionPlacementReadRequest(Record, frozen=True, kw_only=True):
    """Asks where a partition lives."""

    version: Annotated[int, Member(scalar="int32", const=1, meaning="Format version.")]
    partition: Annotated[PartitionRef, Member(meaning="Partition.")]


class AtomicPartitionPlacementResolution(Record, frozen=True, kw_only=True):
    """Where a partition lives."""

    version: Annotated[int, Member(scalar="int32", const=1, meaning="Format version.")]
    partition: Annotated[PartitionRef, Member(meaning="Partition.")]
    physical_shard_id: Annotated[
        str,
        Member(
            scalar="guid",
            meaning=(
                "Shard that owns it: version-5 GUID of the name shard-N, N its number in decimal, in the "
                "namespace of the incarnation."
            ),
        ),
    ]
    incarnation: Annotated[str, Member(scalar="guid", meaning="Store incarnation of the shard.")]
    voter_ids: Annotated[
        tuple[str, ...], Member(item_format="identifier", meaning="Node ids of the voters in order.")
    ]
    placement_epoch: Annotated[int, Member(scalar="int64", min=1, meaning="Epoch of the placement.")]
    directory_revision: Annotated[
        int,
        Member(scalar="int64", min=0, meaning="Revision of the whole directory; 0 before any binding."),
    ]
    revision: Annotated[
        int, Member(scalar="int64", min=0, meaning="Revision of this partition's row; 0 for a fallback.")
    ]
    is_fallback: Annotated[
        bool, Member(meaning="True when no row exists and the hash of the partition decides.")
    ]


class BindAtomicPartitionPlacementRequest(Record, frozen=True, kw_only=True):
    """Stores an explicit placement."""

    version: Annotated[int, Member(scalar="int32", const=1, meaning="Format version.")]
    expected_revision: Annotated[
        int, Member(scalar="int64", min=0, meaning="Current directory revision, else Conflict.")
    ]
    partition: Annotated[PartitionRef, Member(meaning="Partition.")]
    physical_shard_id: Annotated[
        str,
        Member(
            scalar="guid",
            not_empty=True,
            meaning=(
                "A data shard of the cluster, else UnsupportedCapability; also when the partition holds "
                "data in another shard."
            ),
        ),
    ]


ADMIN_STATUS = Operation(
    name="keyload_admin_status",
    title="Read node status",
    description="Shows the identity, position, leader, voters and readiness of the node that answers.",
    feature="cluster",
    aliases=("is the node healthy", "who is the leader", "cluster status", "show node id and position"),
    stage=1,
    kind="read",
    capability="NodeStatus",
    request=None,
    result=NodeStatus,
    http_method="GET",
    http_route="/v1/status",
    lane="data",
    admission_class="data-other",
    read_only=True,
    destructive=False,
    idempotent=True,
    required_grants=(RequiredGrant(any_of=("ClusterAdministrator",), on="caller"),),
    notable_errors=(ErrorCode.PERMISSION_DENIED,),
)
"""Read node status."""

ADMIN_PARTITION_PLACEMENT_READ = Operation(
    name="keyload_admin_partition_placement_read",
    title="Read a partition placement",
    description="Shows which physical shard a partition lives on and whether that was set explicitly.",
    feature="cluster",
    aliases=(
        "where does a partition live",
        "find the shard of a partition",
        "read a placement row",
        "get the directory revision",
    ),
    stage=1,
    kind="read",
    capability="AtomicPartitionPlacement",
    request=AtomicPartitionPlacementReadRequest,
    result=AtomicPartitionPlacementResolution,
    http_method="POST",
    http_route="/v1/admin/partition-placement/read",
    lane="data",
    admission_class="data-other",
    read_only=True,
    destructive=False,
    idempotent=True,
    required_grants=(RequiredGrant(any_of=("ClusterAdministrator",), on="caller"),),
    notable_errors=(ErrorCode.PERMISSION_DENIED, ErrorCode.CORRUPTION),
)
"""Read a partition placement."""

ADMIN_PARTITION_PLACEMENT_BIND = Operation(
    name="keyload_admin_partition_placement_bind",
    title="Bind a partition placement",
    description=("Stores on which physical shard a partition lives, checked against the directory revision."),
    feature="cluster",
    aliases=(
        "pin a partition to a shard",
        "set partition placement",
        "assign a partition to a physical shard",
    ),
    stage=1,
    kind="command",
    capability="BindAtomicPartitionPlacement",
    request=BindAtomicPartitionPlacementRequest,
    result=bool,
    outer_command_id=True,
    write_identity="commandId",
    http_method="POST",
    http_route="/v1/admin/partition-placement/bind",
    lane="data",
    admission_class="data-other",
    read_only=False,
    destructive=False,
    idempotent=True,
    required_grants=(RequiredGrant(any_of=("ClusterAdministrator",), on="caller"),),
    notable_errors=(
        ErrorCode.CONFLICT,
        ErrorCode.UNSUPPORTED_CAPABILITY,
        ErrorCode.BUDGET_EXCEEDED,
        ErrorCode.UNKNOWN_WRITE_OUTCOME,
    ),
)
"""Bind a partition placement."""
