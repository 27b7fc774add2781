"""keyload_admin_partition_placement_read and _bind: where a partition lives (CLU-31, CLU-32, CLU-33).

The directory lies in shard 0. An empty partition moves in steps, because it lies in one shard and the
directory in another, and both go on serving meanwhile:

1. *Begin* (shard 0): the command is checked and noted as the `Binding` that is under way. There is one at a
   time. The command has no outcome yet; its caller asks again under the same identity.
2. *Close* (shard the partition lives in): a mark closes the empty partition for everything that was routed
   by its present placement epoch or an earlier one. Where it holds anything, outcomes included, nothing is
   changed and the answer is no.
3. *Settle* (shard 0): after yes the row, the directory's revision and the outcome of the command are
   written and the binding is gone, in one log entry; after no only the outcome, which is a refusal.

Calls carry the placement epoch they were routed by. One that meets the mark was routed by an older
directory, or while the binding is under way: it changes nothing, and the front routes it anew
(`keyload.front.execution`). A partition that moves back has a later epoch than its old mark, which so stops
nobody; its first write there replaces the mark by a number. A partition with a number never moves again.

What a crash leaves behind:

* before the binding is committed: nothing; the command is as if never sent.
* between 1 and 3: a binding, perhaps a mark. The next leader of shard 0 finds the binding in its applied
  state and repeats 2 and 3 (`keyload.worker.placing`). Closing twice up to the same epoch is closing once; a
  late repetition, by a leader that was deposed meanwhile, finds the mark or a number, and both give the
  answer that was given before.
* after 3: the outcome; who repeats the command gets it.

So a partition is never left closed: a binding is always there to settle it. A partition assigned to the
shard it lives in already is not closed; its row is written at once, whether it holds data or not.
"""

from __future__ import annotations

from msgspec import Struct

from keyload.codec.identity import PartitionKey, partition_key, with_identity
from keyload.codec.placement import Place, damaged_directory, physical_shard, physical_shard_id, place_of
from keyload.contract.cluster import (
    AtomicPartitionPlacementReadRequest,
    AtomicPartitionPlacementResolution,
    BindAtomicPartitionPlacementRequest,
)
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.contract.limits import whole
from keyload.contract.tables import (
    BINDINGS,
    DIRECTORIES,
    PLACEMENT_DIRECTORY,
    PLACEMENTS,
    UNDER_WAY,
    Binding,
    Directory,
    Placement,
)
from keyload.models.catalog.rows import FreshCatalog, delete_row, put_row
from keyload.models.context import (
    CommandContext,
    CommandHandler,
    ReadContext,
    ReadHandler,
    Unsettled,
    refuse,
)
from keyload.storage.txn import Reader, Txn

MAX_ASSIGNMENTS = whole("placement.maxAssignments")
"""Rows of the directory. A row is far smaller than placement.maxRecordBytes: identifiers have 256 bytes."""


class SettleRequest(Struct, frozen=True, array_like=True):
    """Asks shard 0 to settle the binding with this number: whether its partition is closed or holds data."""

    number: int
    closed: bool


def _authorize_read(context: ReadContext, request: AtomicPartitionPlacementReadRequest) -> None:
    context.rights.require_administrator()


def _read(
    context: ReadContext, request: AtomicPartitionPlacementReadRequest
) -> AtomicPartitionPlacementResolution:
    if context.node is None:
        refuse(ErrorCode.OWNERSHIP_LOST, "The node does not serve the system shard now.")
    partition = partition_key(request.partition)
    directory, row, place = _looked_up(context.reader, partition, context.data_shards)
    return AtomicPartitionPlacementResolution(
        version=1,
        partition=with_identity(request.partition),
        physical_shard_id=physical_shard_id(context.incarnation, place.shard),
        incarnation=context.incarnation,
        voter_ids=context.node.voters,
        placement_epoch=place.epoch,
        directory_revision=directory.revision,
        revision=0 if row is None else row.revision,
        is_fallback=row is None,
    )


def _authorize_bind(context: CommandContext, request: BindAtomicPartitionPlacementRequest) -> None:
    context.rights.require_administrator()


def _bind(context: CommandContext, request: BindAtomicPartitionPlacementRequest) -> bool:
    catalog = FreshCatalog(context.txn)
    if catalog.binding is not None:
        raise Unsettled(_waiting(catalog.binding, context))
    partition = partition_key(request.partition)
    directory, row, place = _looked_up(context.txn, partition, context.data_shards)
    if request.expected_revision != directory.revision:
        refuse(ErrorCode.CONFLICT, "The placement directory has another revision.", "/expectedRevision")
    target = physical_shard(context.incarnation, request.physical_shard_id, context.data_shards)
    if target is None:
        refuse(ErrorCode.UNSUPPORTED_CAPABILITY, "There is no such data shard.", "/physicalShardId")
    if row is None and directory.assignments >= MAX_ASSIGNMENTS:
        refuse(
            ErrorCode.BUDGET_EXCEEDED, f"The placement directory holds {MAX_ASSIGNMENTS} partitions already."
        )
    if target == place.shard:
        _assign(context.txn, partition, target, directory, row)
        return True
    binding = Binding(
        number=context.position,
        partition=partition,
        source=place.shard,
        epoch=place.epoch,
        target=target,
        principal=context.principal.id,
        command_id=context.command_id,
        fingerprint=context.fingerprint,
        policy_epoch=context.principal.policy_epoch,
    )
    put_row(context.txn, BINDINGS, UNDER_WAY, binding)
    raise Unsettled(_waiting(binding, context))


def _waiting(binding: Binding, context: CommandContext) -> KeyLoadError:
    """What a caller is told whose time ends before the binding that is under way is settled."""
    if (binding.principal, binding.command_id) == (context.principal.id, context.command_id):
        return KeyLoadError(
            ErrorCode.UNKNOWN_WRITE_OUTCOME, "The partition is being closed in its shard; repeat the command."
        )
    return KeyLoadError(ErrorCode.OWNERSHIP_LOST, "Another partition is being placed; repeat the command.")


def settle(txn: Txn, binding: Binding, closed: bool) -> KeyLoadError | None:
    """End a binding: write its row when its partition is closed. Returns the refusal of its command, None
    when the partition is assigned."""
    delete_row(txn, BINDINGS, UNDER_WAY)
    if not closed:
        return KeyLoadError(
            ErrorCode.UNSUPPORTED_CAPABILITY, "The partition holds data in another shard.", path="/partition"
        )
    catalog = FreshCatalog(txn)
    _assign(txn, binding.partition, binding.target, catalog.directory, catalog.placement(binding.partition))
    return None


def _assign(
    txn: Txn, partition: PartitionKey, shard: int, directory: Directory, row: Placement | None
) -> None:
    put_row(txn, PLACEMENTS, partition, Placement(shard, 1 if row is None else row.revision + 1))
    changed = Directory(directory.revision + 1, directory.assignments + (row is None))
    put_row(txn, DIRECTORIES, PLACEMENT_DIRECTORY, changed)


def _looked_up(
    reader: Reader, partition: PartitionKey, shards: int
) -> tuple[Directory, Placement | None, Place]:
    """The directory, and row and place of a partition; Corruption when they contradict each other."""
    catalog = FreshCatalog(reader)
    directory, row = catalog.directory, catalog.placement(partition)
    place = place_of(row, partition, shards)
    if not 0 <= directory.assignments <= directory.revision or directory.assignments > MAX_ASSIGNMENTS:
        raise damaged_directory()
    if row is not None and (directory.assignments == 0 or row.revision > directory.revision):
        raise damaged_directory()
    return directory, row, place


READ = ReadHandler(authorize=_authorize_read, execute=_read)
BIND = CommandHandler(authorize=_authorize_bind, execute=_bind)
