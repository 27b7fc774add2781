"""Which shards this node should lead, and what their leader does besides commands.

Each shard prefers one node, so that leaders spread evenly (CLU-8); a leader that is not the preferred node
hands over once the preferred one keeps up. A node whose clock is wrong or whose disk is full hands over to
any that is fit (SCH-2, STO-12). A leader also writes the first administrator into an empty store (SEC-6),
registers the voters, and removes outcomes past their retention (CMD-25).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from keyload.link.catalog import Catalog
from keyload.link.launch import WorkerLaunch
from keyload.link.messages import Command
from keyload.worker.conditions import Conditions
from keyload.worker.internal import BOOTSTRAP, REGISTER, internal_command
from keyload.worker.nodes import node_of
from keyload.worker.shard import Shard

HAND_OVER_SECONDS = 3.0
"""A leader considers a transfer at most this often, so that a failing one does not repeat at once."""

CARE_SECONDS = 1.0


def preferred_node(shard: int, voters: Sequence[int]) -> int:
    """Number of the node that should lead a shard: the system shard the first, data shards in turn."""
    return voters[shard % len(voters)]


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
        catalog: Catalog,
        commands: Submitter,
        conditions: Conditions,
        now: float,
    ) -> None:
        self._launch = launch
        self._shards = shards
        self._catalog = catalog
        self._commands = commands
        self._conditions = conditions
        self._next_transfer = now + HAND_OVER_SECONDS
        self._next_yield = dict.fromkeys(shards, 0.0)
        self._next_care = dict.fromkeys(shards, 0.0)
        self._begun_term = 0
        self._beginning = _beginning(launch)

    def tick(self, now: float, ticks: int) -> None:
        """Do what is due; `now` is the worker's monotonic clock in seconds, `ticks` the node's clock."""
        for shard in self._shards.values():
            if shard.number == 0 and shard.raft.leader_ready:
                self._begin(shard.raft.term, now)
                shard.executor.heard = self._heard(shard)
            if now >= self._next_care[shard.number] and not shard.expire_outcomes(ticks):
                self._next_care[shard.number] = now + CARE_SECONDS
            unfit = shard.clock_uncertain or not self._conditions.fit
            if unfit and shard.leads and now >= self._next_yield[shard.number]:
                self._next_yield[shard.number] = now + HAND_OVER_SECONDS
                self._yield(shard, self._conditions.peer_fit)
        if len(self._launch.peers) > 1 and now >= self._next_transfer:
            self._next_transfer = now + HAND_OVER_SECONDS
            self._hand_over()

    def _begin(self, term: int, now: float) -> None:
        """Once in each term led here: an attempt of an earlier one may have been lost with its leader."""
        if term != self._begun_term:
            self._begun_term = term
            for command in self._beginning:
                self._commands.submit_internal(command, now)

    def _heard(self, shard: Shard) -> frozenset[int]:
        peers = ((peer, shard.raft.peer_status(peer)) for peer in shard.raft.peers)
        return frozenset(peer for peer, status in peers if status is not None and status.active) | {
            self._launch.node_number
        }

    def _candidates(self, shard: Shard) -> list[int]:
        """The voters that may lead a shard: not one that is being exchanged, as long as there are others."""
        replacement = self._catalog.replacement
        leaving = 0 if replacement is None else replacement.leaving
        return [voter for voter in shard.raft.voters if voter != leaving] or list(shard.raft.voters)

    def _hand_over(self) -> None:
        for shard in self._shards.values():
            if not shard.raft.leader_ready:
                continue
            wanted = preferred_node(shard.number, self._candidates(shard))
            if wanted == self._launch.node_number or not self._conditions.peer_fit(wanted):
                continue
            if shard.raft.keeps_up(wanted):
                shard.raft.transfer(wanted)

    def _yield(self, shard: Shard, fit: Callable[[int], bool]) -> None:
        """Hand a shard to the next node that keeps up and is fit, if there is one."""
        me, voters = self._launch.node_number, self._candidates(shard)
        others = [voter for voter in voters if voter > me] + [voter for voter in voters if voter < me]
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


def _beginning(launch: WorkerLaunch) -> list[Command]:
    """What a leader of the system shard makes sure of: that there is a first administrator (SEC-6), and that
    the voters are registered. In a store that has them the commands change nothing.
    """
    commands: list[Command] = []
    if launch.bootstrap is not None:
        commands.append(internal_command(BOOTSTRAP, msgspec.msgpack.encode(launch.bootstrap)))
    if launch.peers:
        nodes = [node_of(peer) for peer in launch.peers]
        commands.append(internal_command(REGISTER, msgspec.msgpack.encode(nodes)))
    return commands
