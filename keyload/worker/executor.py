"""Executes commands on the leader: one batch of commands becomes one write set and one answer per command.

No I/O, no clock, no randomness: the reader is a committed cut (with the batch in flight on top of it), the
clock an argument. What a batch writes is applied as bytes by every replica; nothing is executed twice.

Order of the checks of one command (CMD-22, CON-50): key and principal are valid at the logged instant,
the operation is allowed, the stored outcome, then the command itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from keyload.codec.identity import atomic_partition_id
from keyload.contract.errors import UNSTORED, ErrorCode, KeyLoadError
from keyload.contract.mutations import MUTATIONS as MUTATION_RULES
from keyload.contract.operations import OPERATIONS
from keyload.contract.shared import DurabilityProfile
from keyload.link import log
from keyload.link.log import Category
from keyload.link.messages import INTERNAL, Command
from keyload.models import COMMANDS, MUTATIONS
from keyload.models.catalog import FreshCatalog
from keyload.models.cluster import placement
from keyload.models.context import (
    CatalogView,
    CommandContext,
    CommandHandler,
    MutationHandler,
    NeedsEvidence,
    PartitionKey,
    Receipt,
    Unsettled,
)
from keyload.models.outbox import OutboxLimits, append
from keyload.models.partitions import GLOBAL_NUMBER, PartitionHead, ShardMeta, load_head, load_meta
from keyload.models.partitions.head import (
    HEAD,
    META,
    closed_entry,
    number_entry,
    partition_entry,
)
from keyload.models.partitions.keys import META_KEY, directory_key, head_key
from keyload.models.receipts import guid_bytes
from keyload.models.security.identity import rights_of_call
from keyload.models.security.rights import Rights, rights_of
from keyload.storage.txn import Reader, Txn
from keyload.worker import answers, outcomes
from keyload.worker.batch import Answer, Batch, Pending
from keyload.worker.internal import CLOSE, SETTLE, SYSTEM_COMMANDS, UNAWAITED, SystemFacts
from keyload.worker.outcomes import OUTCOME, Outcome, Refused

MAX_COMMANDS = 256
MAX_WRITE_BYTES = 4 << 20
MAX_COMMAND_WRITE_BYTES = 32 << 20
"""What one command may write. With a batch before it, that is one log entry, which must fit a segment of the
log and a frame between nodes; an entry that fits neither would stop its shard for good.
"""

TICKS_PER_DAY = 864_000_000_000
CLOCK_TOLERANCE = 2_500_000
"""How far, in ticks, the clock may lie behind the last logged instant: 250 ms (SCH-2)."""

_UNAUTHENTICATED = answers.refused(ErrorCode.UNAUTHENTICATED, "There is no valid current identity.")
_UNKNOWN = answers.refused(
    ErrorCode.UNKNOWN_WRITE_OUTCOME, "The command met an internal failure; repeat it with the same identity."
)
_CLOSED = answers.again(
    KeyLoadError(ErrorCode.OWNERSHIP_LOST, "The partition is being placed; nothing was submitted.")
)
_CLOCK = answers.refused(ErrorCode.CLOCK_UNCERTAIN, "The clock of the leader lies behind the last command.")


class _Scope:
    """A partition, or the global scope, during one batch: its number, head, whether anything was stored in
    it, and up to which placement epoch it is closed here."""

    __slots__ = ("atomic_id", "closed", "fresh", "head", "head_changed", "number", "partition", "used")

    def __init__(
        self, partition: PartitionKey | None, number: int, fresh: bool, head: PartitionHead, closed: int = 0
    ) -> None:
        self.partition = partition
        self.number = number
        self.fresh = fresh
        self.head = head
        self.closed = closed
        self.head_changed = False
        self.used = False
        self.atomic_id = "" if partition is None else atomic_partition_id(*partition)


class Executor:
    """Executes the commands of one shard.

    `incarnation` is the guid text of the store, `durability` the profile commits reach, `data_shards` the
    number of data shards of the cluster. The registries of handlers are arguments, so that tests can add a
    model.
    """

    def __init__(
        self,
        *,
        shard: int,
        incarnation: str,
        durability: str,
        data_shards: int,
        outbox: OutboxLimits | None = None,
        outcomes_retention_days: int = 7,
        commands: Mapping[str, CommandHandler] = COMMANDS,
        mutations: Mapping[str, MutationHandler] = MUTATIONS,
    ) -> None:
        self.shard = shard
        self.incarnation = incarnation
        self.incarnation_bytes = guid_bytes(incarnation)
        self.durability = DurabilityProfile(durability)
        self.data_shards = data_shards
        self.heard: frozenset[int] = frozenset()
        """Nodes that answer this leader, itself included, as the worker saw them last (CLU-19)."""
        self.outbox = OutboxLimits() if outbox is None else outbox
        self.commands = commands
        self.mutations: Mapping[type, MutationHandler] = {
            MUTATION_RULES[kind].record: handler for kind, handler in mutations.items()
        }
        self._retention = outcomes_retention_days * TICKS_PER_DAY
        self.decoders: dict[str, Callable[[bytes], Any]] = {
            name: msgspec.msgpack.Decoder(OPERATIONS[name].request).decode for name in commands
        }

    def execute(self, reader: Reader, pending: Sequence[Pending], catalog: CatalogView, now: int) -> Batch:
        """Execute commands in order until a batch is full; `now` is the leader's clock in ticks.

        Stops at 256 commands or 4 MiB of writes; `taken` of the result tells how many were looked at.
        """
        run = _Run(self, reader, catalog, now)
        for place, item in enumerate(pending):
            if place == MAX_COMMANDS or run.write_bytes >= MAX_WRITE_BYTES:
                break
            run.answers.append(run.answer(place, item))
        return run.finish()

    def expire_outcomes(self, reader: Reader, now: int, limit: int) -> dict[bytes, bytes | None]:
        """Writes that remove outcomes older than the retention, oldest first, about `limit` of them
        (CMD-25)."""
        if self._retention == 0:
            return {}
        return outcomes.expired(reader, now - self._retention, limit)


class _Run:
    """One batch while it is being executed."""

    def __init__(self, executor: Executor, reader: Reader, catalog: CatalogView, now: int) -> None:
        self.executor = executor
        self.txn = Txn(reader)
        self.catalog: CatalogView = FreshCatalog(self.txn) if executor.shard == 0 else catalog
        self.meta: ShardMeta = load_meta(reader)
        self.next_number = self.meta.next_number
        self.position = self.meta.position
        self.clock_uncertain = now < self.meta.instant - CLOCK_TOLERANCE
        self.instant = max(now, self.meta.instant)
        self.write_bytes = 0
        self.answers: list[Answer | None] = []
        self.evidence: list[tuple[int, NeedsEvidence]] = []
        self.stored: dict[bytes, list[bytes]] = {}
        self.scopes: dict[PartitionKey | None, _Scope] = {}

    def answer(self, place: int, item: Pending) -> Answer | None:
        """Execute one command; None when it waits for evidence."""
        try:
            internal = item.command.principal == INTERNAL
            return self._internal(item.command) if internal else self._command(item)
        except NeedsEvidence as need:
            self.evidence.append((place, need))
            return None
        except KeyLoadError as error:
            return answers.refusal(error)
        except Exception as error:
            log.failure(Category.COMMAND_FAILED, error)
            return _UNKNOWN

    def finish(self) -> Batch:
        """Add the records kept once per batch and hand out the result."""
        count = self.position - self.meta.position
        writes = self.txn.writes
        if count:
            for scope in self.scopes.values():
                if scope.used and scope.fresh and scope.partition is not None:
                    writes[directory_key(scope.partition)] = number_entry(scope.number)
                if scope.head_changed:
                    writes[head_key(scope.number)] = HEAD.encode(scope.head)
            if self.stored:
                key, value = outcomes.log_record(self.instant, self.position, self.stored)
                writes[key] = value
            writes[META_KEY] = META.encode(ShardMeta(self.position, self.instant, self.next_number))
        return Batch(
            writes=writes,
            answers=self.answers,
            evidence=self.evidence,
            taken=len(self.answers),
            count=count,
            instant=self.instant if count else self.meta.instant,
            position=self.position,
            clock_uncertain=self.clock_uncertain,
        )

    def _command(self, item: Pending) -> Answer:
        command = item.command
        executor = self.executor
        parse = Rights if executor.shard == 0 else rights_of
        rights = rights_of_call(self.catalog, command.principal, command.credential, self.instant, parse)
        if rights is None:
            return _UNAUTHENTICATED
        if (command.partition is None) != (executor.shard == 0):
            return answers.refused(ErrorCode.OWNERSHIP_LOST, "The command was sent to another shard's place.")
        handler = executor.commands.get(command.operation)
        if handler is None:
            return answers.refused(ErrorCode.NOT_FOUND, "There is no such command.")
        try:
            request = executor.decoders[command.operation](command.payload)
        except (msgspec.DecodeError, UnicodeDecodeError):
            detail, expected = "The request cannot be decoded.", "a request of this version"
            failure = KeyLoadError(ErrorCode.VALIDATION, detail, path="", expected=expected)
            return answers.refusal(failure)
        scope = self._scope(command.partition)
        if command.epoch <= scope.closed:
            return _CLOSED
        context = self._context(scope, rights, item)
        prefix = outcomes.outcome_prefix(scope.number, command.principal)
        key = prefix + command.command_id
        try:
            handler.authorize(context, request)
        except KeyLoadError as denial:
            return self._denied(denial, scope, prefix, context, command)
        known = self.txn.get(key)
        if known is not None:
            return self._replay(known, scope, rights, command)
        if self.clock_uncertain:
            return _CLOCK
        try:
            answer = answers.success(handler.execute(context, request))
            head = self._head_after(scope, context)
            size = _bounded_size(context.txn.writes)
        except Unsettled as wait:
            return self._unsettled(wait, context)
        except KeyLoadError as error:
            return self._refused(error, scope, prefix, context, command)
        self._succeeded(answer, scope, prefix, context, command)
        self.write_bytes += size
        if head is not None:
            scope.head = head
            scope.head_changed = True
        return answer

    def _context(self, scope: _Scope, rights: Rights, item: Pending) -> CommandContext:
        command, executor = item.command, self.executor
        return CommandContext(
            txn=Txn(self.txn),
            rights=rights,
            catalog=self.catalog,
            mutations=executor.mutations,
            partition=scope.partition,
            atomic_partition_id=scope.atomic_id,
            partition_number=scope.number,
            ownership_epoch=scope.head.ownership_epoch,
            event_sequence=scope.head.event_sequence,
            command_id=command.command_id,
            fingerprint=command.fingerprint,
            request_bytes=len(command.payload),
            instant=self.instant,
            position=self.position + 1,
            incarnation=executor.incarnation,
            durability=executor.durability,
            data_shards=executor.data_shards,
            evidence=item.evidence,
        )

    def _succeeded(
        self, answer: Answer, scope: _Scope, prefix: bytes, context: CommandContext, command: Command
    ) -> None:
        """Keep what the command changed and answered: a receipt by its parts, another result as text."""
        result = answer.payload if context.receipts is None else None
        self._store(scope, prefix, context, command, context.receipts, result, None)
        context.txn.merge_into(self.txn)

    def _unsettled(self, wait: Unsettled, context: CommandContext) -> Answer:
        """Keep what a command has begun, without an outcome; its caller asks again."""
        if context.txn.writes:
            context.txn.merge_into(self.txn)
            self.position += 1
        return answers.again(wait.failure)

    def _refused(
        self, error: KeyLoadError, scope: _Scope, prefix: bytes, context: CommandContext, command: Command
    ) -> Answer:
        """Answer a failure; a definite one becomes the outcome of the command (CMD-20, CMD-21)."""
        if error.code in UNSTORED:
            return answers.refusal(error)
        parts = outcomes.refused_parts(error)
        self._store(scope, prefix, context, command, None, None, parts)
        return outcomes.refusal_of(parts)

    def _denied(
        self, denial: KeyLoadError, scope: _Scope, prefix: bytes, context: CommandContext, command: Command
    ) -> Answer:
        """Answer a denial; it is stored unless the id has an outcome, which stays as it is, damaged or
        not."""
        try:
            taken = self.txn.get(prefix + command.command_id) is not None
        except KeyLoadError:
            taken = True
        if taken or self.clock_uncertain:
            return answers.refusal(denial)
        return self._refused(denial, scope, prefix, context, command)

    def _store(
        self,
        scope: _Scope,
        prefix: bytes,
        context: CommandContext,
        command: Command,
        receipts: Sequence[Receipt] | None,
        result: bytes | None,
        problem: Refused | None,
    ) -> None:
        """Take the next position and keep the outcome of the command under its identity (CMD-15, CMD-29)."""
        self.position += 1
        scope.used = True
        outcome = Outcome(
            command.fingerprint,
            self.executor.incarnation_bytes,
            context.rights.record.policy_epoch,
            self.instant,
            self.position,
            context.ownership_epoch,
            self.executor.durability,
            receipts,
            result,
            problem,
        )
        self._keep(prefix, command.command_id, outcome)

    def _keep(self, prefix: bytes, command_id: bytes, outcome: Outcome) -> None:
        self.txn.put(prefix + command_id, OUTCOME.encode(outcome))
        self.stored.setdefault(prefix, []).append(command_id)

    def _replay(self, known: bytes, scope: _Scope, rights: Rights, command: Command) -> Answer:
        """Answer from a stored outcome (CMD-18, CMD-19, CMD-23, CMD-24).

        It takes a position, so that the answer leaves behind a log entry and this leader is known to lead.
        """
        outcome = OUTCOME.decode(known)
        if outcome.incarnation != self.executor.incarnation_bytes:
            answer = answers.refused(
                ErrorCode.TOKEN_INVALIDATED, "The command id was used in another incarnation of the store."
            )
        elif outcome.fingerprint != command.fingerprint:
            answer = answers.refused(ErrorCode.CONFLICT, "The command id was used before with other content.")
        elif outcome.epoch != rights.record.policy_epoch:
            answer = answers.refused(
                ErrorCode.PERMISSION_DENIED, "The caller's rights changed since the command was stored."
            )
        else:
            answer = outcomes.replayed(
                outcome, command.command_id, self.executor.incarnation, scope.atomic_id
            )
        self.position += 1
        return answer

    def _head_after(self, scope: _Scope, context: CommandContext) -> PartitionHead | None:
        """Write the outbox entries of a command; the head of its partition with the counters moved, None when
        they stand still (CHG-14, CON-111)."""
        if not context.effects and context.event_sequence == scope.head.event_sequence:
            return None
        head = replace(scope.head, event_sequence=context.event_sequence)
        executor = self.executor
        append(context.txn, scope.number, head, context, executor.incarnation_bytes, executor.outbox)
        return head

    def _scope(self, partition: PartitionKey | None) -> _Scope:
        scope = self.scopes.get(partition)
        if scope is None:
            scope = self._open(partition)
            self.scopes[partition] = scope
        return scope

    def _open(self, partition: PartitionKey | None) -> _Scope:
        if partition is None:
            return _Scope(None, GLOBAL_NUMBER, False, load_head(self.txn, GLOBAL_NUMBER))
        entry = partition_entry(self.txn, partition)
        if entry.number is not None:
            return _Scope(partition, entry.number, False, load_head(self.txn, entry.number))
        number = self.next_number
        self.next_number += 1
        return _Scope(partition, number, True, PartitionHead(), entry.closed)

    def _internal(self, command: Command) -> Answer:
        """A command of the server itself (SEC-9); it keeps no outcome of its own and may be repeated."""
        operation, partition = command.operation, command.partition
        if operation == CLOSE and partition is not None and self.executor.shard != 0:
            return answers.success(self._close(partition, command.epoch))
        if operation == SETTLE and self.executor.shard == 0:
            settling = msgspec.msgpack.decode(command.payload, type=placement.SettleRequest)
            return answers.success(self._settle(settling))
        handler = SYSTEM_COMMANDS.get(operation) if self.executor.shard == 0 else None
        if handler is None:
            return answers.refused(ErrorCode.NOT_FOUND, "There is no such command.")
        facts = SystemFacts(self.instant, self.executor.data_shards, self.executor.heard)
        changed = handler(self.txn, command.payload, facts)
        if changed or operation not in UNAWAITED:
            self.position += 1
        return answers.success(changed)

    def _close(self, partition: PartitionKey, epoch: int) -> bool:
        """Close an empty partition up to a placement epoch; False when it holds anything (CLU-32).

        It takes a position in any case: what the answer rests on must be committed before it leaves.
        """
        self.position += 1
        scope = self._scope(partition)
        if scope.used or not scope.fresh:
            return False
        if epoch > scope.closed:
            scope.closed = epoch
            self.txn.put(directory_key(partition), closed_entry(epoch))
        return True

    def _settle(self, request: placement.SettleRequest) -> bool:
        """End the binding under way and keep the outcome of its command; False when it is not that one."""
        binding = FreshCatalog(self.txn).binding
        if binding is None or binding.number != request.number:
            return False
        refusal = placement.settle(self.txn, binding, request.closed)
        self.position += 1
        outcome = Outcome(
            binding.fingerprint,
            self.executor.incarnation_bytes,
            binding.policy_epoch,
            self.instant,
            self.position,
            self._scope(None).head.ownership_epoch,
            self.executor.durability,
            result=answers.success(True).payload if refusal is None else None,
            problem=None if refusal is None else outcomes.refused_parts(refusal),
        )
        self._keep(outcomes.outcome_prefix(GLOBAL_NUMBER, binding.principal), binding.command_id, outcome)
        return True


def _bounded_size(writes: dict[bytes, bytes | None]) -> int:
    """Bytes of the writes of a command; `ResourceExhausted` when they are more than one may write."""
    size = sum(map(len, writes)) + sum(map(len, filter(None, writes.values())))
    if size > MAX_COMMAND_WRITE_BYTES:
        raise KeyLoadError(ErrorCode.RESOURCE_EXHAUSTED, "The command changes more than one command may.")
    return size
