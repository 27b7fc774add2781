"""The state every role shares, and how it changes hands."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from keyload.consensus.config import Config
from keyload.consensus.errors import ConsensusError
from keyload.consensus.log import LogStorage, RaftLog
from keyload.consensus.membership import Membership
from keyload.consensus.messages import HardState, Message, MessageKind, Ready
from keyload.consensus.progress import Progress
from keyload.consensus.quorum import majority
from keyload.consensus.reads import ForwardedReads, ReadRounds


class Role(IntEnum):
    """What a replica is at the moment."""

    FOLLOWER = 0
    PRE_CANDIDATE = 1
    CANDIDATE = 2
    LEADER = 3


FOLLOWER: Final = Role.FOLLOWER
PRE_CANDIDATE: Final = Role.PRE_CANDIDATE
CANDIDATE: Final = Role.CANDIDATE
LEADER: Final = Role.LEADER

ENTRY_COST: Final = 64
"""What an entry weighs beside its data, in bytes."""


class Core:
    """Term, vote, role, membership, log and outgoing messages of one replica."""

    def __init__(
        self,
        config: Config,
        log: LogStorage,
        hard_state: HardState,
        applied: int,
        membership: Membership,
    ) -> None:
        self.id = config.id
        self.config = config
        self.log = RaftLog(log, hard_state.commit, applied, membership)
        self.life: int = 0 if hard_state.joined else 1 + config.rng.getrandbits(62)
        self.term: int = hard_state.term
        self.vote: int = hard_state.vote
        if self.log.last_term > self.term:
            raise ConsensusError(f"the log ends in term {self.log.last_term}, the hard state in {self.term}")
        self.role = FOLLOWER
        self.leader: int | None = None
        self._elapsed = 0  # ticks since the leader was heard; on a leader since the last check of the quorum
        self._timeout = 0  # ticks after which a follower asks for votes
        self._votes: dict[int, bool] = {}
        self._progress: dict[int, Progress] = {}  # of the peers, on a leader only
        self._term_start = 0  # a leader's first own entry
        self._broadcast = 0  # a leader has offered its entries up to here to all followers
        self._heartbeat_elapsed = 0  # ticks since a leader's last heartbeat, a follower's last question
        self._uncommitted_bytes = 0
        self._transferee: int | None = None
        self._transfer_ticks = 0
        self._rounds = ReadRounds()
        self._forwards = ForwardedReads(config.rng)
        self._messages: list[Message] = []
        self._after_sync: list[Message] = []
        self._reads: list[tuple[int, int]] = []
        self._lost_reads: list[int] = []
        self._welcomes: set[int] = set()  # voters that said in this life that they are fresh
        self._join_index = 0  # the entry to have before joining; of this term
        self._open_ready: Ready | None = None
        self._join_round = 0  # on a leader: the newest round that a replica which has not joined waits for
        self._take_membership()
        self._draw_timeout()

    @property
    def commit(self) -> int:
        """The highest index known to be committed."""
        return self.log.commit

    @property
    def applied(self) -> int:
        """The highest index handed to the caller as committed, and taken (`advance`)."""
        return self.log.applied

    @property
    def first_index(self) -> int:
        """The first entry the log still has."""
        return self.log.first_index

    @property
    def last_index(self) -> int:
        """The last entry of the log, on disk or not."""
        return self.log.last

    @property
    def joined(self) -> bool:
        """Whether this replica may vote and stand for election (CLU-18)."""
        return not self.life

    @property
    def leader_ready(self) -> bool:
        """Whether this is a leader that has committed and applied an entry of its own term."""
        return self.role is LEADER and self.log.applied >= self._term_start

    def _take_membership(self) -> None:
        """The log has another membership in force; a leader's followers change with it."""
        membership = self.membership = self.log.membership
        self.voters = membership.voters
        self.peers = tuple(member for member in membership.members if member != self.id)
        self.other_voters = tuple(voter for voter in self.voters if voter != self.id)
        self._is_voter = self.id in self.voters
        self._majority = majority(len(self.voters))
        if self.role is LEADER:
            former = self._progress
            self._progress = {
                peer: former.get(peer) or Progress(self.config, self.log.last) for peer in self.peers
            }
            for peer, progress in self._progress.items():
                progress.voter = peer in self.voters

    def _knows_commit(self) -> bool:
        """Whether a leader knows all that is committed: an entry of its own is (thesis, 6.4)."""
        return self.log.commit >= self._term_start

    def _draw_timeout(self) -> None:
        self._elapsed = 0
        self._timeout = self.config.rng.randint(
            self.config.election_ticks_min, self.config.election_ticks_max
        )

    def _become_follower(self, term: int, leader: int | None) -> None:
        if term != self.term:
            self.term = term
            self.vote = 0
            self._join_index = 0
        self._leave_role()
        self.role = FOLLOWER
        self.leader = leader
        self._draw_timeout()

    def _leave_role(self) -> None:
        """Forgets what belongs to the former role; reads that wait must be asked again."""
        self.leader = None
        self._votes.clear()
        self._progress.clear()
        self._transferee = None
        self._uncommitted_bytes = 0
        self._join_round = 0
        self._lost_reads += self._rounds.lose(self.id)
        self._lost_reads += self._forwards.lose()

    def _follow(self, leader: int) -> None:
        """A message only the leader of this term sends has come from a node not known to lead."""
        if self.leader is not None:
            raise ConsensusError(f"nodes {self.leader} and {leader} both lead term {self.term}")
        self._become_follower(self.term, leader)

    def _learn_commit(self, commit: int) -> None:
        """The leader knows `commit` committed and our log equal up to it.

        A commit behind our last entry means that this node lost what it had acknowledged: it is left alone,
        the entries come first.
        """
        log = self.log
        if log.commit < commit <= log.last:
            log.commit = commit

    def _reply(self, kind: MessageKind, to: int, reject: bool) -> None:
        """An answer in our term, after the sync."""
        self._after_sync.append(Message(kind, self.id, to, self.term, reject=reject))
