"""keyload_admin_status (SEC-22); the front sets `processId` and `routingReady`, which a worker cannot
know."""

from __future__ import annotations

from keyload.contract.cluster import NodeStatus
from keyload.contract.errors import ErrorCode
from keyload.contract.shared import DurabilityProfile
from keyload.models.context import ReadContext, ReadHandler, refuse


def _authorize(context: ReadContext, request: None) -> None:
    context.rights.require_administrator()


def _status(context: ReadContext, request: None) -> NodeStatus:
    node = context.node
    if node is None:
        refuse(ErrorCode.OWNERSHIP_LOST, "The node does not serve the system shard now.")
    return NodeStatus(
        node_id=node.node_id,
        incarnation=context.incarnation,
        applied=node.applied,
        leader=node.leader,
        voters=len(node.voters),
        durability=DurabilityProfile(node.durability),
        routing_ready=True,
        process_id=0,
        read_generation=node.read_generation,
    )


STATUS = ReadHandler(authorize=_authorize, execute=_status)
