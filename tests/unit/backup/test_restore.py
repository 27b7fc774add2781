"""Backups of real databases, and what is made of them (BKP-5, BKP-12..BKP-19, STO-16)."""

from __future__ import annotations

import shutil
import uuid
from base64 import b64decode
from pathlib import Path
from random import Random

import msgspec
import pytest

from keyload import backup
from keyload.backup import manifest as manifests
from keyload.backup import restoring, voters
from keyload.backup.manifest import IDENTITY, MANIFEST
from keyload.backup.streams import Tally
from keyload.consensus import Membership
from keyload.contract.errors import ErrorCode
from keyload.contract.tables import ALL_SHARDS, NODES, REPLACEMENTS, UNDER_WAY, Node, Replacement, Voters
from keyload.contract.tables import VOTERS as VOTERS_TABLE
from keyload.link.messages import Reply
from keyload.models.catalog.rows import DISPATCH_PAUSED, SWITCHES, FreshCatalog, row_key
from keyload.models.partitions.head import META
from keyload.models.partitions.keys import META_KEY
from keyload.models.partitions.restores import RESTORE, RestoreRecord, restore_key
from keyload.storage import Guard, Identity, NodeDirectory, Position, Wal, stored_form, write_image
from tests.unit.worker.support import INCARNATION, SHARDS, problem

from .databases import (
    ALONE,
    DOCUMENTS,
    code_of,
    command,
    give_voters,
    make_database,
    opened,
    records,
    running,
    shard_files,
)
from .support import content, left_over

VOTERS = ("node1", "node2", "node3")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A database and its backup; tests do not change them."""
    directory = tmp_path_factory.mktemp("made")
    make_database(directory / "db", directory)
    backup.back_up(directory / "db", directory / "b")
    return directory / "db", directory / "b"


@pytest.fixture
def own(made: tuple[Path, Path], tmp_path: Path) -> Path:
    """A copy of the backup that a test may change."""
    shutil.copytree(made[1], tmp_path / "b")
    return tmp_path / "b"


@pytest.mark.covers("BKP-1", "BKP-5", "STO-16")
def test_an_offline_backup_holds_every_record(made: tuple[Path, Path], tmp_path: Path) -> None:
    database, made_backup = made
    manifest = backup.checked_backup(made_backup).manifest
    assert len(manifest.shards) == SHARDS + 1
    for shard, state in shard_files(database).items():
        image = made_backup / manifest.shards[shard].file.name
        stored = records(state, tmp_path)
        assert stored == records(image, tmp_path)
        assert META.decode(stored[META_KEY]).position == manifest.shards[shard].position
    facts = backup.verify(database)
    assert [shard.index for shard in facts.shards] == [image.index for image in manifest.shards]
    assert sum(shard.records for shard in facts.shards) > DOCUMENTS
    keys = b"".join(path.read_bytes() for path in made_backup.iterdir())
    assert b"0123456789abcdef0123456789abcdef" not in keys


@pytest.mark.covers("BKP-5", "CLI-5")
def test_a_database_in_use_and_a_taken_target_are_refused(made: tuple[Path, Path], tmp_path: Path) -> None:
    database, _ = made
    with NodeDirectory(database):
        assert code_of(lambda: backup.back_up(database, tmp_path / "x")) == ErrorCode.CONFLICT
        assert code_of(lambda: backup.verify(database)) == ErrorCode.CONFLICT
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    assert code_of(lambda: backup.back_up(database, tmp_path / "full")) == ErrorCode.CONFLICT
    assert code_of(lambda: backup.back_up(tmp_path / "full", tmp_path / "x")) == ErrorCode.NOT_FOUND
    assert left_over(tmp_path) == ["full"]


@pytest.mark.covers("BKP-5")
def test_what_is_committed_and_not_yet_applied_is_in_the_backup(
    made: tuple[Path, Path], tmp_path: Path
) -> None:
    shutil.copytree(made[0], tmp_path / "db")
    for state in shard_files(tmp_path / "db").values():
        for path in state.parent.iterdir():
            path.unlink()
    (tmp_path / "db" / "worker-0" / "boot").unlink()
    manifest = backup.back_up(tmp_path / "db", tmp_path / "again")
    for image in manifest.shards:
        first = records(made[1] / image.file.name, tmp_path)
        assert records(tmp_path / "again" / image.file.name, tmp_path) == first


@pytest.mark.covers("BKP-5")
def test_a_node_that_never_ran_can_be_backed_up_and_started_afterwards(tmp_path: Path) -> None:
    with NodeDirectory(tmp_path / "db") as directory:
        directory.establish(ALONE)
    backup.back_up(tmp_path / "db", tmp_path / "b")
    with running(tmp_path / "db", tmp_path) as worker:
        worker.configure_collection()
        assert isinstance(worker.commit(command(1)), Reply)


@pytest.mark.covers("BKP-14", "BKP-15", "BKP-21")
def test_a_restored_database_differs_by_one_commit_in_each_shard(
    made: tuple[Path, Path], tmp_path: Path
) -> None:
    before = content(made[1])
    told = backup.restore(made[1], tmp_path / "new")
    manifest = backup.check(made[1]).manifest
    assert content(made[1]) == before
    assert told.incarnation != INCARNATION
    assert (told.id, told.position) == (manifest.id, manifest.position)
    assert (told.node_id, told.workers, told.shards) == ("node1", 1, SHARDS)
    wal = Wal(tmp_path / "new" / "worker-0" / "wal", worker=0, incarnation=told.incarnation)
    for shard, state in shard_files(tmp_path / "new").items():
        image = manifest.shards[shard]
        expected = records(made[1] / image.file.name, tmp_path)
        meta = META.decode(expected[META_KEY])
        changed = msgspec.structs.replace(meta, position=image.position + 1, instant=0)
        expected[META_KEY] = META.encode(changed)
        record = RestoreRecord(manifest.id, INCARNATION, told.incarnation)
        expected[restore_key(image.position + 1)] = RESTORE.encode(record)
        if shard == 0:
            expected[row_key(SWITCHES, DISPATCH_PAUSED)] = msgspec.msgpack.encode(True)
        assert records(state, tmp_path) == expected
        with opened(state, tmp_path) as store:
            assert store.applied == Position(image.index + 1, image.term) == wal.log(shard).base
            assert store.membership == Membership((1,)).packed()
        hard_state = wal.log(shard).hard_state
        assert (hard_state.commit, hard_state.vote, hard_state.joined) == (image.index + 1, 0, True)
    wal.close()
    assert backup.verify(tmp_path / "new").incarnation == told.incarnation


@pytest.mark.covers("BKP-15", "BKP-18", "BKP-19", "BKP-21", "CMD-24", "CON-65", "CON-161")
def test_a_restored_node_serves_refuses_old_ids_and_stays_paused(
    made: tuple[Path, Path], tmp_path: Path
) -> None:
    told = backup.restore(made[1], tmp_path / "new")
    for _ in range(2):
        with running(tmp_path / "new", tmp_path, incarnation=told.incarnation) as worker:
            assert worker.catalog.dispatch_paused
            for number in range(DOCUMENTS):
                read = worker.read_document(f"key{number}", "doc")
                assert isinstance(read, Reply), problem(read)
                assert msgspec.json.decode(read.payload)["json"] == f'{{"n": {number}}}'
                again = worker.commit(command(number))
                assert problem(again).error_code == ErrorCode.TOKEN_INVALIDATED
            fresh = worker.commit(command(1000) | {"commandId": str(uuid.uuid4())})
            assert isinstance(fresh, Reply), problem(fresh)
    with running(tmp_path / "new", tmp_path, incarnation=told.incarnation) as worker:
        resume = worker.command("keyload_admin_dispatch", False, None, uuid.uuid4())
        worker.send(resume)
        assert isinstance(worker.answer(resume.call), Reply)
        worker.confirm()
        assert not worker.catalog.dispatch_paused
        at_rest = worker.catalog.version
    assert at_rest > 0
    assert backup.back_up(tmp_path / "new", tmp_path / "b2").incarnation == told.incarnation


@pytest.mark.covers("BKP-17")
def test_a_restored_directory_is_none_of_the_old_cluster(own: Path, tmp_path: Path) -> None:
    give_voters(own, VOTERS)
    old = msgspec.json.decode((own / IDENTITY).read_bytes(), type=type(ALONE))
    told = backup.restore(own, tmp_path / "new")
    assert told.node_id == "node1"
    with NodeDirectory(tmp_path / "new") as directory:
        fresh = directory.identity()
        assert (fresh.incarnation, fresh.guard.voters) == (told.incarnation, ())
        assert code_of(lambda: directory.establish(old)) == ErrorCode.CONFLICT
        assert fresh.digest() != old.digest()
    again = backup.restore(own, tmp_path / "other")
    assert again.incarnation != told.incarnation


@pytest.mark.covers("BKP-12", "BKP-13", "BKP-26")
def test_nothing_is_restored_from_a_damaged_backup(own: Path, tmp_path: Path) -> None:
    chance = Random(12)
    files = sorted(own.iterdir())
    for _ in range(20):
        path = chance.choice(files)
        whole = path.read_bytes()
        damaged = bytearray(whole)
        damaged[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        for call in (backup.restore, backup.cluster_restore):
            code = code_of(lambda call=call: call(own, tmp_path / "new"))
            assert code in (ErrorCode.CORRUPTION, ErrorCode.FORMAT_UNSUPPORTED)
        path.write_bytes(whole)
    assert left_over(tmp_path) == ["b"]


@pytest.mark.covers("BKP-12", "STO-16")
def test_an_image_with_a_wrong_record_is_refused_though_its_hash_fits(own: Path, tmp_path: Path) -> None:
    manifest = backup.check(own).manifest
    image = manifest.shards[1]
    path = own / image.file.name
    damaged = path.read_bytes().replace(b'{"n": ', b'{"m": ', 1)
    assert damaged != path.read_bytes()
    rewrite(own, 1, damaged)
    assert code_of(lambda: backup.checked_backup(own)) == ErrorCode.CORRUPTION
    assert code_of(lambda: backup.restore(own, tmp_path / "new")) == ErrorCode.CORRUPTION
    rewrite(own, 1, b"no state at all" * 1000)
    assert code_of(lambda: backup.restore(own, tmp_path / "new")) in (
        ErrorCode.CORRUPTION,
        ErrorCode.FORMAT_UNSUPPORTED,
    )
    assert left_over(tmp_path) == ["b"]


@pytest.mark.covers("BKP-10", "BKP-12")
def test_a_manifest_that_tells_other_positions_is_refused(own: Path, tmp_path: Path) -> None:
    whole = (own / MANIFEST).read_bytes()
    for name in ("index", "term", "position"):
        manifest = manifests.decode(whole)
        image = manifest.shards[2]
        wrong = msgspec.structs.replace(image, **{name: getattr(image, name) + 1})
        shards = (*manifest.shards[:2], wrong, *manifest.shards[3:])
        changed = msgspec.structs.replace(manifest, shards=shards)
        (own / MANIFEST).write_bytes(manifests.encode(changed))
        assert code_of(lambda: backup.restore(own, tmp_path / "new")) == ErrorCode.CORRUPTION
        assert left_over(tmp_path) == ["b"]


def rewrite(directory: Path, shard: int, image: bytes, **changes: int) -> None:
    """Put another image into a backup whose manifest then fits."""
    manifest = manifests.decode((directory / MANIFEST).read_bytes())
    former = manifest.shards[shard]
    (directory / former.file.name).write_bytes(image)
    tally = Tally()
    tally.add(image)
    changed = msgspec.structs.replace(former, file=tally.entry(former.file.name), **changes)
    shards = (*manifest.shards[:shard], changed, *manifest.shards[shard + 1 :])
    (directory / MANIFEST).write_bytes(manifests.encode(msgspec.structs.replace(manifest, shards=shards)))


@pytest.mark.covers("BKP-14", "BKP-16", "BKP-24")
def test_all_voters_of_a_restored_cluster_begin_with_the_same_state(own: Path, tmp_path: Path) -> None:
    give_voters(own, VOTERS)
    told = backup.cluster_restore(own, tmp_path / "new")
    assert [node.id for node in told.nodes] == list(VOTERS)
    assert left_over(tmp_path / "new") == ["node1", "node2", "node3", "restore.json", "signing.key"]
    assert len(b64decode(Path(told.signing_key_file).read_text().strip(), validate=True)) == 32
    assert Path(told.signing_key_file).stat().st_mode & 0o777 == 0o600
    digests: dict[int, set[str]] = {}
    for node in told.nodes:
        with NodeDirectory(Path(node.directory)) as directory:
            assert directory.identity() == Identity(told.incarnation, node.id, Guard(VOTERS, 1, SHARDS))
        for shard, state in shard_files(Path(node.directory)).items():
            with opened(state, tmp_path) as store:
                digests.setdefault(shard, set()).add(store.digest())
                assert store.membership == Membership((1, 2, 3)).packed()
    assert len(digests) == SHARDS + 1
    assert all(len(found) == 1 for found in digests.values())


@pytest.mark.covers("BKP-14", "CLU-19")
def test_a_restored_store_has_forgotten_the_nodes_of_the_former_one(own: Path, tmp_path: Path) -> None:
    numbers = (1, 2, 4)
    nodes = [Node(number, f"node{number}", "", "10.0.0.1", 5000 + number, "k" * 40) for number in numbers]
    add_rows(
        own,
        tmp_path,
        *((NODES, (str(node.number),), node) for node in nodes),
        (VOTERS_TABLE, ALL_SHARDS, Voters(("node1", "node2", "node4"), numbers)),
        (REPLACEMENTS, UNDER_WAY, Replacement(2, 5)),
    )
    give_voters(own, ("node1", "node2", "node4"), numbers)
    told = backup.cluster_restore(own, tmp_path / "new")
    alone = backup.restore(own, tmp_path / "alone")
    for directory, members in (
        *((Path(node.directory), numbers) for node in told.nodes),
        (Path(alone.directory), (1,)),
    ):
        with opened(shard_files(directory)[0], tmp_path) as store, store.reader() as reader:
            assert store.membership == Membership(members).packed()
            catalog = FreshCatalog(reader)
            assert (catalog.nodes(), catalog.voters, catalog.replacement) == ([], None, None)
            assert catalog.principal("root") is not None


def add_rows(directory: Path, scratch: Path, *rows: tuple[str, tuple[str, ...], object]) -> None:
    """Add rows to the catalog in the image of the system shard of a backup."""
    image = manifests.decode((directory / MANIFEST).read_bytes()).shards[0]
    with opened(directory / image.file.name, scratch) as store:
        writes = {row_key(table, key): msgspec.msgpack.encode(row) for table, key, row in rows}
        store.apply(image.index + 1, image.term, [stored_form(writes)])
        cut = store.cut()
        write_image(cut, scratch / "image")
        cut.close()
    rewrite(directory, 0, (scratch / "image").read_bytes(), index=image.index + 1)


@pytest.mark.covers("BKP-16")
def test_a_cluster_restore_that_stopped_goes_on_with_the_same_incarnation(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_voters(own, VOTERS)
    kept = tmp_path / "kept"
    build = restoring.build

    def stop_at_the_third(*arguments: object) -> None:
        if arguments[1].node_id == "node3":  # type: ignore[attr-defined]
            shutil.copytree(tmp_path / ".new.partial", kept)  # as a kill would leave it
            raise KeyboardInterrupt
        build(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(voters, "build", stop_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        backup.cluster_restore(own, tmp_path / "new")
    monkeypatch.undo()
    assert left_over(tmp_path) == ["b", "kept"]
    kept.rename(tmp_path / ".new.partial")
    begun = msgspec.json.decode((tmp_path / ".new.partial" / "restore.json").read_bytes())
    first = (tmp_path / ".new.partial" / "node1" / "identity.json").stat().st_ino
    told = backup.cluster_restore(own, tmp_path / "new")
    assert told.incarnation == begun["incarnation"]
    assert (tmp_path / "new" / "node1" / "identity.json").stat().st_ino == first
    assert len(shard_files(tmp_path / "new" / "node3")) == SHARDS + 1
    before = content(tmp_path / "new")
    assert backup.cluster_restore(own, tmp_path / "new") == told
    assert content(tmp_path / "new") == before
    assert left_over(tmp_path / "new") == ["node1", "node2", "node3", "restore.json", "signing.key"]


@pytest.mark.covers("BKP-16", "CLI-5")
def test_a_cluster_restore_of_another_backup_does_not_go_on(
    own: Path, made: tuple[Path, Path], tmp_path: Path
) -> None:
    told = backup.cluster_restore(made[1], tmp_path / "new")
    give_voters(own, VOTERS)
    assert code_of(lambda: backup.cluster_restore(own, tmp_path / "new")) == ErrorCode.CONFLICT
    (tmp_path / "new").rename(tmp_path / ".new.partial")
    other = backup.cluster_restore(own, tmp_path / "new")
    assert other.incarnation != told.incarnation
    assert len(other.nodes) == 3


@pytest.mark.covers("BKP-16")
def test_a_voter_whose_name_is_no_directory_is_refused(own: Path, tmp_path: Path) -> None:
    for name in ("../out", "/tmp/out", "..", "signing.key", ".partial"):
        give_voters(own, ("node1", name, "node3"))
        code = code_of(lambda: backup.cluster_restore(own, tmp_path / "new"))
        assert code == ErrorCode.VALIDATION, name
    assert left_over(tmp_path) == ["b"]


@pytest.mark.covers("STO-16", "STO-4")
def test_verify_finds_a_wrong_byte_in_state_and_log(made: tuple[Path, Path], tmp_path: Path) -> None:
    shutil.copytree(made[0], tmp_path / "db")
    state = shard_files(tmp_path / "db")[1]
    whole = state.read_bytes()
    state.write_bytes(whole.replace(b'{"n": ', b'{"m": '))
    assert code_of(lambda: backup.verify(tmp_path / "db")) == ErrorCode.CORRUPTION
    state.write_bytes(whole)
    log = tmp_path / "db" / "worker-0" / "wal" / "0001.log"
    whole = log.read_bytes()
    log.write_bytes(whole.replace(b'{"n": ', b'{"m": ', 1))
    assert code_of(lambda: backup.verify(tmp_path / "db")) == ErrorCode.CORRUPTION
    log.write_bytes(whole)
    assert len(backup.verify(tmp_path / "db").shards) == SHARDS + 1
