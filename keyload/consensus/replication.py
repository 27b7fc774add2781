"""How entries get from a leader to its followers and become committed; heartbeats; read rounds."""

from __future__ import annotations

from typing import Final

from keyload.consensus.core import ENTRY_COST, LEADER, Core
from keyload.consensus.messages import Entry, Message, MessageKind
from keyload.consensus.progress import Progress
from keyload.consensus.quorum import reached_by_majority

_APPEND: Final = MessageKind.APPEND
_APPEND_REPLY: Final = MessageKind.APPEND_REPLY
_HEARTBEAT: Final = MessageKind.HEARTBEAT
_HEARTBEAT_REPLY: Final = MessageKind.HEARTBEAT_REPLY


class Replication(Core):
    """Both sides of APPEND, HEARTBEAT and READ_INDEX."""

    # --- leader: sending

    def _append_own(self, data: bytes) -> int:
        log = self.log
        index = log.last + 1
        log.append(Entry(self.term, index, data))
        self._uncommitted_bytes += len(data) + ENTRY_COST
        return index

    def _offer_all(self) -> None:
        """Sends every follower what is new, as far as its window allows."""
        self._broadcast = self.log.last
        for peer, progress in self._progress.items():
            self._offer(peer, progress)

    def _offer(self, peer: int, progress: Progress) -> None:
        last = self.log.last
        while progress.next <= last and not progress.paused:
            self._send_append(peer, progress)

    def _send_append(self, peer: int, progress: Progress) -> None:
        """One append from `progress.next` on; without entries it asks whether the logs agree so far."""
        log = self.log
        start = progress.next
        if start <= log.offset and start < log.first_index:
            progress.skip_to(log.first_index)
            start = progress.next
        entries: tuple[Entry, ...] = ()
        if start <= log.last and not progress.needs_snapshot:
            entries = tuple(log.entries(start, log.last + 1, self.config.max_append_bytes))
        self._messages.append(
            Message(
                _APPEND,
                self.id,
                peer,
                self.term,
                start - 1,
                log.term(start - 1),
                log.commit,
                entries,
                False,
                0,
                progress.era,
            )
        )
        progress.commit_sent = log.commit
        if entries:
            progress.sent(start + len(entries) - 1, sum([len(entry.data) for entry in entries]))
        elif not progress.replicating:
            progress.probe_sent = True

    def _send_heartbeats(self) -> None:
        for peer, progress in self._progress.items():
            self._send_heartbeat(peer, progress)

    def _send_heartbeat(self, peer: int, progress: Progress) -> None:
        commit = progress.commit_sent = min(progress.match, self.log.commit)
        self._messages.append(
            Message(_HEARTBEAT, self.id, peer, self.term, commit=commit, context=self._rounds.number)
        )

    # --- leader: answers

    def _on_append_reply(self, message: Message) -> None:
        progress = self._progress.get(message.sender)
        log = self.log
        if progress is None or message.index > log.last:
            return
        progress.active = True
        if message.reject:
            agreed = log.last_within(message.hint, message.log_term)
            if progress.rejected(message.index, agreed, message.context):
                self._send_append(message.sender, progress)
            return
        if not progress.acknowledged(message.index):
            return
        if message.index > log.commit:
            self._count_commit()
        if progress.next <= log.last:
            self._offer(message.sender, progress)
        if progress.commit_sent < progress.read_index <= progress.match:
            self._send_heartbeat(message.sender, progress)
        if self._transferee == message.sender and progress.match == log.last:
            self._hand_over(message.sender)

    def _count_commit(self) -> None:
        """Commits what a majority has on disk, if it is of the own term (Raft paper, 5.4.2)."""
        reached = reached_by_majority([self.log.stable, *[peer.match for peer in self._progress.values()]])
        if reached > self.log.commit and self._may_commit(reached):
            self.log.commit = reached

    def _may_commit(self, index: int) -> bool:
        return index >= self._term_start

    def _on_heartbeat_reply(self, message: Message) -> None:
        progress = self._progress.get(message.sender)
        if progress is None or message.context > self._rounds.number:
            return
        if message.index < progress.match and progress.replicating:
            progress.probe()
        behind = progress.match < self.log.last or not progress.replicating
        if progress.heartbeat_answered() and behind and not progress.paused:
            self._send_append(message.sender, progress)
        if message.context > progress.round:
            progress.round = message.context
            if self._rounds.open:
                self._finish_rounds()

    def _hand_over(self, target: int) -> None:
        """Lets a follower that has the whole log stand for election at once."""
        self._messages.append(Message(MessageKind.TIMEOUT_NOW, self.id, target, self.term))

    # --- follower

    def _on_append(self, message: Message) -> None:
        leader = message.sender
        if self.leader != leader:
            self._follow(leader)
        self._elapsed = 0
        log = self.log
        index = message.index
        if index < log.commit:
            index = log.commit
        elif log.matches(index, message.log_term):
            entries = message.entries
            if entries:
                log.merge(entries)
                index = entries[-1].index
            self._learn_commit(message.commit if message.commit < index else index)
        else:
            self._refuse(message, log.last_within(index, message.log_term))
            return
        self._after_sync.append(Message(_APPEND_REPLY, self.id, leader, self.term, index))

    def _refuse(self, append: Message, hint: int) -> None:
        """The entry before those of `append` is not in our log; up to `hint` the logs may agree."""
        self._after_sync.append(
            Message(
                _APPEND_REPLY,
                self.id,
                append.sender,
                self.term,
                index=append.index,
                log_term=self.log.term(hint),
                reject=True,
                hint=hint,
                context=append.context,
            )
        )

    def _on_heartbeat(self, message: Message) -> None:
        leader = message.sender
        if self.leader != leader:
            self._follow(leader)
        self._elapsed = 0
        self._learn_commit(message.commit)
        self._after_sync.append(
            Message(
                _HEARTBEAT_REPLY, self.id, leader, self.term, index=self.log.last, context=message.context
            )
        )

    # --- reads

    def _rounds_startable(self) -> bool:
        """Whether a round may begin: one at a time, so that what comes meanwhile shares the next.

        A new leader knows its commit index only after an entry of its own (thesis, 6.4).
        """
        rounds = self._rounds
        return bool(rounds.waiting) and not rounds.open and self.log.commit >= self._term_start

    def _begin_round(self) -> None:
        """One round for all reads that came since the last one."""
        self._rounds.begin(self.log.commit)
        if self.peers:
            self._send_heartbeats()
        else:
            self._finish_rounds()

    def _finish_rounds(self) -> None:
        """Answers the reads of every round that a majority, this node included, has confirmed."""
        number = self._rounds.number
        reached = reached_by_majority([number, *[peer.round for peer in self._progress.values()]])
        for origin, context, index in self._rounds.confirm(reached):
            if origin == self.id:
                self._reads.append((context, index))
            else:
                self._answer_reads(origin, context, index)

    def _answer_reads(self, origin: int, context: int, index: int) -> None:
        """Tells a follower that its reads up to group `context` may be served at `index`."""
        progress = self._progress[origin]
        progress.read_index = max(progress.read_index, index)
        commit = min(progress.match, self.log.commit)
        progress.commit_sent = max(progress.commit_sent, commit)
        self._messages.append(
            Message(
                MessageKind.READ_INDEX_REPLY,
                self.id,
                origin,
                self.term,
                index=index,
                commit=commit,
                context=context,
            )
        )

    def _forward_reads(self, number: int) -> None:
        """Asks the leader for a barrier; its answer is good for this group and all before it."""
        if self.leader is not None:
            self._messages.append(
                Message(MessageKind.READ_INDEX, self.id, self.leader, self.term, context=number)
            )

    def _on_read_index(self, message: Message) -> None:
        """A follower that asks in this term thereby confirms it: when asked, it had followed no later leader.

        Where it and the leader are a majority, as among three, its reads need no round: whatever was
        committed before they began, one of the two would have had a part in.
        """
        if self.role is not LEADER or self._rounds.count >= self.config.max_reads:
            return
        if self._pair_is_majority and self.log.commit >= self._term_start:
            self._answer_reads(message.sender, message.context, self.log.commit)
        else:
            self._rounds.add(message.sender, message.context)

    def _on_read_index_reply(self, message: Message) -> None:
        if message.sender != self.leader:
            return
        self._learn_commit(message.commit)
        for context in self._forwards.answered(message.context):
            self._reads.append((context, message.index))
