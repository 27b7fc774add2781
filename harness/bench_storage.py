"""What storage costs on this machine: `python -m harness.bench_storage [directory]`.

Every figure is the median of a few short rounds. The directory must lie on the disk to be measured.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from keyload.consensus.messages import Entry, HardState
from keyload.storage import Layered, Store, Txn, Wal, pack_writes, stored_form, unpack_writes

ROUNDS = 3
INCARNATION = "00000000000000000000000000000001"


class Rate:
    """One measured figure."""

    def __init__(self, name: str, per_second: float) -> None:
        self.name = name
        self.per_second = per_second

    def __str__(self) -> str:
        return f"{self.name:<56}{self.per_second:>14,.0f} /s{1e6 / self.per_second:>12.2f} us"


def rate(name: str, count: int, work: Callable[[], object]) -> Rate:
    """Run `work`, which does something `count` times, a few times."""
    seconds: list[float] = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begin)
    return Rate(name, count / statistics.median(seconds))


def log_rates(directory: Path) -> Iterator[Rate]:
    """Turns and entries of the log, synced; and how fast a log is read when it is opened."""
    written = 0
    with Wal(directory / "wal", worker=0, incarnation=INCARNATION).begin() as log:

        def turns(count: int, shards: int, entries: int, data: bytes) -> None:
            nonlocal written
            for _ in range(count):
                log.write(
                    [
                        (
                            shard,
                            HardState(1, 1, written),
                            [Entry(1, written + n, data) for n in range(1, entries + 1)],
                        )
                        for shard in range(shards)
                    ]
                )
                written += entries

        yield rate("log: turns, 1 entry of 128 B", 1000, lambda: turns(1000, 3, 1, bytes(128)))
        yield rate("log: turns, 3 entries of 32 KiB", 200, lambda: turns(200, 3, 1, bytes(32_768)))
        yield rate("log: entries, 3 x 128 of 128 B a turn", 200 * 384, lambda: turns(200, 3, 128, bytes(128)))
        first = log.log(0).first_index
        yield rate(
            "log: entries read from memory",
            1000,
            lambda: log.log(0).entries(written - 999, written + 1, 1 << 30),
        )
        yield rate(
            "log: entries read from disk", 1000, lambda: log.log(0).entries(first, first + 1000, 1 << 30)
        )

    def reopen() -> None:
        Wal(directory / "wal", worker=0, incarnation=INCARNATION).begin().close()

    yield rate("log: entries replayed on opening", written * 3, reopen)
    yield from segment_rates(directory)


def segment_rates(directory: Path) -> Iterator[Rate]:
    """What the loop waits for when a segment is full, beside what it waits for otherwise, and when segments
    are dropped."""
    for name, pause in (("1 ms apart", 0.001), ("at once", 0.0)):
        ordinary: list[float] = []
        switching: list[float] = []
        with Wal(directory / f"wal {name}", worker=0, incarnation=INCARNATION).begin() as log:
            for index in range(1, 3000):
                before = log.bytes
                begin = time.perf_counter()
                log.write([(shard, None, [Entry(1, index, bytes(16_384))]) for shard in range(7)])
                seconds = time.perf_counter() - begin
                (ordinary if log.bytes == before else switching).append(seconds)
                time.sleep(pause)
            yield Rate(f"log: turns, 7 entries of 16 KiB, {name}", 1 / statistics.median(ordinary))
            yield Rate("log: those of them that begin a segment", 1 / statistics.median(switching))
            yield from trim_rates(log)


def trim_rates(log: Wal) -> Iterator[Rate]:
    """Trims that drop segments, and that find nothing to drop."""
    needed = {shard: log.log(shard).last_index for shard in log.shards}
    begin = time.perf_counter()
    freed = log.trim(needed)
    yield Rate(f"log: trims that drop {freed >> 20} MiB", 1 / (time.perf_counter() - begin))
    yield rate("log: trims with nothing to drop", 1000, lambda: [log.trim(needed) for _ in range(1000)])


def state_rates(directory: Path) -> Iterator[Rate]:
    """Puts, gets and scans of a shard's state."""
    store = Store(directory / "shard-1", 1 << 40)
    model = {b"partition\0document" + n.to_bytes(8): bytes(200) for n in range(50_000)}
    packed = [
        pack_writes(stored_form({key: model[key] for key in list(model)[first : first + 500]}))
        for first in range(0, 50_000, 500)
    ]

    def apply() -> None:
        for data in packed:
            store.apply(store.applied.index + 1, 1, [unpack_writes(data)])

    def point_reads() -> None:
        for key in list(model)[:20_000]:
            with store.reader() as cut:
                cut.get(key)

    def gets() -> None:
        with store.reader() as cut:
            for key in list(model)[:20_000]:
                cut.get(key)

    def scan() -> None:
        with store.reader() as cut:
            for _ in cut.scan(b"", b"\xff"):
                pass

    yield rate(
        "state: stored form and packing, puts of 200 B", 50_000, lambda: pack_writes(stored_form(model))
    )
    yield rate("state: puts of 200 B, 500 an entry", 50_000, apply)
    yield rate("state: reader, get, close", 20_000, point_reads)
    yield rate("state: gets in one reader", 20_000, gets)
    yield rate("state: records scanned", 50_000, scan)
    store.apply(
        store.applied.index + 1, 1, [stored_form({b"p" * 479 + n.to_bytes(40): b"" for n in range(2000)})]
    )
    yield rate("state: records scanned, 2,000 long keys of one group beside", 52_000, scan)
    yield from transaction_rates(store)
    store.close()


def transaction_rates(store: Store) -> Iterator[Rate]:
    """What the overlay adds to a command: a transaction on a batch on a batch in flight."""
    keys = [b"partition\0document" + n.to_bytes(8) for n in range(1000)]
    with store.reader() as cut:
        flying: dict[bytes, bytes | None] = dict.fromkeys((key + b"a" for key in keys), b"")
        batch = Txn(Layered(cut, flying))
        for key in keys:
            batch.put(key + b"b", b"")

        def create() -> None:
            for _ in range(10_000):
                Txn(batch)

        def command() -> None:
            for key in keys:
                txn = Txn(batch)
                txn.get(key)
                txn.put(key, b"value")
                txn.put(key + b"c", b"value")
                txn.get(key)
                txn.merge_into(batch)

        def scan_first() -> None:
            for key in keys:
                next(Txn(batch).scan(key, b"\xff"))

        yield rate("transaction: created", 10_000, create)
        yield rate("transaction: 1 read, 2 writes, 1 own read, merged", 1000, command)
        yield rate("transaction: first record of a scan", 1000, scan_first)


def main(directory: Path) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory(dir=directory) as place:
        for measured in (*log_rates(Path(place)), *state_rates(Path(place))):
            print(measured)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.gettempdir()))
