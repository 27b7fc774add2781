"""Carries the exchange of a voter through all shards (CLU-19, `keyload.models.cluster.nodes`).

The wish lies in the system shard and reaches every worker with the catalog. The leader of each shard takes
the steps of its own membership, one change at a time, each after the one before is committed:

1. The old voter, if it leads, hands its office to another voter; it takes no step itself.
2. The new node becomes a learner and receives the log, by a snapshot where the log does not reach back.
3. When it has joined and lacks little, it becomes a voter.
4. The old voter goes.

The leader of a data shard then tells the system shard, again and again until the wish says so. The system
shard takes steps 3 and 4 last; when it has, its leader writes the new list of voters, and with that the wish
and the old node are gone. A step depends on nothing but the wish and the membership in force, both in the
logs: whoever leads next goes on, and a step taken twice is taken once.

A wish that was withdrawn goes the same way with the two nodes in each other's place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from keyload.consensus import Membership
from keyload.contract.tables import Replacement
from keyload.link import log
from keyload.link.catalog import Catalog
from keyload.link.log import Category
from keyload.link.messages import Errand, WorkerToFront
from keyload.worker.commands import CommandDesk
from keyload.worker.internal import FINISH_REPLACEMENT, SHARD_REPLACED, internal_command
from keyload.worker.shard import Shard

CAUGHT_UP = 256
"""Entries a learner may lack when it is promoted: no more than one heartbeat brings."""

REPEAT_SECONDS = 1.0
"""A step whose effect is not seen is taken again after this time."""


class Replacing:
    """Takes the steps of the shards led in this worker; `me` is this node's number."""

    def __init__(
        self,
        me: int,
        data_shards: int,
        shards: Mapping[int, Shard],
        catalog: Catalog,
        commands: CommandDesk,
        send_front: Callable[[WorkerToFront], None],
    ) -> None:
        self._me = me
        self._data_shards = data_shards
        self._shards = shards
        self._catalog = catalog
        self._commands = commands
        self._send_front = send_front
        self._repeat_at = dict.fromkeys(shards, 0.0)

    def tick(self, now: float) -> None:
        """Take the steps that are due."""
        wish = self._catalog.replacement
        if wish is None:
            return
        for shard in self._shards.values():
            if shard.raft.leader_ready and now >= self._repeat_at[shard.number]:
                self._step(shard, wish, now)

    def _step(self, shard: Shard, wish: Replacement, now: float) -> None:
        if self._me == wish.leaving:
            self._pause(shard, now)
            self._hand_over(shard, wish)
            return
        membership = shard.raft.membership
        wanted = next_membership(membership, wish, self._may_end(shard, wish), self._caught_up(shard, wish))
        if wanted is not None:
            if shard.raft.propose_membership(wanted) is not None:
                members = f"{wanted.voters} {wanted.learners}"
                log.event(Category.MEMBERSHIP_CHANGED, shard=shard.number, members=members)
        elif is_done(membership, wish) and shard.raft.log.settled:
            self._pause(shard, now)
            self._report(shard, wish, now)

    def _may_end(self, shard: Shard, wish: Replacement) -> bool:
        """Whether the voters may change: the system shard's do last."""
        return shard.number != 0 or len(wish.done) >= self._data_shards

    def _caught_up(self, shard: Shard, wish: Replacement) -> bool:
        status = shard.raft.peer_status(wish.coming)
        if status is None or not status.active or not status.joined or status.needs_snapshot:
            return False
        return status.match + CAUGHT_UP >= shard.raft.last_index

    def _hand_over(self, shard: Shard, wish: Replacement) -> None:
        others = (voter for voter in shard.raft.voters if voter != wish.leaving)
        target = next((voter for voter in others if shard.raft.keeps_up(voter)), None)
        if target is not None:
            shard.raft.transfer(target)

    def _report(self, shard: Shard, wish: Replacement, now: float) -> None:
        if shard.number == 0:
            self._commands.submit_internal(internal_command(FINISH_REPLACEMENT, b""), now)
        elif shard.number not in wish.done:
            report = internal_command(SHARD_REPLACED, msgspec.msgpack.encode((shard.number, wish.withdrawn)))
            self._send_front(Errand(self._commands.next_number(), report))

    def _pause(self, shard: Shard, now: float) -> None:
        self._repeat_at[shard.number] = now + REPEAT_SECONDS


def next_membership(
    membership: Membership, wish: Replacement, may_end: bool, caught_up: bool
) -> Membership | None:
    """The next change on the way to the wish; None when it is reached, or must wait."""
    voters, learners = set(membership.voters), set(membership.learners)
    if wish.leaving in learners:
        return Membership(membership.voters, tuple(learners - {wish.leaving}))
    if wish.coming not in voters and wish.coming not in learners:
        return Membership(membership.voters, (*learners, wish.coming))
    if not may_end:
        return None
    if wish.coming in learners:
        if not caught_up:
            return None
        return Membership((*voters, wish.coming), tuple(learners - {wish.coming}))
    if wish.leaving in voters:
        return Membership(tuple(voters - {wish.leaving}), membership.learners)
    return None


def is_done(membership: Membership, wish: Replacement) -> bool:
    """Whether a membership is the wished one."""
    return wish.coming in membership.voters and wish.leaving not in membership.members
