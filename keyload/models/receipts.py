"""Receipts of commands, made alike when a command is executed and when its stored outcome is replayed
(CMD-12)."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from keyload.contract.shared import CommitReceipt, CommitToken, DurabilityProfile, MutationReceipt
from keyload.models.context import CommandContext

Receipt = tuple[str, str, str, int]
"""kind, resource, id, revision."""


def guid_text(data: bytes) -> str:
    """The canonical text of 16 bytes."""
    text = data.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def guid_bytes(text: str) -> bytes:
    """The 16 bytes of a guid text."""
    return UUID(text).bytes


def build_receipt(
    *,
    command_id: bytes,
    incarnation: str,
    atomic_partition_id: str,
    position: int,
    ownership_epoch: int,
    durability: str,
    receipts: Sequence[Receipt],
) -> CommitReceipt:
    """The receipt of a command from its parts."""
    return CommitReceipt(
        command_id=guid_text(command_id),
        token=CommitToken(
            incarnation=incarnation,
            atomic_partition_id=atomic_partition_id,
            position=position,
            ownership_epoch=ownership_epoch,
        ),
        mutations=tuple(
            MutationReceipt(kind=kind, resource=resource, id=changed, revision=revision)
            for kind, resource, changed, revision in receipts
        ),
        durability=DurabilityProfile(durability),
    )


def commit_receipt(context: CommandContext, receipts: Sequence[Receipt]) -> CommitReceipt:
    """The receipt of the command that is being executed."""
    return build_receipt(
        command_id=context.command_id,
        incarnation=context.incarnation,
        atomic_partition_id=context.atomic_partition_id,
        position=context.position,
        ownership_epoch=context.ownership_epoch,
        durability=context.durability,
        receipts=receipts,
    )
