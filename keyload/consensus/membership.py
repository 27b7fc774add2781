"""Who belongs to a shard: one value, written into the log as an entry of its own (thesis, chapter 4)."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

MAX_MEMBERS: Final = 64
"""Far more replicas of one shard than anybody wants; what a peer may claim is bounded."""

_NodeId = Annotated[int, msgspec.Meta(ge=1, le=(1 << 63) - 1)]
NodeIds = Annotated[tuple[_NodeId, ...], msgspec.Meta(max_length=MAX_MEMBERS)]


class Membership(msgspec.Struct, frozen=True, array_like=True):
    """Voters decide; learners receive everything and count for nothing. Ids are positive and never used
    twice.

    Raises ValueError without voters, for an id that is named twice, and for more than `MAX_MEMBERS`.
    """

    voters: NodeIds
    learners: NodeIds = ()

    def __post_init__(self) -> None:
        members = self.voters + self.learners
        if not self.voters or len(set(members)) != len(members) or min(members) < 1:
            raise ValueError("members must be distinct positive ids, with at least one voter")
        if len(members) > MAX_MEMBERS:
            raise ValueError(f"at most {MAX_MEMBERS} members")
        for name in ("voters", "learners"):
            msgspec.structs.force_setattr(self, name, tuple(sorted(getattr(self, name))))

    def packed(self) -> bytes:
        """The data of its log entry."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def unpacked(cls, data: bytes) -> Membership:
        """Undo `packed`. Raises ValueError when `data` is no membership."""
        try:
            return _decoder.decode(data)
        except (msgspec.DecodeError, RecursionError) as error:
            raise ValueError(f"not a membership: {error}") from None

    @property
    def members(self) -> tuple[int, ...]:
        """Voters and learners."""
        return self.voters + self.learners

    def is_step_to(self, other: Membership) -> bool:
        """Whether one change leads to `other`: a learner comes, a member goes, or a learner becomes a voter.

        Majorities before and after one step always share a node (thesis, 4.1).
        """
        voters, learners = set(self.voters), set(self.learners)
        new_voters, new_learners = set(other.voters), set(other.learners)
        came, gone = new_voters - voters, voters - new_voters
        if came:
            return not gone and len(came) == 1 and came <= learners and new_learners == learners - came
        if gone:
            return len(gone) == 1 and new_learners == learners
        return len(learners ^ new_learners) == 1


_decoder = msgspec.msgpack.Decoder(Membership)
