"""The outbox: one entry per accepted effect, and what happens when it is full (CHG-14..CHG-16)."""

from __future__ import annotations

import pytest

from keyload.contract.errors import ErrorCode
from keyload.contract.shared import RowAccess
from keyload.models.documents.keys import StoredDocument
from keyload.models.outbox import (
    ENTRY,
    MAX_DROPPED,
    OutboxEntry,
    OutboxLimits,
    document_images,
    outbox_key,
    outbox_prefix,
)
from keyload.models.partitions import PartitionHead, load_head
from keyload.models.partitions.head import HEAD
from keyload.models.partitions.keys import head_key
from keyload.models.receipts import guid_bytes
from tests.unit.shards import INCARNATION, START, Shard, collection, principal

from .conftest import OpenShard
from .test_documents import delete, patch, put, refused, set_

NUMBER = 2


def opened(open_shard: OpenShard, **limits: int | bool) -> Shard:
    return open_shard(resources=[collection()], principals=[principal()], outbox=OutboxLimits(**limits))


def head(shard: Shard) -> PartitionHead:
    with shard.store.reader() as reader:
        return load_head(reader, NUMBER)


def entries(shard: Shard) -> dict[int, OutboxEntry]:
    prefix = outbox_prefix(NUMBER)
    with shard.store.reader() as reader:
        rows = list(reader.scan(prefix, prefix + b"\xff"))
    assert head(shard).bytes == sum(len(value) for _, value in rows)
    return {int.from_bytes(key[len(prefix) :], "big"): ENTRY.decode(value) for key, value in rows}


def change(shard: Shard, changed: PartitionHead) -> None:
    shard.apply({head_key(NUMBER): HEAD.encode(changed)})


@pytest.mark.covers("CHG-14", "CON-158")
def test_entries_carry_commit_effect_and_images(open_shard: OpenShard) -> None:
    shard = opened(open_shard)
    mine = RowAccess(owner_id="o", project_id="p")
    shard.commit(put(text='{ "x":1}', access=mine), patch(1, set_("/y", "2")))
    shard.now += 1
    shard.commit(put(text='{"z":3}'), delete())
    found = entries(shard)
    assert list(found) == [1, 2, 3, 4]
    assert [(e.position, e.ordinal, e.instant - START) for e in found.values()] == [
        (1, 0, 0),
        (1, 1, 0),
        (2, 0, 1),
        (2, 1, 1),
    ]
    assert {(e.incarnation, e.ownership_epoch) for e in found.values()} == {(guid_bytes(INCARNATION), 1)}
    assert [e.receipt[3] for e in found.values()] == [1, 2, 3, 4]
    images = [
        None,
        StoredDocument(1, '{ "x":1}', "o", "p", START),
        StoredDocument(2, '{"x":1,"y":2}', "o", "p", START),
        StoredDocument(3, '{"z":3}', "o", "p", START + 1),
        StoredDocument(4, "{}", "o", "p", START + 1, True),
    ]
    for entry, before, after in zip(found.values(), images, images[1:], strict=False):
        assert document_images(entry) == (before, after)
    assert [entry.after is None for entry in found.values()] == [True, False, True, True]


@pytest.mark.covers("CHG-15", "CHG-16")
def test_a_full_outbox_refuses_or_drops_the_oldest(open_shard: OpenShard) -> None:
    refusing = opened(open_shard, max_records=3, drop_unpinned=False)
    refusing.commit(put("a"), put("b"), put("c"))
    assert refused(refusing, put("d")) == ErrorCode.RESOURCE_EXHAUSTED
    assert refusing.get("d") is None
    assert list(entries(refusing)) == [1, 2, 3]

    dropping = opened(open_shard, max_records=3)
    dropping.commit(put("a"), put("b"), put("c"))
    dropping.commit(put("d"), put("e"))
    assert list(entries(dropping)) == [3, 4, 5]
    assert (head(dropping).first_available, head(dropping).records) == (3, 3)
    assert refused(dropping, put("f"), put("g"), put("h"), put("i")) == ErrorCode.RESOURCE_EXHAUSTED
    assert list(entries(dropping)) == [3, 4, 5]
    dropping.commit(put("f"), put("g"), put("h"))
    assert list(entries(dropping)) == [6, 7, 8]


@pytest.mark.covers("CHG-15")
def test_bytes_are_bounded_too(open_shard: OpenShard) -> None:
    probe = opened(open_shard)
    probe.commit(put("a", '{"t":"%s"}' % ("x" * 500)))
    one = head(probe).bytes
    exact = opened(open_shard, max_bytes=2 * one, drop_unpinned=False)
    for name in ("a", "b"):
        exact.commit(put(name, '{"t":"%s"}' % ("x" * 500)))
    assert head(exact).bytes == 2 * one
    assert refused(exact, put("c")) == ErrorCode.RESOURCE_EXHAUSTED


@pytest.mark.covers("CHG-16")
def test_pinned_entries_stay(open_shard: OpenShard) -> None:
    shard = opened(open_shard, max_records=3)
    shard.commit(put("a"), put("b"), put("c"))
    pinned = head(shard)
    pinned.pin = 1
    change(shard, pinned)
    shard.commit(put("d"))
    assert list(entries(shard)) == [2, 3, 4]
    assert refused(shard, put("e")) == ErrorCode.RESOURCE_EXHAUSTED


@pytest.mark.covers("CHG-16")
def test_entries_are_dropped_in_steps_and_at_most_10000(open_shard: OpenShard) -> None:
    shard = opened(open_shard, max_records=12_000)
    value = b"e"
    sequences = range(1, 12_001)
    full = PartitionHead(outbox_tail=12_000, records=12_000, bytes=12_000)
    shard.commit(put("a"), partition=("acme", "shop", "sales", "eu"))
    shard.apply({outbox_key(NUMBER, sequence): value for sequence in sequences})
    change(shard, full)
    shard.commit(put("b"))
    assert head(shard).first_available == 12_000 // 256 + 1
    limits = OutboxLimits(max_records=1)
    shard.new_executor(outbox=limits)
    change(shard, full)
    shard.apply({outbox_key(NUMBER, sequence): value for sequence in sequences})
    assert refused(shard, put("c")) == ErrorCode.RESOURCE_EXHAUSTED
    shard.new_executor(outbox=OutboxLimits(max_records=12_001 - MAX_DROPPED))
    shard.commit(put("c"))
    assert head(shard).first_available == MAX_DROPPED + 1


@pytest.mark.covers("CHG-21")
def test_a_missing_entry_is_corruption(open_shard: OpenShard) -> None:
    shard = opened(open_shard, max_records=2)
    shard.commit(put("a"), put("b"))
    shard.apply({outbox_key(NUMBER, 1): None})
    assert refused(shard, put("c")) == ErrorCode.CORRUPTION
