"""What replicas say to each other, what they keep, and what one turn of the machine asks of its caller."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Annotated, Final

import msgspec

from keyload.consensus.errors import MalformedMessage
from keyload.consensus.membership import Membership

Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
"""A term, an index or a node id: never negative, at most 63 bits."""

MAX_MESSAGES_PER_FRAME: Final = 65_536
"""More messages in one frame than a window of all peers can hold is nonsense, not load."""


class MessageKind(IntEnum):
    """The members of `Message` that a kind uses are listed with it; the others stay at their defaults.

    APPEND_REPLY, HEARTBEAT_REPLY and READ_INDEX say with `life` who speaks, see `Message.life`.
    """

    PRE_VOTE = 0
    """Would you vote for me? `term` is the term asked for, `index`/`log_term` the last entry."""
    PRE_VOTE_REPLY = 1
    """`term` is the term asked for when granted, the voter's own when `reject`."""
    VOTE = 2
    """As PRE_VOTE; `context` 1 says the leader itself asked for this election."""
    VOTE_REPLY = 3
    """`reject` or granted, in `term`."""
    APPEND = 4
    """`entries` follow the entry (`index`, `log_term`); everything up to `commit` is committed.
    `context` comes back in a refusal."""
    APPEND_REPLY = 5
    """The sender has all entries up to `index` on disk. With `reject`: it lacks the entry `index` before
    the entries of the append with this `context`; the logs may agree up to (`hint`, `log_term`)."""
    HEARTBEAT = 6
    """`commit` is what the receiver may commit if it is still in `life`, `context` the read round."""
    HEARTBEAT_REPLY = 7
    """`context` is the read round of the heartbeat, `index` the sender's last entry."""
    READ_INDEX = 8
    """A follower's reads up to its group `context` ask for a barrier."""
    READ_INDEX_REPLY = 9
    """Reads up to group `context` may be served at `index`; `commit` is what the receiver may commit."""
    TIMEOUT_NOW = 10
    """The leader hands its office to the receiver."""
    HELLO = 11
    """A fresh replica in `life` asks whether the receiver is fresh, too."""
    WELCOME = 12
    """It is: empty log, term 0, no vote. `life` is that of the question."""
    JOIN = 13
    """The receiver joins, if it is still in `life`, once its log on disk has the leader's entry `index`."""


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One place of the log. `data` is opaque; the empty entry of a new leader has b"".

    With `membership` it is `Membership.packed()`.
    """

    term: Count
    index: Count
    data: bytes
    membership: bool = False


class HardState(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What must be on disk before any message that depends on it (CLU-7). `vote` 0 means none.

    `commit` is a hint that spares work after a restart; it never exceeds what was on disk before this record.
    `joined` says that this replica may vote and stand for election; an erased disk has lost it (CLU-18).
    """

    term: Count = 0
    vote: Count = 0
    commit: Count = 0
    joined: bool = False


class Message(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One message between two replicas of a shard; see `MessageKind` for the meaning of its members."""

    kind: MessageKind
    sender: Count
    to: Count
    term: Count
    index: Count = 0
    log_term: Count = 0
    commit: Count = 0
    entries: tuple[Entry, ...] = ()
    reject: bool = False
    hint: Count = 0
    context: Count = 0
    life: Count = 0
    """The random name of the follower's life while it has not joined, 0 once it has."""


class Ready(msgspec.Struct, frozen=True, gc=False):
    """One turn of work for the caller, in this order.

    1. send `messages` (they may leave before the sync),
    2. write `hard_state` and `entries` and sync; the write replaces the log from the first entry's index on,
    3. send `messages_after_sync`,
    4. apply `committed` (a bounded slice; the next Ready holds more),
    5. call `advance(ready)`,
    and answer `reads` ((context, index): serve once `index` is applied) and `lost_reads` (ask again).
    """

    hard_state: HardState | None
    entries: list[Entry]
    messages: list[Message]
    messages_after_sync: list[Message]
    committed: list[Entry]
    reads: list[tuple[int, int]]
    lost_reads: list[int]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[Message])


def encode_messages(messages: Sequence[Message]) -> bytes:
    """MessagePack of a list of messages, as `link.messages.Raft.payload` carries it."""
    return _encoder.encode(messages)


def decode_messages(data: bytes) -> list[Message]:
    """The messages of a peer's frame.

    Raises MalformedMessage when types, ranges or the order of entries are wrong; then no message is returned.
    """
    try:
        messages = _decoder.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise MalformedMessage(f"not a list of consensus messages: {error}") from None
    if len(messages) > MAX_MESSAGES_PER_FRAME:
        raise MalformedMessage(f"{len(messages)} messages in one frame")
    for message in messages:
        if message.entries:
            _check_entries(message)
    return messages


def _check_entries(message: Message) -> None:
    """Entries follow `index` without a gap, and their terms never fall or pass the sender's term."""
    if message.kind is not MessageKind.APPEND:
        raise MalformedMessage(f"{message.kind.name} with entries")
    index, term = message.index, message.log_term
    for entry in message.entries:
        index += 1
        if entry.index != index or entry.term < term or entry.term > message.term:
            raise MalformedMessage(f"entry {entry.index} of term {entry.term} where index {index} belongs")
        if entry.membership:
            _check_membership(entry)
        term = entry.term


def _check_membership(entry: Entry) -> None:
    try:
        Membership.unpacked(entry.data)
    except ValueError as error:
        raise MalformedMessage(f"entry {entry.index} is no membership: {error}") from None
