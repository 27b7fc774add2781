"""keyload_documents_commit: the mutations of a command in order, all or nothing (CMD-7..CMD-13,
CON-70..CON-73)."""

from __future__ import annotations

from collections.abc import Sequence

from keyload.codec.identity import partition_key
from keyload.contract.commands import CommandRequest
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.contract.limits import BATCH_MAX_BYTES, BATCH_MAX_MUTATIONS
from keyload.contract.mutations import Mutation
from keyload.contract.shared import CommitReceipt
from keyload.models.context import CommandContext, CommandHandler, MutationHandler, Receipt, refuse
from keyload.models.receipts import commit_receipt
from keyload.models.records import pack_record

_MUTATIONS = "/mutations"


def _handler(context: CommandContext, mutation: Mutation) -> MutationHandler:
    handler = context.mutations.get(type(mutation))
    if handler is None:
        refuse(
            ErrorCode.UNSUPPORTED_CAPABILITY, "This version does not offer a mutation of the batch.", "/kind"
        )
    return handler


def authorize_effects(context: CommandContext, mutations: Sequence[Mutation], path: str) -> None:
    """Check the grants of every mutation of the list at `path` (grant term EffectGrants)."""
    place = 0
    try:
        for place, mutation in enumerate(mutations):  # noqa: B007 - a refusal asks for the place
            _handler(context, mutation).authorize(context, mutation)
    except KeyLoadError as error:
        raise _placed(error, path, place) from error


def apply_effects(context: CommandContext, mutations: Sequence[Mutation], path: str) -> list[Receipt]:
    """Apply the list at `path` in order, later ones see earlier ones; the receipts in effect order.

    `ResourceExhausted` when given and derived effects together pass the bound of a batch (CMD-8).
    """
    receipts: list[Receipt] = []
    place = 0
    try:
        for place, mutation in enumerate(mutations):  # noqa: B007 - a refusal asks for the place
            receipts.extend(_handler(context, mutation).apply(context, mutation))
            if len(context.effects) > BATCH_MAX_MUTATIONS:
                refuse(ErrorCode.RESOURCE_EXHAUSTED, "The command has more effects than a batch may have.")
    except KeyLoadError as error:
        raise _placed(error, path, place) from error
    return receipts


def _placed(error: KeyLoadError, path: str, place: int) -> KeyLoadError:
    """A refusal of one mutation that says which one of the list it is."""
    where = f"{path}/{place}{error.path or ''}"
    return KeyLoadError(error.code, error.detail, path=where, expected=error.expected)


def _authorize(context: CommandContext, request: CommandRequest) -> None:
    if partition_key(request.partition) != context.partition:
        detail = "The request names another partition than it was sent to."
        refuse(ErrorCode.VALIDATION, detail, "/partition", "the partition of the call")
    authorize_effects(context, request.mutations, _MUTATIONS)


def _execute(context: CommandContext, request: CommandRequest) -> CommitReceipt:
    # Only a request of that size can hold mutations of that size, so the exact measure is hardly ever taken.
    if context.request_bytes > BATCH_MAX_BYTES and len(pack_record(request.mutations)) > BATCH_MAX_BYTES:
        detail = "The mutations of the command are too large."
        refuse(ErrorCode.RESOURCE_EXHAUSTED, detail, _MUTATIONS, f"at most {BATCH_MAX_BYTES} bytes")
    if request.ownership_epoch != context.ownership_epoch:
        refuse(ErrorCode.OWNERSHIP_LOST, "The partition has another ownership epoch.", "/ownershipEpoch")
    return commit_receipt(context, apply_effects(context, request.mutations, _MUTATIONS))


COMMIT = CommandHandler(authorize=_authorize, execute=_execute)
