"""The placement directory: reading it, binding partitions, races and crashes on the way (CLU-31..CLU-33)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID, uuid5

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from keyload.codec.identity import atomic_partition_id, data_shard
from keyload.codec.placement import Place, physical_shard_id
from keyload.contract.cluster import (
    AtomicPartitionPlacementReadRequest,
    AtomicPartitionPlacementResolution,
    BindAtomicPartitionPlacementRequest,
)
from keyload.contract.documents import PutDocument
from keyload.contract.errors import ErrorCode, KeyLoadError, Problem
from keyload.contract.tables import (
    BINDINGS,
    DIRECTORIES,
    PLACEMENT_DIRECTORY,
    PLACEMENTS,
    UNDER_WAY,
    Binding,
    Directory,
    Placement,
)
from keyload.link.catalog import Catalog
from keyload.link.messages import CatalogDelta, Command
from keyload.models.catalog import CATALOG_RANGE, FreshCatalog, parse_row_key, row_key
from keyload.models.cluster.placement import MAX_ASSIGNMENTS
from keyload.models.context import NodeFacts
from keyload.models.partitions import partition_number
from keyload.worker.batch import Answer, Pending
from keyload.worker.placing import close_command, settle_command
from tests.unit.shards import (
    DATA_SHARDS,
    INCARNATION,
    ROOT,
    Shard,
    code_of,
    collection,
    command_id,
    partition_ref,
    principal,
    result_of,
)

READ = "keyload_admin_partition_placement_read"
BIND = "keyload_admin_partition_placement_bind"
FACTS = NodeFacts("n1", "n1", ("n1", "n2", "n3"), "QuorumDurable", 1, 0)
Key = tuple[str, str, str, str]


def key_of(number: int) -> Key:
    return ("acme", "shop", "sales", f"p{number}")


def home_of(partition: Key) -> int:
    return data_shard(atomic_partition_id(*partition), DATA_SHARDS)


def elsewhere(partition: Key, step: int = 1) -> int:
    """A data shard that the partition does not live in by itself."""
    return (home_of(partition) - 1 + step) % DATA_SHARDS + 1


class Store:
    """The shards of a cluster as their leaders have them; steps of a binding are taken by hand."""

    def __init__(self, directory: Path) -> None:
        self.shards = {
            number: Shard(
                directory / str(number),
                shard=number,
                resources=[collection()],
                principals=[principal(), ROOT],
            )
            for number in range(DATA_SHARDS + 1)
        }
        self.system = self.shards[0]
        self.system.apply({row_key("principals", (ROOT.id,)): msgspec.msgpack.encode(ROOT)})
        self.system.apply({row_key("principals", ("ann",)): msgspec.msgpack.encode(principal())})
        self._commands = 0

    def close(self) -> None:
        for shard in self.shards.values():
            shard.close()

    def front(self) -> Catalog:
        """The catalog of a front that has heard everything so far."""
        catalog = Catalog()
        rows: list[Any] = []
        with self.system.store.reader() as reader:
            for key, value in reader.scan(*CATALOG_RANGE):
                parsed = parse_row_key(key)
                assert parsed is not None
                rows.append((*parsed, value))
        catalog.apply(CatalogDelta(version=self.system.index, whole=True, rows=rows))
        return catalog

    # -- the directory

    def look(self, partition: Key) -> AtomicPartitionPlacementResolution:
        request = AtomicPartitionPlacementReadRequest(version=1, partition=partition_ref(partition))
        return self.system.read(READ, request, by="root", node=FACTS)

    def bind_command(
        self, partition: Key, shard: int, revision: int, identity: str | None = None, by: str = "root"
    ) -> Command:
        request = BindAtomicPartitionPlacementRequest(
            version=1,
            expected_revision=revision,
            partition=partition_ref(partition),
            physical_shard_id=physical_shard_id(INCARNATION, shard),
        )
        return self.system.command(BIND, request, by=by, identity=identity)

    def ask(self, command: Command) -> Answer:
        """One attempt of a command in the system shard."""
        answer = self.system.run(command)[0]
        assert answer is not None
        return answer

    def binding(self) -> Binding | None:
        with self.system.store.reader() as reader:
            return FreshCatalog(reader).binding

    def close_partition(self, binding: Binding) -> bool:
        answer = self.shards[binding.source].run(close_command(binding))[0]
        assert answer is not None
        assert not answer.refused
        return msgspec.json.decode(answer.payload)

    def settle(self, binding: Binding, closed: bool) -> None:
        self.system.run(settle_command(binding, closed))

    def bind(self, partition: Key, shard: int, revision: int, identity: str | None = None) -> Any:
        """A whole binding; its result, or its refusal raised."""
        command = self.bind_command(partition, shard, revision, identity)
        answer = self.ask(command)
        if answer.again:
            binding = self.binding()
            assert binding is not None
            self.settle(binding, self.close_partition(binding))
            answer = self.ask(command)
        assert not answer.again
        return result_of(answer, BIND)

    # -- the partitions

    def put_command(self, place: Place, partition: Key, document: str) -> Command:
        self._commands += 1
        put = PutDocument(collection="orders", id=document, json="{}", expected_revision=0)
        identity = command_id(100_000 + self._commands)
        command = self.shards[place.shard].commit_command([put], identity=identity, partition=partition)
        return replace(command, epoch=place.epoch)

    def send(self, command: Command) -> Answer:
        """Run a command in the shard it was routed to."""
        answer = self.shards[command.shard].run(command)[0]
        assert answer is not None
        return answer

    def put(self, partition: Key, document: str, front: Catalog | None = None) -> Answer:
        place = (front or self.front()).place(partition, DATA_SHARDS)
        return self.send(self.put_command(place, partition, document))

    def holders(self, partition: Key) -> list[int]:
        """The data shards that hold anything of a partition."""
        found: list[int] = []
        for number, shard in self.shards.items():
            with shard.store.reader() as reader:
                if number and partition_number(reader, partition) is not None:
                    found.append(number)
        return found


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path)
    yield made
    made.close()


def refusal(call: Callable[..., Any], *arguments: Any, **named: Any) -> ErrorCode:
    with pytest.raises(KeyLoadError) as caught:
        call(*arguments, **named)
    return caught.value.code


def told(answer: Answer) -> ErrorCode:
    """What a caller is told whose time ends with an answer that asks it to come again."""
    assert answer.again
    return ErrorCode(msgspec.msgpack.decode(answer.payload, type=Problem).error_code)


# --- reading


@pytest.mark.covers("CLU-31")
def test_a_partition_lives_where_its_hash_says_until_it_is_bound(store: Store) -> None:
    partition = key_of(1)
    found = store.look(partition)
    assert found.physical_shard_id == str(uuid5(UUID(INCARNATION), f"shard-{home_of(partition)}"))
    assert (found.is_fallback, found.revision, found.placement_epoch, found.directory_revision) == (
        True, 0, 1, 0,
    )  # fmt: skip
    assert (found.incarnation, found.voter_ids) == (INCARNATION, ("n1", "n2", "n3"))
    assert found.partition.atomic_partition_id == atomic_partition_id(*partition)
    target = elsewhere(partition)
    assert store.bind(partition, target, 0) is True
    found = store.look(partition)
    assert found.physical_shard_id == physical_shard_id(INCARNATION, target)
    assert (found.is_fallback, found.revision, found.placement_epoch, found.directory_revision) == (
        False, 1, 2, 1,
    )  # fmt: skip
    assert store.look(key_of(2)).directory_revision == 1
    assert store.front().place(partition, DATA_SHARDS) == Place(target, 2)


@pytest.mark.covers("SEC-22", "CLU-31", "CLU-32")
def test_only_an_administrator_reads_and_binds(store: Store) -> None:
    request = AtomicPartitionPlacementReadRequest(version=1, partition=partition_ref(key_of(1)))
    assert refusal(store.system.read, READ, request, by="ann", node=FACTS) is ErrorCode.PERMISSION_DENIED
    command = store.bind_command(key_of(1), 1, 0, by="ann")
    assert code_of(store.ask(command)) == ErrorCode.PERMISSION_DENIED
    assert store.binding() is None


# --- binding


@pytest.mark.covers("CLU-32", "CLU-33", "CMD-1")
def test_writes_go_where_the_partition_is_bound_to(store: Store) -> None:
    partition, neighbour = key_of(1), ("acme", "shop", "sales", "p1 ")
    store.bind(partition, elsewhere(partition), 0)
    assert code_of(store.put(partition, "a")) == "ok"
    assert code_of(store.put(neighbour, "a")) == "ok"
    assert store.holders(partition) == [elsewhere(partition)]
    assert store.holders(neighbour) == [home_of(neighbour)]
    receipt = store.shards[elsewhere(partition)].get("a", partition=partition)
    assert receipt.reference.partition.atomic_partition_id == atomic_partition_id(*partition)


@pytest.mark.covers("CLU-32")
def test_a_wrong_revision_an_unknown_shard_and_data_elsewhere_are_refused(store: Store) -> None:
    partition = key_of(1)
    for revision in (1, 2**62):
        assert refusal(store.bind, partition, 1, revision) is ErrorCode.CONFLICT
    for shard in (0, DATA_SHARDS + 1):
        unknown = ErrorCode.UNSUPPORTED_CAPABILITY
        assert refusal(store.bind, partition, shard, 0) is unknown
    assert code_of(store.put(partition, "a")) == "ok"
    refused = ErrorCode.UNSUPPORTED_CAPABILITY
    assert refusal(store.bind, partition, elsewhere(partition), 0) is refused
    assert store.look(partition).directory_revision == 0
    assert store.binding() is None
    assert code_of(store.put(partition, "b")) == "ok"
    assert store.bind(partition, home_of(partition), 0) is True  # it holds its data there
    assert store.look(partition).placement_epoch == 2
    assert code_of(store.put(partition, "c")) == "ok"
    assert refusal(store.bind, partition, elsewhere(partition), 1) is refused


@pytest.mark.covers("CLU-32", "CMD-20")
def test_a_refused_write_is_data_too(store: Store) -> None:
    partition = key_of(1)
    put = PutDocument(collection="orders", id="a", json="{}", expected_revision=7)
    home = store.shards[home_of(partition)]
    assert (
        code_of(home.run(home.commit_command([put], partition=partition))[0]) == ErrorCode.REVISION_CONFLICT
    )
    refused = ErrorCode.UNSUPPORTED_CAPABILITY
    assert refusal(store.bind, partition, elsewhere(partition), 0) is refused


@pytest.mark.covers("CLU-32", "CMD-18", "CMD-19")
def test_a_binding_is_repeated_under_its_identity(store: Store) -> None:
    partition, target = key_of(1), elsewhere(key_of(1))
    assert store.bind(partition, target, 0, command_id(7)) is True
    before = store.look(partition)
    assert store.bind(partition, target, 0, command_id(7)) is True
    assert store.look(partition) == before
    assert refusal(store.bind, partition, home_of(partition), 1, command_id(7)) is ErrorCode.CONFLICT
    full = key_of(2)
    store.put(full, "a")
    refused = ErrorCode.UNSUPPORTED_CAPABILITY
    for _ in range(2):
        assert refusal(store.bind, full, elsewhere(full), 1, command_id(8)) is refused


@pytest.mark.covers("CLU-32")
def test_one_binding_at_a_time_and_the_others_wait(store: Store) -> None:
    first = store.bind_command(key_of(1), elsewhere(key_of(1)), 0)
    second = store.bind_command(key_of(2), elsewhere(key_of(2)), 0)
    assert told(store.ask(first)) is ErrorCode.UNKNOWN_WRITE_OUTCOME
    assert told(store.ask(second)) is ErrorCode.OWNERSHIP_LOST
    before = store.system.content()
    assert told(store.ask(first)) is ErrorCode.UNKNOWN_WRITE_OUTCOME
    assert store.system.content() == before
    binding = store.binding()
    assert binding is not None
    store.settle(binding, store.close_partition(binding))
    assert result_of(store.ask(first), BIND) is True
    assert code_of(store.ask(second)) == ErrorCode.CONFLICT


@pytest.mark.covers("CLU-32", "CLU-33")
def test_a_partition_moves_on_and_back_while_it_is_empty(store: Store) -> None:
    partition, home = key_of(1), home_of(key_of(1))
    fronts = [store.front()]
    for revision, shard in enumerate((elsewhere(partition), elsewhere(partition, 2), home, home)):
        assert store.bind(partition, shard, revision) is True
        fronts.append(store.front())
    assert store.look(partition).placement_epoch == 5
    for stale in fronts[:3]:
        assert told(store.put(partition, "a", stale)) is ErrorCode.OWNERSHIP_LOST
    assert store.holders(partition) == []
    assert code_of(store.put(partition, "a", fronts[3])) == "ok"  # bound twice to where it lives
    assert code_of(store.put(partition, "b", fronts[4])) == "ok"
    assert store.holders(partition) == [home]
    refused = ErrorCode.UNSUPPORTED_CAPABILITY
    assert refusal(store.bind, partition, elsewhere(partition), 4) is refused


@pytest.mark.covers("CLU-24", "CLU-32")
def test_a_read_that_was_routed_by_an_old_directory_is_routed_again(store: Store) -> None:
    partition = key_of(1)
    store.bind(partition, elsewhere(partition), 0)
    store.put(partition, "a")
    assert refusal(store.shards[home_of(partition)].get, "a", partition=partition) is (
        ErrorCode.OWNERSHIP_LOST
    )
    assert store.shards[elsewhere(partition)].get("a", partition=partition) is not None


@pytest.mark.covers("CLU-32")
def test_a_write_beside_its_closing_in_one_batch(store: Store) -> None:
    for number, first in enumerate(("write", "close")):
        partition = key_of(number)
        command = store.bind_command(
            partition, elsewhere(partition), store.look(partition).directory_revision
        )
        store.ask(command)
        binding = store.binding()
        assert binding is not None
        home = store.shards[binding.source]
        write = store.put_command(Place(binding.source, 1), partition, "a")
        batch = [write, close_command(binding)]
        answers = home.run(*(batch if first == "write" else batch[::-1]))
        closing = answers[1 if first == "write" else 0]
        assert closing is not None
        assert closing.payload == (b"false" if first == "write" else b"true")
        store.settle(binding, closing.payload == b"true")
        assert code_of(store.ask(command)) == ("ok" if first == "close" else "UnsupportedCapability")
        assert store.holders(partition) == ([home.number] if first == "write" else [])


@pytest.mark.covers("CLU-32")
def test_4096_partitions_are_assigned_and_not_one_more(store: Store) -> None:
    commands = [
        store.bind_command(key_of(number), home_of(key_of(number)), number)
        for number in range(MAX_ASSIGNMENTS)
    ]
    for start in range(0, MAX_ASSIGNMENTS, 256):
        assert {code_of(answer) for answer in store.system.run(*commands[start : start + 256])} == {"ok"}
    assert MAX_ASSIGNMENTS == 4096
    extra = key_of(MAX_ASSIGNMENTS)
    revision = store.look(extra).directory_revision
    assert refusal(store.bind, extra, home_of(extra), revision) is ErrorCode.BUDGET_EXCEEDED
    assert refusal(store.bind, extra, elsewhere(extra), revision) is ErrorCode.BUDGET_EXCEEDED
    assert store.binding() is None
    assert store.bind(key_of(0), elsewhere(key_of(0)), revision) is True  # a row that exists may change
    assert store.look(extra).directory_revision == MAX_ASSIGNMENTS + 1


# --- damage


@pytest.mark.covers("CLU-33")
@pytest.mark.parametrize(
    ("table", "row"),
    [
        (PLACEMENTS, b"\xc1"),
        (PLACEMENTS, msgspec.msgpack.encode(Placement(0, 1))),
        (PLACEMENTS, msgspec.msgpack.encode(Placement(DATA_SHARDS + 1, 1))),
        (PLACEMENTS, msgspec.msgpack.encode(Placement(1, 0))),
        (PLACEMENTS, msgspec.msgpack.encode(Placement(1, 2))),
        (DIRECTORIES, b"\x00"),
        (DIRECTORIES, msgspec.msgpack.encode(Directory(1, 2))),
        (DIRECTORIES, msgspec.msgpack.encode(Directory(1, 0))),
        (DIRECTORIES, msgspec.msgpack.encode(Directory(9000, MAX_ASSIGNMENTS + 1))),
        (DIRECTORIES, None),
    ],
)
def test_a_damaged_directory_is_corruption(store: Store, table: str, row: bytes | None) -> None:
    partition = key_of(1)
    store.bind(partition, elsewhere(partition), 0)
    parts = partition if table == PLACEMENTS else PLACEMENT_DIRECTORY
    store.system.apply({row_key(table, parts): row})
    assert refusal(store.look, partition) is ErrorCode.CORRUPTION
    command = store.bind_command(partition, 1, 1, command_id(9))
    assert code_of(store.ask(command)) == ErrorCode.CORRUPTION


@pytest.mark.covers("CLU-33")
def test_a_damaged_binding_is_corruption(store: Store) -> None:
    store.system.apply({row_key(BINDINGS, UNDER_WAY): b"\xc1"})
    command = store.bind_command(key_of(1), 1, 0)
    assert code_of(store.ask(command)) == ErrorCode.CORRUPTION


@pytest.mark.covers("CLU-33")
@pytest.mark.parametrize("row", [Placement(DATA_SHARDS + 1, 1), Placement(0, 1), Placement(1, -1)])
def test_no_call_is_routed_by_a_damaged_row(row: Placement) -> None:
    catalog = Catalog()
    rows: list[Any] = [(PLACEMENTS, key_of(1), msgspec.msgpack.encode(row))]
    catalog.apply(CatalogDelta(version=1, whole=True, rows=rows))
    assert refusal(catalog.place, key_of(1), DATA_SHARDS) is ErrorCode.CORRUPTION


# --- crashes: each step is lost after it, before it, or done twice, and a new leader goes on


@pytest.mark.covers("CLU-32", "CMD-18")
@pytest.mark.parametrize("crash", ["before close", "after close", "after settle"])
@pytest.mark.parametrize("empty", [True, False])
def test_a_binding_survives_a_crash_at_each_step(store: Store, crash: str, empty: bool) -> None:
    partition = key_of(1)
    if not empty:
        store.put(partition, "a")
    command = store.bind_command(partition, elsewhere(partition), 0)
    assert store.ask(command).again
    binding = store.binding()
    assert binding is not None
    if crash != "before close":
        assert store.close_partition(binding) is empty
    if crash == "after settle":
        store.settle(binding, empty)
    for shard in store.shards.values():
        shard.new_executor()
    found = store.binding()
    if crash == "after settle":
        assert found is None
    else:
        assert found == binding
        store.settle(found, store.close_partition(found))
    answer = store.ask(command)
    assert code_of(answer) == ("ok" if empty else ErrorCode.UNSUPPORTED_CAPABILITY)
    assert store.look(partition).directory_revision == int(empty)
    assert code_of(store.put(partition, "b")) == "ok"
    assert store.holders(partition) == [elsewhere(partition) if empty else home_of(partition)]


@pytest.mark.covers("CLU-32")
def test_a_crash_before_the_binding_is_committed_leaves_nothing(store: Store) -> None:
    partition = key_of(1)
    command = store.bind_command(partition, elsewhere(partition), 0)
    before = [shard.content() for shard in store.shards.values()]
    with store.system.store.reader() as reader:
        store.system.executor.execute(reader, [Pending(command)], store.system.catalog, store.system.now)
    assert [shard.content() for shard in store.shards.values()] == before
    assert code_of(store.put(partition, "a")) == "ok"


@pytest.mark.covers("CLU-32")
def test_late_repetitions_of_a_deposed_leader_change_nothing(store: Store) -> None:
    partition, home = key_of(1), home_of(key_of(1))
    command = store.bind_command(partition, elsewhere(partition), 0)
    store.ask(command)
    late = store.binding()
    assert late is not None
    store.settle(late, store.close_partition(late))
    assert store.bind(partition, home, 1) is True
    assert store.close_partition(late) is True
    store.settle(late, True)
    store.settle(late, False)
    assert store.look(partition).directory_revision == 2
    assert code_of(store.put(partition, "a")) == "ok"
    assert store.close_partition(late) is False
    assert code_of(store.put(partition, "b")) == "ok"
    assert store.holders(partition) == [home]


@pytest.mark.covers("CLU-32")
def test_one_step_is_no_command_of_anybody_else(store: Store) -> None:
    partition = key_of(1)
    store.ask(store.bind_command(partition, elsewhere(partition), 0))
    binding = store.binding()
    assert binding is not None
    for command in (close_command(binding), settle_command(binding, True)):
        outside = replace(command, principal="root")
        assert code_of(store.shards[command.shard].run(outside)[0]) == ErrorCode.NOT_FOUND
    misplaced = replace(close_command(binding), shard=0, partition=None)
    assert code_of(store.system.run(misplaced)[0]) == ErrorCode.NOT_FOUND
    assert store.binding() == binding


# --- races


class Race:
    """Writers, binders and fronts that know more or less, all in random order, over a few partitions."""

    def __init__(self, store: Store, seed: int) -> None:
        self.store = store
        self.chance = Random(seed)
        self.keys = [key_of(1000 + number) for number in range(3)]
        self.fronts = [store.front()]
        self.sent: list[Command] = []
        self.written: dict[Key, set[str]] = {key: set() for key in self.keys}
        self.closings: list[Binding] = []

    def act(self, number: int) -> None:
        store, chance, partition = self.store, self.chance, self.chance.choice(self.keys)
        match chance.randrange(7):
            case 0:
                shard = chance.randrange(1, DATA_SHARDS + 1)
                store.ask(store.bind_command(partition, shard, store.look(partition).directory_revision))
            case 1 if store.binding() is not None:
                self.closings.append(store.binding())  # type: ignore[arg-type]
            case 2 if self.closings:
                binding = chance.choice(self.closings)
                store.settle(binding, store.close_partition(binding))
            case 3:
                self.fronts.append(store.front())
            case 4 if number % 3 == 0:
                front = chance.choice(self.fronts)
                place = front.place(partition, DATA_SHARDS)
                self.sent.append(store.put_command(place, partition, f"d{number}"))
            case 5 if self.sent:
                self.deliver(self.sent.pop(chance.randrange(len(self.sent))))
            case _:
                store.shards[chance.randrange(DATA_SHARDS + 1)].new_executor()

    def deliver(self, command: Command) -> None:
        answer = self.store.send(command)
        partition = command.partition
        assert partition is not None
        if not answer.again:
            assert code_of(answer) == "ok"
            request = self.store.shards[1].executor.decoders["keyload_documents_commit"](command.payload)
            self.written[partition].add(request.mutations[0].id)

    def check(self) -> None:
        store = self.store
        for partition in self.keys:
            holders = store.holders(partition)
            place = store.front().place(partition, DATA_SHARDS)
            if not self.written[partition]:
                assert holders == []
                continue
            assert holders == [place.shard]
            for document in self.written[partition]:
                assert store.shards[place.shard].get(document, partition=partition).revision == 1


@pytest.mark.covers("CLU-32", "CLU-33", "CMD-6")
@settings(max_examples=30, derandomize=True, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_every_write_lands_in_the_one_shard_that_has_the_partition(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    store = Store(tmp_path_factory.mktemp("race"))
    try:
        race = Race(store, seed)
        for number in range(120):
            race.act(number)
            race.check()
        while race.sent:
            race.deliver(race.sent.pop())
        binding = store.binding()
        if binding is not None:
            store.settle(binding, store.close_partition(binding))
        for partition in race.keys:
            assert code_of(store.put(partition, "last")) == "ok"
        race.written = {key: {*ids, "last"} for key, ids in race.written.items()}
        race.check()
    finally:
        store.close()
