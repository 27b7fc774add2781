"""Frames carry lists of typed messages; anything else is refused as a whole."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyload.link import framing
from keyload.link.messages import (
    Barrier,
    Command,
    Confirmed,
    Forward,
    ForwardReply,
    Raft,
    Read,
    Refusal,
    Reply,
)

COMMAND = Command(
    call=7,
    shard=2,
    operation="keyload_documents_commit",
    principal="agent",
    catalog_version=11,
    command_id=b"i" * 16,
    fingerprint=b"f" * 32,
    partition=("t", "d", "x", "k"),
    payload=b"\x80",
)


def test_messages_of_each_side_come_back_equal() -> None:
    to_worker = [COMMAND, Read(1, 0, "keyload_admin_status", "root", 3, None, b""), Barrier(9)]
    assert framing.unpack_from_front(framing.pack(to_worker)) == to_worker
    to_front = [Reply(7, b"{}"), Refusal(8, b"\x80"), Confirmed(9, 12)]
    assert framing.unpack_from_worker(framing.pack(to_front)) == to_front
    between = [Raft(1, b"m"), Forward(5, 2, COMMAND), ForwardReply(5, False, b"{}")]
    frame = framing.unpack_from_peer(framing.pack_peer(b"guard", between))
    assert (frame.protocol, frame.guard, frame.messages) == (framing.PROTOCOL_VERSION, b"guard", between)


def test_a_message_of_the_other_side_is_refused() -> None:
    with pytest.raises(framing.FrameError):
        framing.unpack_from_front(framing.pack([Confirmed(1, 2)]))


@settings(derandomize=True, deadline=None, max_examples=300)
@given(st.binary(max_size=200))
def test_arbitrary_bytes_give_frame_errors_only(data: bytes) -> None:
    for unpack in (framing.unpack_from_front, framing.unpack_from_worker, framing.unpack_from_peer):
        try:
            unpack(data)
        except framing.FrameError:
            continue


def test_a_frame_with_a_wrong_member_is_refused_as_a_whole() -> None:
    raw = msgspec.msgpack.encode([["b", 1], ["b", "not a number"]])
    with pytest.raises(framing.FrameError):
        framing.unpack_from_front(raw)


@pytest.mark.covers("CLU-20")
def test_a_frame_nested_without_end_is_refused_as_any_other() -> None:
    endless = b"\x91" * 200_000
    for unpack in (framing.unpack_from_front, framing.unpack_from_worker, framing.unpack_from_peer):
        for frame in (endless, b"\x94\x01\xc4\x01g\x90" + endless, b"\x91\x99\xa1b\x01" + endless):
            with pytest.raises(framing.FrameError):
                unpack(frame)
