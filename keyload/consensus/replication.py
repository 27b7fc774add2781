"""How entries get from a leader to its followers and become committed; heartbeats; read rounds."""

from __future__ import annotations

from typing import Final

from keyload.consensus.core import ENTRY_COST, LEADER
from keyload.consensus.joining import Joining
from keyload.consensus.messages import Entry, Message, MessageKind
from keyload.consensus.progress import Progress
from keyload.consensus.quorum import reached_by_majority

_APPEND: Final = MessageKind.APPEND
_APPEND_REPLY: Final = MessageKind.APPEND_REPLY
_HEARTBEAT: Final = MessageKind.HEARTBEAT
_HEARTBEAT_REPLY: Final = MessageKind.HEARTBEAT_REPLY


class Replication(Joining):
    """Both sides of APPEND, HEARTBEAT and READ_INDEX."""

    # --- leader: sending

    def _append_own(self, data: bytes, membership: bool = False) -> int:
        log = self.log
        index = log.last + 1
        log.append(Entry(self.term, index, data, membership))
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
            Message(
                _HEARTBEAT,
                self.id,
                peer,
                self.term,
                commit=commit,
                context=self._rounds.number,
                life=progress.life or 0,
            )
        )

    # --- leader: answers

    def _on_append_reply(self, message: Message) -> None:
        progress = self._progress.get(message.sender)
        log = self.log
        if progress is None or message.index > log.last:
            return
        reborn = message.life != progress.life and self._meet(progress, message.life)
        progress.active = True
        if message.reject:
            agreed = log.last_within(message.hint, message.log_term)
            if reborn:
                progress.retry_from(agreed + 1)
                self._send_append(message.sender, progress)
            elif progress.rejected(message.index, agreed, message.context):
                self._send_append(message.sender, progress)
            return
        if not progress.acknowledged(message.index):
            return
        if message.index > log.commit:
            self._count_commit()
            if self.role is not LEADER:
                return
        if progress.next <= log.last:
            self._offer(message.sender, progress)
        if progress.commit_sent < progress.read_index <= progress.match:
            self._send_heartbeat(message.sender, progress)
        if self._transferee == message.sender and progress.match == log.last:
            self._hand_over(message.sender)

    def _count_commit(self) -> None:
        """Commits what a majority has on disk, if it is of the own term (Raft paper, 5.4.2).

        A leader that the membership in force leaves out does not count itself, and its work ends when its
        removal is committed (thesis, 4.2.2).
        """
        log = self.log
        disks = [peer.match if peer.life == 0 else 0 for peer in self._progress.values() if peer.voter]
        if self._is_voter:
            disks.append(log.stable)
        reached = reached_by_majority(disks)
        if reached > log.commit and self._may_commit(reached):
            log.commit = reached
            if not self._is_voter and log.settled:
                self._leave_office()

    def _leave_office(self) -> None:
        """Steps down as a node that is a voter no longer; a voter with the whole log may stand at once."""
        for peer, progress in self._progress.items():
            if progress.counts and progress.match == self.log.last:
                self._hand_over(peer)
                break
        self._become_follower(self.term, None)

    def _may_commit(self, index: int) -> bool:
        return index >= self._term_start

    def _on_heartbeat_reply(self, message: Message) -> None:
        progress = self._progress.get(message.sender)
        if progress is None or message.context > self._rounds.number:
            return
        if message.life != progress.life:
            self._meet(progress, message.life)
        if message.index < progress.match and progress.replicating:
            progress.probe()
        behind = progress.match < self.log.last or not progress.replicating
        if progress.heartbeat_answered() and behind and not progress.paused:
            self._send_append(message.sender, progress)
        if message.context > progress.round:
            progress.round = message.context
            if self._rounds.open:
                self._finish_rounds()
        if message.life:
            self._invite(message.sender, progress, message.life)

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
                if log.membership is not self.membership:
                    self._take_membership()
            self._learn_commit(message.commit if message.commit < index else index)
        else:
            self._refuse(message, log.last_within(index, message.log_term))
            return
        self._after_sync.append(Message(_APPEND_REPLY, self.id, leader, self.term, index, life=self.life))

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
                life=self.life,
            )
        )

    def _on_heartbeat(self, message: Message) -> None:
        leader = message.sender
        if self.leader != leader:
            self._follow(leader)
        self._elapsed = 0
        if message.life == self.life:  # what a former life had in its log this one may not have
            self._learn_commit(message.commit)
        self._after_sync.append(
            Message(
                _HEARTBEAT_REPLY,
                self.id,
                leader,
                self.term,
                index=self.log.last,
                context=message.context,
                life=self.life,
            )
        )

    # --- reads

    def _rounds_startable(self) -> bool:
        """Whether a round is wanted and may begin: one at a time, so that what comes meanwhile shares the
        next."""
        rounds = self._rounds
        wanted = rounds.waiting or self._join_round > rounds.number
        return bool(wanted) and not rounds.open and self._knows_commit()

    def _begin_round(self) -> None:
        """One round for all reads that came since the last one."""
        self._rounds.begin(self.log.commit)
        self._send_heartbeats()
        if not self.other_voters:
            self._finish_rounds()

    def _finish_rounds(self) -> None:
        """Answers the reads of every round that a majority has confirmed."""
        for origin, context, index in self._rounds.confirm(self._confirmed_round()):
            if origin == self.id:
                self._reads.append((context, index))
            else:
                self._answer_reads(origin, context, index)

    def _answer_reads(self, origin: int, context: int, index: int) -> None:
        """Tells a follower that its reads up to group `context` may be served at `index`."""
        progress = self._progress.get(origin)
        if progress is None:
            return
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
                Message(
                    MessageKind.READ_INDEX, self.id, self.leader, self.term, context=number, life=self.life
                )
            )

    def _on_read_index(self, message: Message) -> None:
        """A follower that asks in this term thereby confirms it: when asked, it had followed no later leader.

        Where it and the leader are a majority, as among three, its reads need no round: whatever was
        committed before they began, one of the two would have had a part in.
        """
        if self.role is not LEADER or self._rounds.count >= self.config.max_reads:
            return
        if self._pair_decides(message):
            self._answer_reads(message.sender, message.context, self.log.commit)
        else:
            self._rounds.add(message.sender, message.context)

    def _pair_decides(self, question: Message) -> bool:
        """Whether this leader and the follower that asks are a majority of the voters.

        Both must be voters that have joined (the life in the question itself says so: what was known of the
        follower may be of a former life, which may have followed a later leader). The membership must be
        settled, together with an entry of this leader's term: then whoever led a later term when the question
        left had both in its log (leader completeness) and no later membership, since only this leader, which
        had made none, could have made one for it to find; so its votes came from a majority of these same
        voters, and one of them from the follower or from this leader.
        """
        progress = self._progress.get(question.sender)
        if progress is None or not progress.voter or question.life or self._majority > 2:
            return False
        return self._is_voter and self._is_settled()

    def _on_read_index_reply(self, message: Message) -> None:
        if message.sender != self.leader:
            return
        contexts = self._forwards.answered(message.context)
        if contexts:  # else it may be meant for a former life, whose log had more
            self._learn_commit(message.commit)
        for context in contexts:
            self._reads.append((context, message.index))
