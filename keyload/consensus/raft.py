"""One replica of one shard: events in, a turn of work out."""

from __future__ import annotations

from keyload.consensus.changes import Changes
from keyload.consensus.config import Config
from keyload.consensus.core import CANDIDATE, ENTRY_COST, FOLLOWER, LEADER
from keyload.consensus.errors import ConsensusError
from keyload.consensus.log import LogStorage
from keyload.consensus.membership import Membership
from keyload.consensus.messages import Entry, HardState, Message, Ready


class Raft(Changes):
    """Raft as a state machine without I/O, clock or threads.

    Feed it with `tick`, `step`, `propose`, `propose_membership`, `read_index`, `campaign`, `transfer` and
    `restore`; whenever `has_ready`, take `ready()`, do what `Ready` says and call `advance`. One Ready is
    open at a time; events may arrive meanwhile. `hard_state` and `log` are what was on disk, `applied` what
    the caller's state already holds, `membership` the one at that index, at first that of the configuration.
    Raises ConsensusError when disk or peers show a state that Raft excludes.
    """

    def __init__(
        self,
        config: Config,
        log: LogStorage,
        hard_state: HardState,
        applied: int,
        membership: Membership,
    ) -> None:
        super().__init__(config, log, hard_state, applied, membership)
        self._handed_state = hard_state
        self._handlers = (  # by MessageKind
            self._on_pre_vote,
            self._on_pre_vote_reply,
            self._on_vote,
            self._on_vote_reply,
            self._on_append,
            self._on_append_reply,
            self._on_heartbeat,
            self._on_heartbeat_reply,
            self._on_read_index,
            self._on_read_index_reply,
            self._on_timeout_now,
            self._on_hello,
            self._on_welcome,
            self._on_join,
        )
        if self.life:
            self._greet()

    # --- events

    def step(self, message: Message) -> None:
        """Takes a message of another replica of this shard; whatever is stale or doubled changes nothing.

        Its sender may be unknown here: the membership in force may be a later one than ours (thesis, 4.1).
        """
        if message.to != self.id or message.sender in (self.id, 0):
            return
        if message.term != self.term:
            if message.term < self.term:
                self._answer_older_term(message)
                return
            if not self._adopt_newer_term(message):
                return
        self._handlers[message.kind](message)

    def propose(self, data: bytes) -> int | None:
        """Appends `data` to the leader's log; returns its index, under which it is committed or never.

        None when this node does not lead, hands its office over, or has too much uncommitted. An entry of a
        leader that is deposed may vanish: compare the term when it comes back in `Ready.committed`.
        """
        if self.role is not LEADER or self._transferee is not None:
            return None
        size = self._uncommitted_bytes
        if size and size + len(data) + ENTRY_COST > self.config.max_uncommitted_bytes:
            return None
        return self._append_own(data)

    def read_index(self, context: int) -> bool:
        """Asks for a barrier begun after this call (CLU-24); the answer is in `reads` or `lost_reads`.

        A follower asks its leader. False when no leader is known or too many reads wait.
        """
        if self.role is LEADER:
            if self._rounds.count >= self.config.max_reads:
                return False
            self._rounds.add(self.id, context)
            return True
        if self.leader is None or self._forwards.count >= self.config.max_reads:
            return False
        self._forwards.add(context)
        return True

    # --- turns

    def has_ready(self) -> bool:
        """Whether `ready` would return any work."""
        if self._open_ready is not None:
            return False
        log = self.log
        if self._messages or self._after_sync or log.handed < log.last or log.applied < log.commit:
            return True
        if self._reads or self._lost_reads or self._forwards.waiting:
            return True
        if self._promises_differ():
            return True
        return self.role is LEADER and (self._broadcast < log.last or self._rounds_startable())

    def ready(self) -> Ready:
        """The work of this turn; see `Ready`. Raises ConsensusError while the former one is open."""
        if self._open_ready is not None:
            raise ConsensusError("the former Ready was not advanced")
        log = self.log
        if self.role is LEADER:
            if self._broadcast < log.last:
                self._offer_all()
            if self._rounds_startable():
                self._begin_round()
        elif self._forwards.waiting:
            self._forward_reads(self._forwards.begin())
            self._heartbeat_elapsed = 0
        entries: list[Entry] = log.hand_out() if log.handed < log.last else []
        committed: list[Entry] = []
        if log.applied < log.commit:
            committed = log.entries(log.applied + 1, log.commit + 1, self.config.max_committed_bytes)
        ready = self._open_ready = Ready(
            self._changed_hard_state(entries != []),
            entries,
            self._messages,
            self._after_sync,
            committed,
            self._reads,
            self._lost_reads,
        )
        self._messages, self._after_sync, self._reads, self._lost_reads = [], [], [], []
        return ready

    def advance(self, ready: Ready) -> None:
        """The work of `ready` is done: its entries count as written, its committed entries as applied."""
        if ready is not self._open_ready:
            raise ConsensusError("advance without its Ready")
        self._open_ready = None
        log = self.log
        if ready.entries:
            last = ready.entries[-1]
            log.written(last.index, last.term)
            if self.role is LEADER and log.stable > log.commit:
                self._count_commit()
            if self._join_index:
                self._try_join()
        if ready.committed:
            log.applied = ready.committed[-1].index
            if self._uncommitted_bytes:
                self._release(ready)
        if ready.entries or ready.committed:
            log.trim()

    def _promises_differ(self) -> bool:
        """Whether the disk holds another term, vote or joining than this replica may act on."""
        handed = self._handed_state
        return self.term != handed.term or self.vote != handed.vote or self.joined != handed.joined

    def _changed_hard_state(self, writes: bool) -> HardState | None:
        """Term, vote and joining as soon as they change; the commit index only rides along with other writes.

        It stays below what was on disk before: a torn write could otherwise keep it and lose its entries.
        """
        differ = self._promises_differ()
        if not writes and not differ:
            return None
        commit = min(self.log.commit, self.log.stable)
        if commit == self._handed_state.commit and not differ:
            return None
        self._handed_state = HardState(self.term, self.vote, commit, self.joined)
        return self._handed_state

    def _release(self, ready: Ready) -> None:
        """Own entries that are applied no longer count against `max_uncommitted_bytes`."""
        first = self._term_start
        size = sum([len(entry.data) + ENTRY_COST for entry in ready.committed if entry.index >= first])
        self._uncommitted_bytes = max(self._uncommitted_bytes - size, 0)

    # --- invariants

    def validate(self) -> None:
        """Raises ConsensusError when an invariant of this replica is broken. For tests: it walks the tail."""
        self.log.validate()
        if self.log.last_term > self.term:
            raise ConsensusError(f"term {self.term}, vote {self.vote}, last term {self.log.last_term}")
        if (self.role is LEADER) != (self.leader == self.id):
            raise ConsensusError(f"{self.role.name} {self.id} takes {self.leader} for the leader")
        if self.role is not FOLLOWER and not self.joined:
            raise ConsensusError(f"{self.role.name} {self.id} has not joined")
        if self.role is CANDIDATE and self.vote != self.id:
            raise ConsensusError(f"candidate {self.id} voted for {self.vote}")
        if bool(self._progress) != (self.role is LEADER and bool(self.peers)):
            raise ConsensusError(f"{self.role.name} with progress of {sorted(self._progress)}")
        for progress in self._progress.values():
            progress.validate(self.log.last)
