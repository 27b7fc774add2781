"""One shard's state against a dict, with keys at every border of the stored form."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import lmdb
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.storage import Position, Store, StoreReader, Txn, reader, stored_form
from tests.unit.storage import support
from tests.unit.storage.support import DictReader

BYTES = 1 << 30


class StoreMachine(RuleBasedStateMachine):
    """Applies, reopens and reads; every cut is compared with the dict it was taken from."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.store = Store(self.directory / "shard-1", BYTES)
        self.model: dict[bytes, bytes] = {}
        self.index = 0
        self.old_cut: tuple[StoreReader, dict[bytes, bytes]] | None = None

    @rule(
        batches=st.lists(
            st.dictionaries(support.keys(), st.none() | support.values(), max_size=6), max_size=3
        )
    )
    def apply(self, batches: list[dict[bytes, bytes | None]]) -> None:
        self.index += max(1, len(batches))
        self.store.apply(self.index, 1, [stored_form(writes) for writes in batches])
        for writes in batches:
            for key, value in writes.items():
                if value is None:
                    self.model.pop(key, None)
                else:
                    self.model[key] = value

    @rule(bounds=st.tuples(support.keys(), support.keys()), step=st.sampled_from([1, 2, 1024]))
    def scan(self, bounds: tuple[bytes, bytes], step: int) -> None:
        start, end = sorted(bounds)
        model = DictReader(self.model)
        usual, reader.GROUP_STEP = reader.GROUP_STEP, step
        try:
            with self.store.reader() as cut:
                for reverse in (False, True):
                    assert list(cut.scan(start, end, reverse)) == list(model.scan(start, end, reverse))
                    assert list(cut.scan(end, start, reverse)) == []
                    txn = Txn(cut)
                    txn.put(start, b"own")
                    expected = DictReader(self.model | {start: b"own"})
                    assert list(txn.scan(b"", b"\xff" * 600, reverse)) == list(
                        expected.scan(b"", b"\xff" * 600, reverse)
                    )
        finally:
            reader.GROUP_STEP = usual

    @rule(key=support.keys())
    def get(self, key: bytes) -> None:
        with self.store.reader() as cut:
            assert cut.get(key) == self.model.get(key)

    @rule()
    def keep_a_cut(self) -> None:
        if self.old_cut is not None:
            self.old_cut[0].close()
        self.old_cut = self.store.reader(), dict(self.model)

    @rule()
    def reopen(self) -> None:
        self._drop_cut()
        digest = self.store.digest()
        self.store.close()
        self.store = Store(self.directory / "shard-1", BYTES)
        assert self.store.digest() == digest

    @invariant()
    def cuts_hold_what_they_held(self) -> None:
        assert self.store.applied == Position(self.index, 1 if self.index else 0)
        if self.old_cut is not None:
            cut, model = self.old_cut
            assert dict(cut.scan(b"", b"\xff" * 600)) == model

    def _drop_cut(self) -> None:
        if self.old_cut is not None:
            self.old_cut[0].close()
            self.old_cut = None

    def teardown(self) -> None:
        self._drop_cut()
        self.store.close()
        shutil.rmtree(self.directory)


@pytest.mark.covers("STO-7", "STO-13", "STO-21")
def test_the_store_reads_as_a_dict() -> None:
    run_state_machine_as_test(
        StoreMachine,
        settings=settings(derandomize=True, deadline=None, max_examples=40, stateful_step_count=20),
    )


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "shard-1", BYTES)
    yield opened
    opened.close()


def put(store: Store, writes: Mapping[bytes, bytes | None]) -> None:
    store.apply(store.applied.index + 1, 1, [stored_form(writes)])


@pytest.mark.covers("CLU-13")
def test_replicas_that_applied_the_same_entries_have_the_same_digest(tmp_path: Path) -> None:
    entries = [
        stored_form({b"k%d" % (n % 7): b"%d" % n, b"l" * 600: b"%d" % n, b"d": None}) for n in range(20)
    ]
    digests: list[str] = []
    for slice_size in (1, 3, 20):
        replica = Store(tmp_path / f"replica-{slice_size}", BYTES)
        for first in range(0, 20, slice_size):
            part = entries[first : first + slice_size]
            replica.apply(first + len(part), 1, part)
        digests.append(replica.digest())
        put(replica, {b"k1": b"other"})
        digests.append(replica.digest())
        replica.close()
    assert digests[0::2] == [digests[0]] * 3
    assert digests[1::2] == [digests[1]] * 3
    assert digests[0] != digests[1]


@pytest.mark.covers("STO-7", "STO-11")
def test_an_apply_that_finds_no_room_changes_nothing(tmp_path: Path) -> None:
    small = Store(tmp_path / "shard-1", BYTES, map_bytes=256 << 10)
    put(small, {b"a": b"1"})
    before = small.digest()
    with pytest.raises(KeyLoadError) as caught:
        put(small, {b"b%d" % n: bytes(4000) for n in range(200)})
    assert caught.value.code == ErrorCode.RESOURCE_EXHAUSTED
    assert small.applied == Position(1, 1)
    assert small.digest() == before
    put(small, {b"c": b"2"})
    with small.reader() as cut:
        assert dict(cut.scan(b"", b"\xff")) == {b"a": b"1", b"c": b"2"}
        assert cut.applied == Position(2, 1)
    small.close()


@pytest.mark.parametrize(("index", "term"), [(5, 3), (4, 3), (6, 2)])
def test_an_entry_out_of_its_order_is_refused(store: Store, index: int, term: int) -> None:
    store.apply(5, 3, [stored_form({b"a": b"1"})])
    with pytest.raises(KeyLoadError, match="Corruption"):
        store.apply(index, term, [stored_form({b"a": b"2"})])
    assert store.applied == Position(5, 3)


def test_a_store_carried_into_another_process_is_not_written(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: -1)
        with pytest.raises(KeyLoadError, match="RecoveryRequired"):
            put(store, {b"a": b"1"})
    assert store.applied == Position(0, 0)


@pytest.mark.covers("STO-16")
@pytest.mark.parametrize("key", [b"bad", b"x" * 600])
def test_a_damaged_record_is_corruption_for_its_call_only(store: Store, key: bytes) -> None:
    put(store, {key: b"value", b"good": b"1", b"x" * 601: b"2"})
    ((place, value),) = stored_form({key: b"value"})
    assert value is not None
    store.apply(2, 1, [[(place, value[:-1] + b"?")]])
    with store.reader() as cut:
        with pytest.raises(KeyLoadError, match="Corruption"):
            cut.get(key)
        with pytest.raises(KeyLoadError, match="Corruption"):
            list(cut.scan(b"", b"\xff"))
        assert cut.get(b"good") == b"1"
        assert cut.get(b"x" * 601) == b"2"
        assert list(cut.scan(b"g", b"h")) == [(b"good", b"1")]


@pytest.mark.covers("STO-16", "STO-21")
def test_a_long_key_that_is_not_that_of_its_place_is_corruption(store: Store) -> None:
    ((place, _),) = stored_form({b"x" * 600: b"1"})
    ((_, other),) = stored_form({b"x" * 601: b"1"})
    store.apply(1, 1, [[(place, other)]])
    with store.reader() as cut, pytest.raises(KeyLoadError, match="Corruption"):
        list(cut.scan(b"x", b"y"))


@pytest.mark.covers("ADM-23")
def test_bytes_are_charged_before_they_are_copied(store: Store) -> None:
    put(store, {b"a": b"123", b"b": b"", b"x" * 600: b"45"})
    charged: list[int] = []
    with store.reader(charged.append) as cut:
        cut.get(b"a")
        cut.get(b"missing")
        cut.get(b"x" * 600)
        assert charged == [4, 7, 602]
        charged.clear()
        scan = cut.scan(b"", b"y")
        assert charged == []
        assert [next(scan)[0] for _ in range(2)] == [b"a", b"b"]
        assert charged == [4, 1]
        list(scan)
        assert charged == [4, 1, 600, 602]

    def refuse(amount: int) -> None:
        raise KeyLoadError(ErrorCode.BUDGET_EXCEEDED, "The read is too large.")

    with store.reader(refuse) as cut:
        for key in (b"a", b"missing", b"x" * 600):
            with pytest.raises(KeyLoadError, match="BudgetExceeded"):
                cut.get(key)
        with pytest.raises(KeyLoadError, match="BudgetExceeded"):
            next(cut.scan(b"", b"y"))


@pytest.mark.covers("STO-14")
def test_a_scan_that_ends_early_is_freed_and_the_next_one_works(store: Store) -> None:
    put(store, {b"%03d" % n: b"v" for n in range(100)} | {b"x" * 600: b"v"})
    with store.reader() as cut:
        for _ in range(3):
            scan = cut.scan(b"", b"y")
            assert next(scan) == (b"000", b"v")
            scan.close()  # type: ignore[attr-defined]
        assert len(list(cut.scan(b"", b"y"))) == 101


@pytest.mark.covers("STO-13", "STO-21")
def test_a_group_larger_than_memory_allows_is_walked_in_steps(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "GROUP_STEP", 7)
    model = {b"p" * 479 + b"%03d" % (n * 37 % 100) + b"q" * 40: b"%d" % n for n in range(100)}
    model |= {b"p" * 479 + b"%03d" % n: b"short" for n in range(0, 100, 3)}
    put(store, model)
    with store.reader() as cut:
        assert list(cut.scan(b"", b"q")) == sorted(model.items())
        assert list(cut.scan(b"", b"q", reverse=True)) == sorted(model.items(), reverse=True)


def test_reader_slots_are_bounded_and_come_back(tmp_path: Path) -> None:
    store = Store(tmp_path / "shard-1", BYTES, max_readers=3)  # one holds the last checkpoint
    cuts = [store.reader(), store.reader()]
    with pytest.raises(KeyLoadError) as caught:
        store.reader()
    assert caught.value.code == ErrorCode.RESOURCE_EXHAUSTED
    for cut in cuts:
        cut.close()
    store.reader().close()
    assert store.reader_check() == 0
    store.close()


@pytest.mark.covers("STO-19")
def test_a_store_is_full_before_its_address_space_is(tmp_path: Path) -> None:
    store = Store(tmp_path / "shard-1", BYTES, map_bytes=4 << 20)
    batches = 0
    while not store.full:
        put(store, {b"%d/%d" % (batches, n): bytes(3000) for n in range(64)})
        batches += 1
    assert 6 <= batches <= 8
    put(store, {b"late/%d" % n: bytes(3000) for n in range(64)})
    store.close()


@pytest.mark.covers("STO-19")
def test_the_store_says_when_it_is_full(tmp_path: Path) -> None:
    store = Store(tmp_path / "shard-1", 100_000)
    assert not store.full
    put(store, {b"%d" % n: bytes(1000) for n in range(120)})
    assert store.full
    put(store, {b"%d" % n: None for n in range(120)})
    assert not store.full
    store.close()


@pytest.mark.covers("STO-2")
def test_files_are_private(tmp_path: Path) -> None:
    directory = tmp_path / "shard-1"
    directory.mkdir(mode=0o755)
    store = Store(directory, BYTES)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()} == {0o600}
    store.close()


@pytest.mark.covers("STO-2")
@pytest.mark.parametrize("name", [".", "data.mdb", "lock.mdb"])
def test_links_are_refused(tmp_path: Path, name: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    Store(elsewhere, BYTES).close()
    directory = tmp_path / "shard-1"
    if name == ".":
        directory.symlink_to(elsewhere)
    else:
        directory.mkdir()
        (directory / name).symlink_to(elsewhere / name)
    with pytest.raises(KeyLoadError, match="Corruption"):
        Store(directory, BYTES)


def foreign_environment(directory: Path) -> None:
    directory.mkdir(mode=0o700)
    with lmdb.open(str(directory), lib_version=0, max_dbs=1) as environment:
        environment.open_db(b"something")


def other_version(directory: Path) -> None:
    Store(directory, BYTES).close()
    with lmdb.open(str(directory), lib_version=0, max_dbs=4) as environment:
        meta = environment.open_db(b"meta")
        with environment.begin(write=True) as transaction:
            transaction.put(b"format", b"keyload state\x02\x00", db=meta)


def other_signature(directory: Path) -> None:
    directory.mkdir(mode=0o700)
    (directory / "data.mdb").write_bytes(b"not an LMDB file" * 1024)


def later_engine(directory: Path) -> None:
    Store(directory, BYTES).close()
    with (directory / "data.mdb").open("r+b") as file:
        for page in (0, 1):
            file.seek(page * os.sysconf("SC_PAGE_SIZE") + 20)
            file.write(b"\x02")


@pytest.mark.covers("STO-3")
@pytest.mark.parametrize("make", [foreign_environment, other_version, other_signature, later_engine])
def test_an_unknown_format_is_refused_and_left_alone(tmp_path: Path, make) -> None:  # type: ignore[no-untyped-def]
    directory = tmp_path / "shard-1"
    make(directory)
    before = (directory / "data.mdb").read_bytes()
    with pytest.raises(KeyLoadError) as caught:
        Store(directory, BYTES)
    assert caught.value.code == ErrorCode.FORMAT_UNSUPPORTED
    assert (directory / "data.mdb").read_bytes() == before


@pytest.mark.covers("STO-4")
def test_a_state_that_is_cut_off_is_corruption(tmp_path: Path) -> None:
    directory = tmp_path / "shard-1"
    Store(directory, BYTES).close()
    os.truncate(directory / "data.mdb", 100)
    with pytest.raises(KeyLoadError, match="Corruption"):
        Store(directory, BYTES)
