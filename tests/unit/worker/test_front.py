"""What a worker says to a front that does not read for a while."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import zmq

from keyload.link import framing
from keyload.link.catalog import Catalog
from keyload.link.messages import CatalogDelta, Confirmed, Ready, Reply, WorkerToFront
from keyload.worker.front import FrontQueue

Pair = tuple[zmq.Socket[bytes], zmq.Socket[bytes]]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """A worker's socket and its front's, with room for few frames."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    front, worker = context.socket(zmq.DEALER), context.socket(zmq.DEALER)
    front.rcvhwm = worker.sndhwm = 2
    front.bind("inproc://front")
    worker.connect("inproc://front")
    yield worker, front
    worker.close(linger=0)
    front.close(linger=0)
    context.term()


def taken(front: zmq.Socket[bytes]) -> list[WorkerToFront]:
    """Everything that has arrived."""
    messages: list[WorkerToFront] = []
    while front.poll(100):
        messages.extend(framing.unpack_from_worker(front.recv()))
    return messages


def switch(version: int, name: str) -> CatalogDelta:
    return CatalogDelta(version=version, whole=False, rows=[("switches", (name,), b"\xc3")])


@pytest.mark.covers("SEC-16", "SEC-41")
def test_no_confirmation_reaches_a_front_that_lost_a_catalog_change_before_it(pair: Pair) -> None:
    worker, front = pair
    source, copy = Catalog(), Catalog()
    queue = FrontQueue(worker, lambda: [source.snapshot(), Ready(0, [0], True)])
    for version in range(1, 12):
        delta = switch(version, f"s{version}")
        source.apply(delta)
        queue.append(delta)
        queue.append(Confirmed(version, version))
        assert not queue.flush()
    early = [message for message in taken(front) if isinstance(message, CatalogDelta)]
    assert len(early) < 11, "some were lost"
    for message in early:
        copy.apply(message)
    queue.append(Confirmed(99, source.version))
    queue.flush()
    whole, ready, confirmed = taken(front)
    assert isinstance(whole, CatalogDelta)
    assert whole.whole
    copy.apply(whole)
    assert sorted(copy.snapshot().rows) == sorted(source.snapshot().rows)
    assert (ready, confirmed) == (Ready(0, [0], True), Confirmed(99, source.version))
    queue.append(Confirmed(100, source.version))
    queue.flush()
    assert taken(front) == [Confirmed(100, source.version)], "the state is told once"


def test_large_answers_leave_in_several_frames_and_tell_that_they_left(pair: Pair) -> None:
    worker, front = pair
    queue = FrontQueue(worker, lambda: [])
    for number in range(3):
        queue.append(Reply(number, bytes(3 << 20)))
    assert queue.flush()
    assert [message.call for message in taken(front) if isinstance(message, Reply)] == [0, 1, 2]
    assert not queue.flush()
