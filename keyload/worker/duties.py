"""What leaders do by themselves: lead where they should, place partitions, exchange voters."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from keyload.link.catalog import Catalog
from keyload.link.launch import WorkerLaunch
from keyload.link.messages import Refusal, Reply, WorkerToFront
from keyload.worker.commands import CommandDesk
from keyload.worker.conditions import Conditions
from keyload.worker.leadership import Leadership
from keyload.worker.placing import Placing
from keyload.worker.replacing import Replacing
from keyload.worker.shard import Shard


class Duties:
    """The duties of one worker, each in a module of its own."""

    def __init__(
        self,
        launch: WorkerLaunch,
        shards: Mapping[int, Shard],
        *,
        catalog: Catalog,
        commands: CommandDesk,
        conditions: Conditions,
        send_front: Callable[[WorkerToFront], None],
        now: float,
    ) -> None:
        self._leadership = Leadership(launch, shards, catalog, commands, conditions, now)
        self._placing = Placing(shards, catalog, commands, send_front, launch.call_ms / 1000)
        self._replacing = Replacing(launch.node_number, launch.shards, shards, catalog, commands, send_front)

    def tick(self, now: float, ticks: int) -> None:
        """Do what is due; `now` is the worker's monotonic clock in seconds, `ticks` the node's clock."""
        self._leadership.tick(now, ticks)
        self._placing.tick(now)
        self._replacing.tick(now)

    def answered(self, answer: Reply | Refusal, now: float) -> bool:
        """Take the front's answer to an errand; whether it was one."""
        return self._placing.answered(answer, now)

    def resign(self) -> None:
        """Hand every leadership to another node, because this worker stops."""
        self._leadership.resign()

    def idle(self) -> bool:
        """Whether the worker may stop."""
        return self._leadership.idle()
