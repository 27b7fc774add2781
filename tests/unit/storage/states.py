"""Entries whose state is known at each index, and stores that are filled with them."""

from __future__ import annotations

from pathlib import Path
from random import Random

from keyload.storage import SnapshotManifest, Store, stored_form, take_snapshot

BYTES = 1 << 30
INCARNATION = "00000000-0000-4000-8000-000000000001"


def writes_of(index: int) -> dict[bytes, bytes | None]:
    """What entry `index` writes: some of 400 keys, a long one now and then, some deletes."""
    chance = Random(index)
    writes: dict[bytes, bytes | None] = {b"count": b"%d" % index}
    for _ in range(20):
        key = b"k%03d" % chance.randrange(400)
        writes[key] = None if chance.random() < 0.2 else chance.randbytes(chance.choice((10, 300, 5000)))
    if index % 7 == 0:
        writes[b"long" * 150 + b"%d" % chance.randrange(9)] = chance.randbytes(50)
    return writes


def model(index: int) -> dict[bytes, bytes]:
    """The state after entry `index`."""
    state: dict[bytes, bytes] = {}
    for number in range(1, index + 1):
        for key, value in writes_of(number).items():
            if value is None:
                state.pop(key, None)
            else:
                state[key] = value
    return state


def advance(store: Store, count: int) -> None:
    """Apply the next `count` entries one by one."""
    for _ in range(count):
        index = store.applied.index + 1
        membership = b"members at %d" % index if index % 5 == 0 else None
        store.apply(index, 1, [stored_form(writes_of(index))], membership)


def membership_at(index: int) -> bytes | None:
    """The membership as of entry `index`."""
    return b"members at %d" % (index - index % 5) if index >= 5 else None


def make_checkpoint(store: Store) -> None:
    """A whole checkpoint in this thread."""
    begun = store.begin_checkpoint()
    begun.complete()
    store.adopt(begun)


def content(store: Store) -> dict[bytes, bytes]:
    """Everything a store holds."""
    with store.reader() as cut:
        return dict(cut.scan(b"", b"\xff" * 600))


def assert_holds(directory: Path, index: int) -> None:
    """A state, opened, is that of entry `index`."""
    store = Store(directory, BYTES)
    try:
        assert store.applied.index == index
        assert store.membership == membership_at(index)
        assert content(store) == model(index)
    finally:
        store.close()


def snapshot_of(shard_directory: Path, index: int) -> SnapshotManifest:
    """Make a store at entry `index` and take its snapshot."""
    store = Store(shard_directory, BYTES)
    advance(store, index - store.applied.index)
    cut = store.cut()
    taken = take_snapshot(cut, shard_directory, incarnation=INCARNATION, shard=3, position=index * 10)
    cut.close()
    store.close()
    return taken
