"""Where a worker's commands go: into the queue of a shard led here, to the leader's worker, or back with an
answer.

A command that is passed on may be passed on again when the leader changes: its outcome is stored under its
id, so it takes effect once however often it arrives (CMD-18).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping

import msgspec

from keyload.codec.placement import FIRST_EPOCH, Place
from keyload.contract.errors import ErrorCode, KeyLoadError, Problem
from keyload.link.catalog import Catalog
from keyload.link.messages import (
    Command,
    Evidence,
    Forward,
    ForwardReply,
    PeerToPeer,
    Read,
    Refusal,
    Reply,
    WorkerToFront,
)
from keyload.models import context
from keyload.worker import answers
from keyload.worker.admission import CommandGate
from keyload.worker.batch import Answer, Pending
from keyload.worker.calls import OWN_FRONT, CommandCall, Missing, ReadCall, refusal
from keyload.worker.shard import Completed, Shard, unanswered
from keyload.worker.space import Space

NO_SPACE = answers.refused(ErrorCode.RESOURCE_EXHAUSTED, "The store has no room for new writes; reads go on.")

_GLOBAL = Place(0, FIRST_EPOCH)
_NUMBER_BITS = 62
"""The numbers of forwarded commands begin at a random place in each life of a worker: the leader may still
answer a command of a former life, and that answer must not be taken for one of this life.
"""

NO_EVIDENCE = (ErrorCode.OWNERSHIP_LOST, ErrorCode.RECOVERY_REQUIRED, ErrorCode.RESOURCE_EXHAUSTED)
"""Refusals of a read for evidence that say nothing of the data: nobody could be asked."""

SendFront = Callable[[WorkerToFront], None]
SendPeer = Callable[[int, PeerToPeer], None]


class CommandDesk:
    """Takes commands in, sends them on, and answers them.

    `me` is this node's number, `shards` those of this worker, `data_shards` the number in the whole cluster,
    `call_seconds` how long a command may wait here, `hold_seconds` how long forwarding rests after a node
    turned out not to lead.
    """

    def __init__(
        self,
        *,
        me: int,
        shards: Mapping[int, Shard],
        data_shards: int,
        catalog: Catalog,
        gate: CommandGate,
        space: Space,
        call_seconds: float,
        hold_seconds: float,
        send_front: SendFront,
        send_peer: SendPeer,
    ) -> None:
        self._me = me
        self._shards = shards
        self._data_shards = data_shards
        self._catalog = catalog
        self._gate = gate
        self._space = space
        self._call_seconds = call_seconds
        self._hold_seconds = hold_seconds
        self._send_front = send_front
        self._send_peer = send_peer
        self._next_call = secrets.randbits(_NUMBER_BITS)
        self._evidence: dict[int, Missing] = {}
        self._displaced: list[CommandCall] = []
        """Commands whose evidence lies in a partition that is being placed: they ask anew at the next
        tick."""

    def next_number(self) -> int:
        """A number under which this worker asks somebody else."""
        self._next_call += 1
        return self._next_call

    # -- arrival

    def from_front(self, command: Command, now: float) -> None:
        """A command of this node's front."""
        self._arrive(CommandCall(command, OWN_FRONT, command.call, now + self._call_seconds))

    def from_peer(self, number: int, forward: Forward, now: float) -> None:
        """A command that another node took for led here."""
        call = CommandCall(forward.command, number, forward.call, now + self._call_seconds)
        shard = self._shards.get(forward.command.shard)
        if shard is None or not shard.leads:
            self.finish(call, refusal(ErrorCode.OWNERSHIP_LOST))
        else:
            self._arrive(call)

    def _arrive(self, call: CommandCall) -> None:
        shard = self._shards.get(call.command.shard)
        if shard is None:
            self.finish(call, refusal(ErrorCode.OWNERSHIP_LOST))
            return
        waiting = len(shard.queue) + len(shard.forwarded)
        if waiting >= self._gate.limits.writer_queue and not call.command.control:
            self.finish(call, refusal(ErrorCode.RESOURCE_EXHAUSTED))
            return
        if shard.leads and self._space.full(shard.number):
            self.finish(call, NO_SPACE)
            return
        try:
            self._gate.admit(call, self._tenant(call.command))
        except KeyLoadError as error:
            self.finish(call, answers.refusal(error))
            return
        shard.queue.add(call)

    def _tenant(self, command: Command) -> str:
        principal = self._catalog.principal(command.principal)
        return "" if principal is None else principal.tenant_id

    # -- towards the leader

    def route(self, shard: Shard, now: float) -> None:
        """Pass the commands of a shard that another node leads to that node."""
        if shard.leader_changed():
            shard.reclaim_forwarded()
            shard.hold_until = 0.0
        if shard.leads or not shard.queue:
            return
        leader = shard.raft.leader
        for call in shard.queue.take(len(shard.queue)) if leader and now >= shard.hold_until else ():
            if call.origin != OWN_FRONT:
                self.finish(call, refusal(ErrorCode.OWNERSHIP_LOST))
            elif leader is not None:
                self._forward(shard, leader, call)

    def _forward(self, shard: Shard, leader: int, call: CommandCall) -> None:
        number = self.next_number()
        shard.forwarded[number] = call
        call.submitted = True
        self._send_peer(leader, Forward(call=number, origin=self._me, command=call.command))

    def not_sent(self, forward: Forward, now: float) -> None:
        """A forwarded command did not fit the link: it is tried again a little later."""
        self._again(self._shards[forward.command.shard], forward.call, now)

    def forward_answered(self, reply: ForwardReply, now: float) -> None:
        """The leader's worker answered a forwarded command; a broken refusal tells nothing (ADM-17)."""
        shard = next((shard for shard in self._shards.values() if reply.call in shard.forwarded), None)
        if shard is None:
            return
        code = _code(reply.payload) if reply.refused else None
        if code == ErrorCode.OWNERSHIP_LOST and not reply.again:
            self._again(shard, reply.call, now)
            return
        call = shard.forwarded.pop(reply.call)
        if reply.refused and code is None:
            self.finish(call, unanswered(call))
        else:
            self.finish(call, Answer(reply.refused, reply.payload, reply.again))

    def _again(self, shard: Shard, number: int, now: float) -> None:
        call = shard.forwarded.pop(number, None)
        if call is not None:
            shard.hold_until = now + self._hold_seconds
            shard.queue.put_back((call,))

    # -- evidence

    def fetch_evidence(self, missing: Missing, now: float) -> None:
        """Begin the read that a command waits for: here, or through the front where another worker has the
        shard.
        """
        call, needs = missing
        command, partition = call.command, needs.partition
        try:
            place = _GLOBAL if partition is None else self._catalog.place(partition, self._data_shards)
        except KeyLoadError as error:
            self.finish(call, answers.refusal(error))
            return
        number = self.next_number()
        read = Read(
            number,
            place.shard,
            needs.read,
            command.principal,
            command.catalog_version,
            partition,
            needs.payload,
            place.epoch,
            command.credential,
        )
        local = self._shards.get(place.shard)
        if local is not None:
            deadline = now + self._call_seconds
            local.reads.add(ReadCall(read, deadline, deadline, missing))
        else:
            self._evidence[number] = missing
            self._send_front(Evidence(call=number, read=read))

    def evidence_from_front(self, answer: Reply | Refusal) -> None:
        """The front brings the evidence that was asked for with this number."""
        missing = self._evidence.pop(answer.call, None)
        if missing is not None:
            again = isinstance(answer, Refusal) and answer.again
            self.evidence_found(missing, Answer(isinstance(answer, Refusal), answer.payload, again))

    def evidence_found(self, missing: Missing, answer: Answer) -> None:
        """A command's evidence is there: it goes back to the head of its queue, unless nobody could be
        asked."""
        call, needs = missing
        if call.answered:
            return
        if answer.again:
            self._displaced.append(call)
            return
        if answer.refused and _code(answer.payload) in NO_EVIDENCE:
            self.finish(call, unanswered(call))
            return
        found = context.Evidence(needs.read, needs.partition, needs.payload, answer.refused, answer.payload)
        pending = call.pending
        call.pending = Pending(pending.command, (*pending.evidence, found))
        self._shards[call.command.shard].queue.put_back((call,))

    # -- commands of the server itself

    def submit_internal(self, command: Command, now: float) -> None:
        """Queue a command that the server issues on its own; nobody waits for its answer (SEC-9)."""
        self._shards[command.shard].queue.add(CommandCall(command, OWN_FRONT, 0, now + self._call_seconds))

    # -- answers

    def finish(self, call: CommandCall, answer: Answer) -> None:
        """Answer a command, once. One that is repeated and whose key has ended meanwhile may be done, as its
        caller will not learn from a stored outcome.
        """
        if call.answered:
            return
        if call.repeated and answer.refused and _code(answer.payload) is ErrorCode.UNAUTHENTICATED:
            answer = unanswered(call)
        call.answered = True
        self._gate.release(call)
        if call.origin != OWN_FRONT:
            self._send_peer(
                call.origin, ForwardReply(call.call, answer.refused, answer.payload, answer.again)
            )
        elif call.call:
            self._send_front(answers.message(call.call, answer))

    def finish_all(self, completed: list[Completed]) -> None:
        """Answer what a shard completed."""
        for call, answer in completed:
            self.finish(call, answer)

    def sweep(self, now: float) -> None:
        """Give up evidence whose command is answered or too late; send displaced commands back to their
        queue."""
        displaced, self._displaced = self._displaced, []
        for call in displaced:
            self._shards[call.command.shard].queue.put_back((call,))
        for number, (call, _) in list(self._evidence.items()):
            if call.answered or call.deadline <= now:
                del self._evidence[number]
                self.finish(call, unanswered(call))


def _code(payload: bytes) -> ErrorCode | None:
    """The code of a refusal, None when it is not the problem of any."""
    try:
        return ErrorCode(msgspec.msgpack.decode(payload, type=Problem).error_code)
    except (ValueError, RecursionError):
        return None
