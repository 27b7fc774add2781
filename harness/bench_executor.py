"""How fast one process executes and applies single-document puts: all of a leader's work but log and network.

Usage: python -m harness.bench_executor [--commands 40000] [--batch 64] [--partitions 16] [--profile]
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from keyload.contract import tables as feed
from keyload.contract.catalog import ResourceDefinition, ResourceKind
from keyload.contract.commands import CommandRequest
from keyload.contract.documents import PutDocument
from keyload.contract.security import PrincipalRecord, ScopeGrant
from keyload.contract.shared import PartitionRef
from keyload.link.catalog import Catalog
from keyload.link.messages import CatalogDelta, Command, PartitionKey
from keyload.models.receipts import guid_text
from keyload.storage.keys import pack_writes, stored_form, unpack_writes
from keyload.storage.store import Store
from keyload.worker.batch import Pending
from keyload.worker.executor import Executor

INCARNATION = "0f8fad5b-d9cb-469f-a165-70867728950e"
JSON_TEXT = (
    '{"customer":"c-000017","state":"open","total":129.90,"lines":[' + '{"sku":"A-1","n":1},' * 6 + "0]}"
)


def make_catalog() -> Catalog:
    """One collection and one principal that may write it."""
    definition = ResourceDefinition(
        name="orders", kind=ResourceKind.COLLECTION, transaction_domain_id="sales"
    )
    principal = PrincipalRecord(
        id="agent-7",
        tenant_id="acme",
        grants=(ScopeGrant(database="shop", resource="*", capabilities="DocumentsRead, DocumentsWrite"),),
        field_grants=(),
    )
    catalog = Catalog()
    rows = [
        (feed.RESOURCES, ("acme", "shop", "orders"), msgspec.msgpack.encode(definition)),
        (feed.PRINCIPALS, ("agent-7",), msgspec.msgpack.encode(principal)),
    ]
    catalog.apply(CatalogDelta(version=1, whole=True, rows=rows))
    return catalog


def make_command(number: int, partitions: int) -> Pending:
    """A put of one new document of some 200 bytes."""
    identity = (number + 1).to_bytes(16, "big")
    partition: PartitionKey = ("acme", "shop", "sales", f"customer-{number % partitions}")
    request = CommandRequest(
        command_id=guid_text(identity),
        partition=PartitionRef(
            tenant_id=partition[0],
            database_id=partition[1],
            transaction_domain_id=partition[2],
            partition_key=partition[3],
        ),
        mutations=(PutDocument(collection="orders", id=f"order-{number:09d}", json=JSON_TEXT),),
    )
    command = Command(
        call=number,
        shard=1,
        operation="keyload_documents_commit",
        principal="agent-7",
        catalog_version=1,
        command_id=identity,
        fingerprint=identity * 2,
        partition=partition,
        payload=msgspec.msgpack.encode(request),
    )
    return Pending(command)


def measure(
    pending: Sequence[Pending], batch_size: int, store: Store, executor: Executor
) -> dict[str, float]:
    """Processor seconds of executing, of making the log entry and of applying; every command must succeed."""
    catalog = make_catalog()
    spent = {"execute": 0.0, "stored form": 0.0, "apply": 0.0}
    clock = time.process_time
    for index, start in enumerate(range(0, len(pending), batch_size), 1):
        began = clock()
        with store.reader() as reader:
            batch = executor.execute(reader, pending[start : start + batch_size], catalog, index)
        executed = clock()
        entry = pack_writes(stored_form(batch.writes))
        formed = clock()
        store.apply(index, 1, [unpack_writes(entry)])
        applied = clock()
        spent["execute"] += executed - began
        spent["stored form"] += formed - executed
        spent["apply"] += applied - formed
        assert batch.count == len(batch.answers)
        assert not any(answer is None or answer.refused for answer in batch.answers)
    return spent


def main() -> None:
    """Run the measurement and print microseconds per command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commands", type=int, default=40_000)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--partitions", type=int, default=16)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    pending = [make_command(number, options.partitions) for number in range(options.commands)]
    with tempfile.TemporaryDirectory() as directory:
        store = Store(Path(directory) / "shard", 8 << 30)
        executor = Executor(shard=1, incarnation=INCARNATION, durability="LocalDurable", data_shards=1)
        profile = cProfile.Profile() if options.profile else None
        if profile is not None:
            profile.enable()
        spent = measure(pending, options.batch, store, executor)
        if profile is not None:
            profile.disable()
            pstats.Stats(profile).sort_stats("tottime").print_stats(35)
        size = store.used_bytes
        store.close()
    total = sum(spent.values())
    for name, seconds in spent.items():
        print(f"{name:12} {seconds / options.commands * 1e6:7.1f} us per command")
    print(f"{'together':12} {total / options.commands * 1e6:7.1f} us per command")
    print(
        f"{options.commands / total:.0f} commands/s; {size / options.commands:.0f} bytes of store per command"
    )


if __name__ == "__main__":
    main()
