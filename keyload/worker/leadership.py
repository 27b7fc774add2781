"""Which shards this node should lead, and what their leader does besides commands.

Each shard prefers one node, so that leaders spread evenly (CLU-8); a leader that is not the preferred node
hands over once the preferred one keeps up. A node whose clock is wrong or whose disk is full hands over to
any that is fit (SCH-2, STO-12). A leader also writes the first administrator into an empty store (SEC-6) and
removes outcomes past their retention (CMD-25).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from keyload.link.launch import Bootstrap, WorkerLaunch
from keyload.link.messages import Command
from keyload.worker.conditions import Conditions
from keyload.worker.executor import BOOTSTRAP
from keyload.worker.shard import Shard

HAND_OVER_SECONDS = 3.0
"""A leader considers a transfer at most this often, so that a failing one does not repeat at once."""

CARE_SECONDS = 1.0


def preferred_node(shard: int, nodes: int) -> int:
    """Number of the node that should lead a shard: the system shard the first, data shards in turn."""
    return shard % nodes + 1


class Submitter(Protocol):
    """Takes commands that the server itself issues: the worker's `CommandDesk`."""

    def submit_internal(self, command: Command, now: float) -> None:
        """Queue a command nobody waits for."""
        ...


class Leadership:
    """The duties of the leaders in one worker."""

    def __init__(
        self,
        launch: WorkerLaunch,
        shards: Mapping[int, Shard],
        commands: Submitter,
        conditions: Conditions,
        now: float,
    ) -> None:
        self._launch = launch
        self._shards = shards
        self._commands = commands
        self._conditions = conditions
        self._next_transfer = now + HAND_OVER_SECONDS
        self._next_yield = dict.fromkeys(shards, 0.0)
        self._next_care = dict.fromkeys(shards, 0.0)
        self._bootstrap_term = 0
        self._bootstrap = None if launch.bootstrap is None else _bootstrap_command(launch.bootstrap)

    def tick(self, now: float, ticks: int) -> None:
        """Do what is due; `now` is the worker's monotonic clock in seconds, `ticks` the node's clock."""
        for shard in self._shards.values():
            if shard.number == 0 and shard.raft.leader_ready and self._bootstrap is not None:
                self._submit_bootstrap(self._bootstrap, shard.raft.term, now)
            if now >= self._next_care[shard.number] and not shard.expire_outcomes(ticks):
                self._next_care[shard.number] = now + CARE_SECONDS
            unfit = shard.clock_uncertain or not self._conditions.fit
            if unfit and shard.leads and now >= self._next_yield[shard.number]:
                self._next_yield[shard.number] = now + HAND_OVER_SECONDS
                self._yield(shard, self._conditions.peer_fit)
        if len(self._launch.peers) > 1 and now >= self._next_transfer:
            self._next_transfer = now + HAND_OVER_SECONDS
            self._hand_over()

    def _submit_bootstrap(self, bootstrap: Command, term: int, now: float) -> None:
        """Once in each term led here: an attempt of an earlier one may have been lost with its leader."""
        if term != self._bootstrap_term:
            self._bootstrap_term = term
            self._commands.submit_internal(bootstrap, now)

    def _hand_over(self) -> None:
        for shard in self._shards.values():
            wanted = preferred_node(shard.number, len(self._launch.peers))
            if wanted == self._launch.node_number or not self._conditions.peer_fit(wanted):
                continue
            if shard.raft.leader_ready and shard.raft.keeps_up(wanted):
                shard.raft.transfer(wanted)

    def _yield(self, shard: Shard, fit: Callable[[int], bool]) -> None:
        """Hand a shard to the next node that keeps up and is fit, if there is one."""
        nodes = len(self._launch.peers)
        others = ((self._launch.node_number + step) % nodes + 1 for step in range(nodes - 1))
        target = next((node for node in others if fit(node) and shard.raft.keeps_up(node)), None)
        if target is not None:
            shard.raft.transfer(target)

    def resign(self) -> None:
        """Hand every leadership to another node, because this worker stops."""
        for shard in self._shards.values():
            if shard.leads:
                self._yield(shard, lambda _: True)

    def idle(self) -> bool:
        """Whether the worker may stop: nothing is in flight, and no shard is led here that another node could
        lead.
        """
        alone = len(self._launch.peers) < 2
        return all(not shard.in_flight and (alone or not shard.leads) for shard in self._shards.values())


def _bootstrap_command(bootstrap: Bootstrap) -> Command:
    """The command that writes the first administrator; in a store that has one it changes nothing."""
    return Command(
        call=0,
        shard=0,
        operation=BOOTSTRAP,
        principal="",
        catalog_version=0,
        command_id=bytes(16),
        fingerprint=bytes(32),
        partition=None,
        payload=msgspec.msgpack.encode(bootstrap),
        control=True,
    )
