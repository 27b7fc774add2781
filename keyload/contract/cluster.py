"""What a node tells of itself and its cluster (spec cluster.md)."""

from __future__ import annotations

from typing import Annotated

from keyload.contract.base import Member, Record
from keyload.contract.errors import ErrorCode
from keyload.contract.operation import Operation, RequiredGrant
from keyload.contract.shared import DurabilityProfile


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
