"""keyload_documents_commit: the mutations of a command in order, all or nothing (CMD-7..CMD-13,
CON-70..CON-73)."""

from __future__ import annotations

from collections.abc import Sequence

from keyload.codec.identity import partition_key
from keyload.contract.commands import CommandRequest
from keyload.contract.errors import ErrorCode
from keyload.contract.limits import BATCH_MAX_MUTATIONS
from keyload.contract.mutations import Mutation
from keyload.contract.shared import CommitReceipt
from keyload.models.context import CommandContext, CommandHandler, MutationHandler, refuse
from keyload.models.receipts import commit_receipt

Receipt = tuple[str, str, str, int]


def _handler(context: CommandContext, mutation: Mutation) -> MutationHandler:
    handler = context.mutations.get(_kind(mutation))
    if handler is None:
        refuse(ErrorCode.UNSUPPORTED_CAPABILITY, "This version does not offer a mutation of the batch.")
    return handler


def _kind(mutation: Mutation) -> str:
    return str(mutation.__struct_config__.tag)


def authorize_effects(context: CommandContext, mutations: Sequence[Mutation]) -> None:
    """Check the grants of every mutation of a list (grant term EffectGrants)."""
    for mutation in mutations:
        _handler(context, mutation).authorize(context, mutation)


def apply_effects(context: CommandContext, mutations: Sequence[Mutation]) -> list[Receipt]:
    """Apply a list in order, later ones see earlier ones; the receipts in effect order.

    `ResourceExhausted` when given and derived effects together pass the bound of a batch (CMD-8).
    """
    receipts: list[Receipt] = []
    for mutation in mutations:
        receipts.extend(_handler(context, mutation).apply(context, mutation))
        if len(context.effects) > BATCH_MAX_MUTATIONS:
            refuse(ErrorCode.RESOURCE_EXHAUSTED, "The command has more effects than a batch may have.")
    return receipts


def _authorize(context: CommandContext, request: CommandRequest) -> None:
    if partition_key(request.partition) != context.partition:
        refuse(ErrorCode.VALIDATION, "The request names another partition than it was sent to.", "/partition")
    authorize_effects(context, request.mutations)


def _execute(context: CommandContext, request: CommandRequest) -> CommitReceipt:
    if request.ownership_epoch != context.ownership_epoch:
        refuse(ErrorCode.OWNERSHIP_LOST, "The partition has another ownership epoch.")
    return commit_receipt(context, apply_effects(context, request.mutations))


COMMIT = CommandHandler(authorize=_authorize, execute=_execute)
