"""Carries on the binding of a partition that is under way, as the leader of the system shard
(`keyload.models.cluster.placement`).

Everything it needs lies in the applied state of shard 0, so that a new leader goes on where the last one
stopped. A step whose answer stays out is repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from keyload.contract.tables import Binding
from keyload.link.catalog import Catalog
from keyload.link.messages import Command, Errand, Refusal, Reply, WorkerToFront
from keyload.models.cluster.placement import SettleRequest
from keyload.worker.commands import CommandDesk
from keyload.worker.internal import CLOSE, SETTLE, internal_command
from keyload.worker.shard import Shard

_YES = b"true"


class Placing:
    """Drives at most one binding; `repeat_seconds` is how long a step may go unanswered."""

    def __init__(
        self,
        shards: Mapping[int, Shard],
        catalog: Catalog,
        commands: CommandDesk,
        send_front: Callable[[WorkerToFront], None],
        repeat_seconds: float,
    ) -> None:
        self._system = shards.get(0)
        self._catalog = catalog
        self._commands = commands
        self._send_front = send_front
        self._repeat_seconds = repeat_seconds
        self._asked: tuple[int, Binding] | None = None
        self._repeat_at = 0.0

    def tick(self, now: float) -> None:
        """Have the partition of the binding under way closed, if there is one and this node leads."""
        binding = self._catalog.binding
        if binding is None or self._system is None or not self._system.raft.leader_ready:
            self._asked, self._repeat_at = None, 0.0
        elif now >= self._repeat_at:
            self._repeat_at = now + self._repeat_seconds
            number = self._commands.next_number()
            self._asked = (number, binding)
            self._send_front(Errand(number, close_command(binding)))

    def answered(self, answer: Reply | Refusal, now: float) -> bool:
        """Settle the binding once its partition is known to be closed or not; whether the answer was to an
        errand of this binding."""
        if self._asked is None or answer.call != self._asked[0]:
            return False
        binding = self._asked[1]
        self._asked = None
        if isinstance(answer, Reply):
            self._commands.submit_internal(settle_command(binding, answer.payload == _YES), now)
        return True


def close_command(binding: Binding) -> Command:
    """Closes the partition of a binding in the shard it lives in."""
    return _command(binding.source, CLOSE, binding, b"")


def settle_command(binding: Binding, closed: bool) -> Command:
    """Ends a binding in the system shard."""
    return _command(0, SETTLE, binding, msgspec.msgpack.encode(SettleRequest(binding.number, closed)))


def _command(shard: int, operation: str, binding: Binding, payload: bytes) -> Command:
    command = internal_command(operation, payload)
    partition = binding.partition if shard else None
    return msgspec.structs.replace(command, shard=shard, partition=partition, epoch=binding.epoch)
