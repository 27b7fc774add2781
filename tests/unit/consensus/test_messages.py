"""What comes from a peer is either a list of messages or refused as a whole."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyload.consensus import (
    Entry,
    MalformedMessage,
    Membership,
    Message,
    MessageKind,
    decode_messages,
    encode_messages,
)

numbers = st.integers(0, (1 << 63) - 1)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    kind = draw(st.sampled_from(MessageKind))
    index, log_term = draw(st.integers(0, 1 << 40)), draw(st.integers(0, 1 << 40))
    entries: list[Entry] = []
    if kind is MessageKind.APPEND:
        term = log_term
        for place, data in enumerate(draw(st.lists(st.binary(max_size=20), max_size=4))):
            term += draw(st.integers(0, 2))
            membership = draw(st.booleans())
            data = Membership((1, 2 + place)).packed() if membership else data
            entries.append(Entry(term, index + 1 + place, data, membership))
    term = draw(st.integers(entries[-1].term if entries else 0, 1 << 60))
    return Message(
        kind,
        draw(numbers),
        draw(numbers),
        term,
        index,
        log_term,
        draw(numbers),
        tuple(entries),
        draw(st.booleans()),
        draw(numbers),
        draw(numbers),
        draw(numbers),
    )


@settings(derandomize=True, deadline=None, max_examples=150)
@given(st.lists(messages(), max_size=5))
def test_messages_come_back_as_they_left(sent: list[Message]) -> None:
    assert decode_messages(encode_messages(sent)) == sent


@pytest.mark.covers("CLU-14", "CLU-22")
@settings(derandomize=True, deadline=None, max_examples=300)
@given(st.binary(max_size=60))
def test_any_bytes_are_messages_or_refused(data: bytes) -> None:
    try:
        decoded = decode_messages(data)
    except MalformedMessage:
        return
    assert all(isinstance(message, Message) for message in decoded)


APPEND = [int(MessageKind.APPEND), 1, 2, 5, 3, 4, 0]

MALFORMED = {
    "no list": msgspec.msgpack.encode({"kind": 1}),
    "kind unknown": msgspec.msgpack.encode([[99, 1, 2, 3]]),
    "term missing": msgspec.msgpack.encode([[0, 1, 2]]),
    "term a text": msgspec.msgpack.encode([[0, 1, 2, "3"]]),
    "term negative": msgspec.msgpack.encode([[0, 1, 2, -3]]),
    "term too large": msgspec.msgpack.encode([[0, 1, 2, 1 << 63]]),
    "entry without data": msgspec.msgpack.encode([[*APPEND, [[4, 4]]]]),
    "gap": msgspec.msgpack.encode([[*APPEND, [[4, 5, b""]]]]),
    "falling term": msgspec.msgpack.encode([[*APPEND, [[4, 4, b""], [3, 5, b""]]]]),
    "term below its predecessor": msgspec.msgpack.encode([[*APPEND, [[3, 4, b""]]]]),
    "term after the sender's": msgspec.msgpack.encode([[*APPEND, [[6, 4, b""]]]]),
    "membership that is none": msgspec.msgpack.encode([[*APPEND, [[4, 4, b"x", True]]]]),
    "membership without voters": msgspec.msgpack.encode([[*APPEND, [[4, 4, b"\x92\x90\x90", True]]]]),
    "entries in a heartbeat": msgspec.msgpack.encode([[6, 1, 2, 5, 3, 4, 0, [[4, 4, b""]]]]),
    "too many": msgspec.msgpack.encode([[0, 1, 2, 3]] * 65_537),
    "deep": b"\x91" * 100_000,
    "truncated": encode_messages([Message(MessageKind.APPEND, 1, 2, 3)])[:-1],
}


@pytest.mark.covers("CLU-14", "CLU-22")
@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed_messages_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedMessage):
        decode_messages(data)
    assert decode_messages(encode_messages([])) == []


@pytest.mark.covers("CLU-22")
def test_the_largest_count_of_messages_passes() -> None:
    assert len(decode_messages(msgspec.msgpack.encode([[0, 1, 2, 3]] * 65_536))) == 65_536
