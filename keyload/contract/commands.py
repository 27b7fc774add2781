"""The one operation that writes: a batch of mutations on one partition (spec commands.md)."""

from __future__ import annotations

from typing import Annotated

from keyload.contract.base import Member, Record
from keyload.contract.errors import ErrorCode
from keyload.contract.mutations import Mutation
from keyload.contract.operation import Operation, RequiredGrant
from keyload.contract.shared import CommitReceipt, PartitionRef


class CommandRequest(Record, frozen=True, kw_only=True):
    """One atomic command."""

    command_id: Annotated[str, Member(scalar="guid", not_empty=True, meaning="Write identity.")]
    partition: Annotated[PartitionRef, Member(meaning="Partition that every mutation acts on.")]
    mutations: Annotated[
        tuple[Mutation, ...],
        Member(
            min_items=1,
            max_items=256,
            error_above="ResourceExhausted",
            meaning=(
                "Applied in order, all or nothing; the encoded list is at most 8388608 bytes, else "
                "ResourceExhausted; expanded effects count too."
            ),
        ),
    ]
    ownership_epoch: Annotated[
        int,
        Member(
            scalar="int64",
            min=1,
            meaning=(
                "Ownership epoch known to the caller; any other value than the current one is OwnershipLost."
            ),
        ),
    ] = 1


DOCUMENTS_COMMIT = Operation(
    name="keyload_documents_commit",
    title="Commit changes",
    description=(
        "Applies up to 256 changes of any kind to one partition, all or nothing: documents, "
        "events, topic messages, queue jobs, edges, samples, vectors, schedules and sagas."
    ),
    feature="documents",
    aliases=(
        "save a document",
        "update or delete a record",
        "append events to a stream",
        "publish to a topic",
        "enqueue a job",
        "add an edge or a sample",
        "write several changes atomically",
        "run a transaction",
    ),
    stage=1,
    kind="command",
    capability="Batch",
    request=CommandRequest,
    result=CommitReceipt,
    write_identity="request.commandId",
    partition_path=("partition",),
    http_method="POST",
    http_route="/v1/commands",
    lane="data",
    admission_class="data-other",
    read_only=False,
    destructive=True,
    idempotent=True,
    required_grants=(RequiredGrant(any_of=("EffectGrants",), on="request.mutations"),),
    notable_errors=(
        ErrorCode.CONFLICT,
        ErrorCode.REVISION_CONFLICT,
        ErrorCode.DUPLICATE_EVENT_ID,
        ErrorCode.NOT_FOUND,
        ErrorCode.TOKEN_INVALIDATED,
        ErrorCode.DISPATCH_PAUSED,
        ErrorCode.BUDGET_EXCEEDED,
        ErrorCode.UNSUPPORTED_CAPABILITY,
        ErrorCode.OWNERSHIP_LOST,
        ErrorCode.UNKNOWN_WRITE_OUTCOME,
    ),
)
"""Commit changes."""
