"""Overlays against a dict."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyload.storage import Layered, Txn
from tests.unit.storage.support import DictReader

Writes = dict[bytes, bytes | None]

few_keys = st.binary(min_size=1, max_size=2).map(lambda key: bytes(byte % 5 for byte in key))
contents = st.dictionaries(few_keys, st.binary(max_size=1))
write_sets = st.dictionaries(few_keys, st.none() | st.binary(max_size=1))
bounds = st.binary(max_size=2)


def overlaid(data: dict[bytes, bytes], *layers: Writes) -> dict[bytes, bytes]:
    result: Writes = dict(data)
    for writes in layers:
        result.update(writes)
    return {key: value for key, value in result.items() if value is not None}


def written(base: DictReader | Txn | Layered, writes: Writes) -> Txn:
    txn = Txn(base)
    for key, value in writes.items():
        if value is None:
            txn.delete(key)
        else:
            txn.put(key, value)
    return txn


@pytest.mark.covers("STO-13")
@settings(derandomize=True, deadline=None, max_examples=150)
@given(contents, write_sets, write_sets, write_sets, bounds, bounds)
def test_stacked_overlays_read_as_one_dict(
    data: dict[bytes, bytes], one: Writes, two: Writes, three: Writes, start: bytes, end: bytes
) -> None:
    stack = written(written(Layered(DictReader(data), one), two), three)
    model = DictReader(overlaid(data, one, two, three))
    for reverse in (False, True):
        assert list(stack.scan(start, end, reverse)) == list(model.scan(start, end, reverse))
    for key in {*data, *one, *two, *three, b"\0", b"absent"}:
        assert stack.get(key) == model.get(key)


@settings(derandomize=True, deadline=None, max_examples=100)
@given(contents, st.lists(write_sets, max_size=6))
def test_writes_between_scans_are_seen(data: dict[bytes, bytes], steps: list[Writes]) -> None:
    txn = Txn(DictReader(data))
    for number, writes in enumerate(steps):
        for key, value in writes.items():
            txn.writes[key] = value
        expected = DictReader(overlaid(data, *steps[: number + 1]))
        assert list(txn.scan(b"", b"\xff")) == list(expected.scan(b"", b"\xff"))
        assert list(txn.scan(b"", b"\xff", reverse=True)) == list(expected.scan(b"", b"\xff", reverse=True))


@pytest.mark.parametrize("reverse", [False, True])
def test_a_transaction_may_be_written_while_it_is_scanned(reverse: bool) -> None:
    data = {bytes([byte]): b"base" for byte in range(0, 20, 2)}
    txn = Txn(DictReader(data))
    for byte in range(1, 20, 4):
        txn.put(bytes([byte]), b"own")
    seen: list[bytes] = []
    for key, _ in txn.scan(b"", b"\xff", reverse):
        seen.append(key)
        txn.delete(key)
        txn.put(b"\x09" if key != b"\x09" else b"\x05", b"changed")
        txn.delete(b"\x08")
    assert b"\x08" not in seen
    assert seen == sorted(set(seen), reverse=reverse)
    assert set(seen) >= set(data) - {b"\x08"}


@pytest.mark.parametrize("reverse", [False, True])
def test_a_long_overlay_is_walked_in_order(reverse: bool) -> None:
    data = {bytes([byte]): b"base" for byte in range(0, 200, 3)}
    txn = Txn(DictReader(data))
    txn.put(b"\x05", b"first")
    assert len(list(txn.scan(b"", b"\xff", reverse))) == len(data) + 1
    for byte in reversed(range(0, 200, 2)):
        txn.put(bytes([byte]), b"own")
    for byte in range(0, 200, 10):
        txn.delete(bytes([byte]))
    model = DictReader(overlaid(data, txn.writes))
    for start, end in ((b"", b"\xff"), (b"\x10", b"\x90"), (b"\x11", b"\x12")):
        assert list(txn.scan(start, end, reverse)) == list(model.scan(start, end, reverse))


@pytest.mark.covers("STO-7")
def test_a_command_that_succeeded_is_merged_and_one_that_failed_leaves_nothing() -> None:
    batch = written(DictReader({b"a": b"0"}), {b"b": b"1"})
    good, bad = Txn(batch), Txn(batch)
    good.put(b"c", b"2")
    good.delete(b"a")
    bad.put(b"d", b"3")
    good.merge_into(batch)
    assert list(batch.scan(b"", b"\xff")) == [(b"b", b"1"), (b"c", b"2")]
    assert batch.writes == {b"b": b"1", b"c": b"2", b"a": None}


@pytest.mark.covers("STO-14")
def test_a_scan_takes_no_more_from_below_than_is_walked() -> None:
    taken: list[bytes] = []

    class Watched(DictReader):
        def scan(self, start: bytes, end: bytes, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
            for pair in super().scan(start, end, reverse):
                taken.append(pair[0])
                yield pair

    txn = Txn(Watched({bytes([byte]): b"" for byte in range(200)}))
    scan = txn.scan(b"", b"\xff")
    assert [next(scan)[0] for _ in range(3)] == [b"\0", b"\1", b"\2"]
    assert len(taken) <= 4
