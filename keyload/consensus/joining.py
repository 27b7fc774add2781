"""How a replica whose disk may have been erased comes to count (CLU-18).

A replica that begins without a hard state may have voted and acknowledged in a former life. Until it has
*joined* it takes entries and answers truthfully, but it gives no vote, does not stand for election, and its
answers count for no majority: not for a commit (it may have promised a later term not to), not for a read,
not for the leader's check of its quorum. While it has not joined, its answers carry the random name of its
life, so that a leader never takes what a former life acknowledged for what the present one has.

*First start*: every voter has said, asked in this life, that its log is empty, its term 0 and its vote free.
Then no vote was ever given and no entry acknowledged, by any former life either, because whoever asked for it
would not be fresh.

*Return*: the leader of term T tells it to join once every other voter has answered, in T, a round of
heartbeats that began after the leader heard of this life. That bounds what a former life may have promised:

* No vote in a term after T: whoever asked for it would have been in that term and not have answered in T.
  In T itself the vote counts as given to the leader, and votes before T no longer matter.
* Acknowledged entries that may count: those the leader of T sent, which were in its log before it heard of
  this life and so lie at or below the index of the JOIN; and those of earlier leaders, which either are in
  the log of the leader of T (leader completeness), or lie with a leader that can no longer count them,
  because it has answered in T.

Answers of a former life that are still on their way are thereby answers this replica stands by: when it
votes or counts again, its log has what they claim. What is on its way *to* the former life does no harm
either: entries are checked against the log, and a commit index is taken only by the life it was meant for.

The other voters may themselves not have joined: one that has not neither stood nor voted in this life, and
of the members at most one at a time has lost its disk. A *learner* has promised nothing in any life, since it
is promoted only after it joined; that the leader's term is confirmed by a majority shows that nobody has
promoted it meanwhile. It must therefore join as a learner: its own log may show an erased replica that it was
promoted once, and says nothing about what it promised since.
"""

from __future__ import annotations

from typing import Final

from keyload.consensus.core import Core
from keyload.consensus.messages import Message, MessageKind
from keyload.consensus.progress import Progress
from keyload.consensus.quorum import reached_by_majority

_APPEND_REPLY: Final = MessageKind.APPEND_REPLY


class Joining(Core):
    """Both sides of HELLO and JOIN."""

    # --- first start

    @property
    def _fresh(self) -> bool:
        """Whether this replica has done nothing yet that another life or node could depend on."""
        return self.term == 0 and self.vote == 0 and self.log.last == 0

    def _greet(self) -> None:
        """Asks the voters that did not say so yet whether they are fresh; alone, joins at once."""
        if self.voters == (self.id,):
            self._join()
        elif self._is_voter and self._fresh:
            for peer in self.other_voters:
                if peer not in self._welcomes:
                    self._messages.append(Message(MessageKind.HELLO, self.id, peer, 0, life=self.life))

    def _on_hello(self, message: Message) -> None:
        if self._fresh:
            self._messages.append(Message(MessageKind.WELCOME, self.id, message.sender, 0, life=message.life))

    def _on_welcome(self, message: Message) -> None:
        if not self.life or message.life != self.life or not self._fresh:
            return
        self._welcomes.add(message.sender)
        if self._is_voter and self._welcomes.issuperset(self.other_voters):
            self._join()

    # --- return: the leader's side

    def _meet(self, progress: Progress, life: int) -> bool:
        """A follower answers in another life than before; whether there was a before."""
        known = progress.life is not None
        if known:
            progress.reborn(self.log.last)
        progress.life = life
        if life:
            progress.join_round = self._join_round = self._rounds.number + 1
            progress.join_index = self.log.last
        return known

    def _invite(self, peer: int, progress: Progress, life: int) -> None:
        """Lets a replica join when the promises of its former lives are bounded."""
        if progress.join_round <= self._bounding_round(peer, progress) and self._is_settled():
            self._messages.append(
                Message(MessageKind.JOIN, self.id, peer, self.term, index=progress.join_index, life=life)
            )

    def _bounding_round(self, peer: int, progress: Progress) -> int:
        """The newest round answered by every other voter; for a learner, by a majority."""
        if not progress.voter:
            return self._confirmed_round()
        others = [other.round for node, other in self._progress.items() if other.voter and node != peer]
        return min(others, default=self._rounds.number)

    def _is_settled(self) -> bool:
        """Whether nobody outside the membership in force can win an election or commit anything: it is
        committed, and so is an entry of this leader's own term."""
        return self.log.settled and self._knows_commit()

    def _confirmed_round(self) -> int:
        """The newest round that a majority of joined voters has confirmed."""
        rounds = [peer.round if peer.life == 0 else 0 for peer in self._progress.values() if peer.voter]
        if self._is_voter:
            rounds.append(self._rounds.number)
        return reached_by_majority(rounds)

    # --- return: the replica's side

    def _on_join(self, message: Message) -> None:
        if self.life and message.life == self.life and message.sender == self.leader:
            if self.vote == 0:
                self.vote = message.sender  # a former life's vote in this term can help nobody else any more
            self._join_index = message.index
            self._try_join()

    def _try_join(self) -> None:
        """Joins once the log on disk equals the leader's up to the index it named.

        That entry was of the leader's term; so is the one here if the logs are equal up to it. What a
        snapshot brought from behind it is of that term, too, or later.
        """
        log = self.log
        index = max(self._join_index, log.first_index - 1)
        if not self._join_index or log.stable < index or log.term(index) != self.term:
            return
        self._join()
        if self.leader is not None:
            self._after_sync.append(Message(_APPEND_REPLY, self.id, self.leader, self.term, index))

    def _join(self) -> None:
        """From now on this replica counts; its next Ready writes that down before anything depends on it."""
        self.life = 0
        self._join_index = 0
        self._welcomes.clear()
