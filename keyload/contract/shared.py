"""Types that several features share: partitions, entity references, row access and commit receipts."""

from __future__ import annotations

from typing import Annotated

from keyload.contract.base import Choice, Member, Record


class DurabilityProfile(Choice):
    """How safely a commit is kept."""

    BUFFERED = "Buffered", "May be lost with the process."
    PROCESS_DURABLE = "ProcessDurable", "Survives the end of the process."
    LOCAL_DURABLE = "LocalDurable", "Survives a power loss of the node; a single node reaches it."
    QUORUM_PROCESS_DURABLE = (
        "QuorumProcessDurable",
        "Survives the end of the process on a majority of voters.",
    )
    QUORUM_DURABLE = "QuorumDurable", "Survives a power loss on a majority of voters; a cluster reaches it."


class PartitionRef(Record, frozen=True, kw_only=True):
    """Full identity of one atomic partition, the scope inside which a command is all-or-nothing."""

    tenant_id: Annotated[str, Member(format="identifier", meaning="Tenant that owns the data.")]
    database_id: Annotated[str, Member(format="identifier", meaning="Database inside the tenant.")]
    transaction_domain_id: Annotated[
        str,
        Member(
            format="identifier",
            meaning=(
                "Transaction domain; equals the transactionDomainId of every resource used in the "
                "call, else Validation."
            ),
        ),
    ]
    partition_key: Annotated[
        str,
        Member(
            format="identifier", meaning="Key chosen by the caller that separates one partition from another."
        ),
    ]
    atomic_partition_id: Annotated[
        str | None,
        Member(
            format="sha256Hex",
            direction="output",
            meaning=(
                "Hash id of the four members above (CON-21), always written on output; on input any "
                "text or null is accepted and ignored."
            ),
        ),
    ] = None


class EntityRef(Record, frozen=True, kw_only=True):
    """Identity of one document, also used as a graph vertex."""

    partition: Annotated[PartitionRef, Member(meaning="Partition of the document.")]
    collection: Annotated[str, Member(format="identifier", meaning="Collection resource.")]
    id: Annotated[str, Member(format="identifier", meaning="Document id.")]


class RowAccess(Record, frozen=True, kw_only=True):
    """Ownership of a row, used by row rules."""

    owner_id: Annotated[
        str | None, Member(format="identifier", meaning="Owner id; compared with the principal's ownerId.")
    ] = None
    project_id: Annotated[
        str | None, Member(format="identifier", meaning="Project id; looked up in the principal's projects.")
    ] = None


class CommitToken(Record, frozen=True, kw_only=True):
    """Position of one commit."""

    incarnation: Annotated[str, Member(scalar="guid", meaning="Store incarnation that made the commit.")]
    atomic_partition_id: Annotated[str, Member(format="sha256Hex", meaning="Hash id of the partition.")]
    position: Annotated[
        int,
        Member(
            scalar="int64",
            min=1,
            meaning=(
                "Commit position in the shard of the partition; compare it only with positions of the "
                "same partition."
            ),
        ),
    ]
    ownership_epoch: Annotated[int, Member(scalar="int64", min=1, meaning="Ownership epoch at the commit.")]


class MutationReceipt(Record, frozen=True, kw_only=True):
    """Effect of one mutation or of one delivery action."""

    kind: Annotated[str, Member(meaning="Mutation kind, or Ack, Nack or Renew for a delivery action.")]
    resource: Annotated[str, Member(format="identifier", meaning="Resource that changed.")]
    id: Annotated[str, Member(meaning="Id of what changed; the mutation table states it for every kind.")]
    revision: Annotated[
        int,
        Member(
            scalar="int64",
            min=0,
            meaning=(
                "Resulting revision, tail, state version or lease version; the mutation table states which."
            ),
        ),
    ]


class CommitReceipt(Record, frozen=True, kw_only=True):
    """Stored outcome of a command; the same identity with the same content gets the same receipt again."""

    command_id: Annotated[
        str, Member(scalar="guid", meaning="Write identity of the command that produced the receipt.")
    ]
    token: Annotated[CommitToken, Member(meaning="Position of the commit.")]
    mutations: Annotated[
        tuple[MutationReceipt, ...], Member(meaning="Receipts in effect order; empty for blob commands.")
    ]
    durability: Annotated[DurabilityProfile, Member(meaning="Durability that the commit reached.")]
