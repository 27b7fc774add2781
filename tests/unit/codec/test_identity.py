"""Identity of partitions and their placement."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyload.codec import identity
from keyload.contract.shared import PartitionRef
from tests.unit.codec.support import bounded, texts


@pytest.mark.covers("CMD-3", "CON-19")
def test_tuple_encoding_spells_lengths_and_bytes() -> None:
    assert identity.tuple_encoding(("a", "", "\u00e9")) == b"\0\0\0\1a\0\0\0\0\0\0\0\2\xc3\xa9"


@pytest.mark.covers("CMD-3")
@bounded
@given(st.lists(texts, max_size=4), st.lists(texts, max_size=4))
def test_different_lists_encode_differently(first: list[str], second: list[str]) -> None:
    same = identity.tuple_encoding(first) == identity.tuple_encoding(second)
    assert same is (first == second)


@pytest.mark.covers("CMD-1", "CMD-2", "CON-21")
def test_the_partition_id_is_the_hash_of_the_four_texts() -> None:
    partition = PartitionRef(
        tenant_id="acme", database_id="main", transaction_domain_id="orders", partition_key="k1"
    )
    expected = hashlib.sha256(b"\0\0\0\4acme\0\0\0\4main\0\0\0\6orders\0\0\0\2k1").hexdigest()
    known = identity.with_identity(partition)
    assert known.atomic_partition_id == expected
    assert identity.partition_key(known) == identity.partition_key(partition)
    assert identity.with_identity(known) == known


@pytest.mark.covers("CLU-31")
def test_partitions_spread_over_shards_and_few_move() -> None:
    names = [identity.atomic_partition_id("t", "d", "x", str(number)) for number in range(2000)]
    four = [identity.data_shard(name, 4) for name in names]
    five = [identity.data_shard(name, 5) for name in names]
    assert {shard: 400 < four.count(shard) < 600 for shard in range(1, 5)} == dict.fromkeys(range(1, 5), True)
    moved = [new for old, new in zip(four, five, strict=True) if old != new]
    assert set(moved) == {5}
    assert 300 < len(moved) < 500
    assert identity.data_shard(names[0], 1) == 1
