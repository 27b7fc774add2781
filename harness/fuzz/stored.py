"""Targets that read files: turns of the log, its replay, manifests, checkpoints."""

from __future__ import annotations

import atexit
import shutil
import struct
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from harness.fuzz.source import Source, attempt
from keyload.backup import manifest as backups
from keyload.codec.checksums import crc32
from keyload.consensus.messages import HardState
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.storage import checkpoint, pages, records, segments
from keyload.storage.layout import Position
from keyload.storage.manifest import FORMAT, SnapshotManifest, unpack_manifest
from keyload.storage.records import Head, Record, RecordKind, TurnDamage
from keyload.storage.replay import replay as read_log
from keyload.storage.segments import LogOwner, SegmentFiles, SegmentHeader
from keyload.storage.shard_log import PayloadCache, ShardLog

_MARK = b"markmark"
_OWNER = LogOwner(0, "00000000-0000-4000-8000-000000000000")
_SIZE = segments.MINIMUM_SEGMENT_BYTES
_DAMAGE = (ErrorCode.CORRUPTION, ErrorCode.FORMAT_UNSUPPORTED)


@cache
def _folder() -> Path:
    """A directory of this process. libFuzzer ends one without its exit handlers: then it goes with the folder
    that the command gives for temporary files."""
    path = Path(tempfile.mkdtemp(prefix="keyload-fuzz-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


# --- one turn ----------------------------------------------------------------------------------------------


def turns(data: bytes) -> None:
    """Bytes are a turn or no turn, and a turn comes back as it was written; one wrong byte is noticed, and so
    is a missing end."""
    attempt(lambda: records.read_turn(memoryview(data), 0, _MARK, 1), TurnDamage)
    source = Source(data)
    place, change = source.number(2), source.number()
    written = [_any_record(source) for _ in range(source.number() % 5)]
    buffers, heads = records.pack_turn(_MARK, 1, written, 0)
    text = b"".join(buffers)
    turn = records.read_turn(memoryview(text + bytes(8)), 0, _MARK, 1)
    assert turn == records.Turn(heads, len(text))
    assert [_record_of(head, text) for head in turn.heads] == written
    for head in heads:
        payload = text[head.start : head.start + head.length]
        attempt(lambda payload=payload, head=head: records.hard_state(payload, head), KeyLoadError)
        attempt(lambda payload=payload, head=head: records.base_and_last(payload, head), KeyLoadError)
    at = place % len(text)
    _is_none(text[:at])
    if change:
        _is_none(text[:at] + bytes((text[at] ^ change,)) + text[at + 1 :])


def _is_none(text: bytes) -> None:
    found = attempt(lambda: records.read_turn(memoryview(text), 0, _MARK, 1), TurnDamage)
    assert isinstance(found, TurnDamage)


def _record_of(head: Head, text: bytes) -> Record:
    payload = text[head.start : head.start + head.length]
    return Record(head.kind, head.shard, head.term, head.position, payload)


def _any_record(source: Source) -> Record:
    kind, shard = source.number(), source.number(2)
    return Record(kind, shard, source.number(8), source.number(8), source.block())


def turns_seeds() -> Iterator[bytes]:
    """Turns of no, one and two records."""
    record = bytes((2, 0, 1)) + (7).to_bytes(8, "big") + (9).to_bytes(8, "big") + b"\x03abc"
    yield b"\x00\x05\x01\x00"
    yield b"\x00\x20\x80\x01" + record
    yield b"\x00\x40\x01\x02" + record + record


# --- a whole log -------------------------------------------------------------------------------------------


class _Kept(NamedTuple):
    """One shard as lists have it: the base, the entries behind it by kind, term and payload."""

    base: Position
    entries: list[tuple[int, int, bytes]]

    @property
    def last(self) -> Position:
        term = self.entries[-1][1] if self.entries else self.base.term
        return Position(self.base.index + len(self.entries), term)

    def term(self, index: int) -> int:
        return self.base.term if index == self.base.index else self.entries[index - self.base.index - 1][1]


class _Refused(Exception):
    """The records do not follow each other."""


class _Model:
    """A whole log as lists have it."""

    def __init__(self) -> None:
        self.shards: dict[int, _Kept] = {}
        self.states: dict[int, HardState] = {}

    def take(self, record: Record) -> None:
        kept = self.shards.setdefault(record.shard, _Kept(Position(0, 0), []))
        match record.kind:
            case RecordKind.ENTRY | RecordKind.MEMBERSHIP:
                self._entry(kept, record)
            case RecordKind.HARD_STATE:
                self._state(record)
            case RecordKind.BASE:
                self._base(kept, record)
            case _:
                raise _Refused

    def _entry(self, kept: _Kept, record: Record) -> None:
        if not kept.base.index < record.position <= kept.last.index + 1:
            raise _Refused
        if record.term < kept.term(record.position - 1):
            raise _Refused
        del kept.entries[record.position - kept.base.index - 1 :]
        kept.entries.append((record.kind, record.term, record.payload))

    def _state(self, record: Record) -> None:
        if len(record.payload) != records.STATE_BYTES or record.payload[-1] > 1:
            raise _Refused
        vote = int.from_bytes(record.payload[:8], "little")
        self.states[record.shard] = HardState(record.term, vote, record.position, bool(record.payload[-1]))

    def _base(self, kept: _Kept, record: Record) -> None:
        if len(record.payload) != records.BASE_BYTES:
            raise _Refused
        base, last = Position(record.position, record.term), Position(*struct.unpack("<QQ", record.payload))
        if not kept.base.index <= base.index <= last.index:
            raise _Refused
        keep = base.index <= kept.last.index and kept.term(base.index) == base.term
        if last != (kept.last if keep else base):
            raise _Refused
        entries = kept.entries[base.index - kept.base.index :] if keep else []
        self.shards[record.shard] = _Kept(base, entries)


def replay(data: bytes) -> None:
    """A log is read as lists would have it, or refused where they refuse it; read twice it is the same; one
    that begins with a later segment is read or refused."""
    source = Source(data)
    first, torn = 1 + source.number() % 2, source.number()
    turns_of_log = _log(source)
    model: _Model | None = _Model()
    content = bytearray(segments._packed(SegmentHeader(_SIZE, first, 1, _MARK), _OWNER))
    content += bytes(segments.DATA_START - len(content))
    for number, turn in enumerate(turns_of_log, 1):
        text = b"".join(records.pack_turn(_MARK, number, turn, len(content))[0])
        if len(content) + len(text) + records.HEADER_BYTES > _SIZE:
            break
        content += text
        model = _taken(model, turn)
    # A last write that reached the disk in part: nothing of it is there.
    tail = b"".join(records.pack_turn(_MARK, len(turns_of_log) + 1, [], 0)[0])[: torn % records.HEADER_BYTES]
    _compare(first, content + tail, model if first == segments.FIRST_SEGMENT else None, torn)


def _log(source: Source) -> list[list[Record]]:
    turns_of_log: list[list[Record]] = []
    while source.left and len(turns_of_log) < 12:
        turns_of_log.append([_likely_record(source) for _ in range(1 + source.number() % 3)])
    return turns_of_log


def _likely_record(source: Source) -> Record:
    """A record with small numbers, so that records follow each other now and then."""
    kind, shard = 1 + source.number() % 5, source.number() % 3
    term, position = source.number() % 8, source.number() % 8
    match kind:
        case RecordKind.HARD_STATE:
            payload = source.number().to_bytes(8, "little") + source.take(1)
        case RecordKind.BASE:
            payload = struct.pack("<QQ", position + source.number() % 4, term + source.number() % 2)
        case _:
            payload = source.take(source.number() % 16)
    return Record(kind, shard, term, position, payload)


def _taken(model: _Model | None, turn: list[Record]) -> _Model | None:
    """The model after a turn; None once it was refused."""
    try:
        if model is not None:
            for record in turn:
                model.take(record)
    except _Refused:
        return None
    return model


def _compare(first: int, content: bytearray, model: _Model | None, torn: int) -> None:
    path = segments.segment_path(_folder(), first)
    path.write_bytes(content.ljust(_SIZE, b"\0"))
    try:
        found, again = _read(first), _read(first)
    finally:
        path.unlink()
    if isinstance(found, KeyLoadError) or isinstance(again, KeyLoadError):
        assert found.__class__ is again.__class__
        assert found.code in _DAMAGE
        assert model is None or first != segments.FIRST_SEGMENT
        return
    assert found == again
    if model is not None:
        expected = {
            shard: (model.states.get(shard, HardState()), kept.base, kept.last, [e[1] for e in kept.entries])
            for shard, kept in model.shards.items()
        }
        assert found == expected
    elif first == segments.FIRST_SEGMENT:
        raise AssertionError("a log was read that lists refuse")


def _read(first: int) -> Any:
    """What the shards have, or the refusal."""
    disk = SegmentFiles(_folder())
    cache_of_log = PayloadCache(1 << 16)
    logs: dict[int, ShardLog] = {}

    def log(shard: int) -> ShardLog:
        return logs.setdefault(shard, ShardLog(shard, cache_of_log, disk))

    end = attempt(lambda: read_log(_folder(), _OWNER, [first], log), KeyLoadError)
    if isinstance(end, KeyLoadError):
        return end
    return {
        shard: (
            found.hard_state,
            found.base,
            found.last,
            [found.term(index) for index in range(found.first_index, found.last_index + 1)],
        )
        for shard, found in logs.items()
    }


def replay_seeds() -> Iterator[bytes]:
    """Logs that are whole, end in conflicts and bases, and begin late."""
    entry = b"\x01\x01\x01\x01\x03abc"
    following = b"\x01\x01\x01\x02\x00"
    state = b"\x00\x01\x02\x01\x01\x01"
    base = b"\x02\x01\x01\x02\x00\x00"
    conflict = b"\x03\x01\x03\x02\x01z"
    for first in (b"\x00", b"\x01"):
        yield first + b"\x00" + b"\x00" + entry + b"\x01" + following + state + b"\x00" + conflict
        yield first + b"\x07" + b"\x02" + entry + following + base + b"\x00" + state
        yield first + b"\x05" + b"\x00" + b"\x02\x01\x01\x05\x00\x00" + b"\x00" + b"\x01\x01\x01\x06\x00"
    yield b"\x00\x00"


# --- manifests and checkpoints -----------------------------------------------------------------------------


def manifests(data: bytes) -> None:
    """A manifest is refused as damaged or foreign, or is exactly the file that would be written for it; with
    its checksum put right it is accepted or unsound."""
    for result, written in (
        (attempt(lambda: unpack_manifest(data), KeyLoadError), SnapshotManifest.packed),
        (attempt(lambda: backups.decode(data), KeyLoadError), backups.encode),
    ):
        if isinstance(result, KeyLoadError):
            assert result.code in _DAMAGE
        else:
            assert written(result) == data  # pyright: ignore
    snapshot = attempt(lambda: msgspec.json.decode(data, type=SnapshotManifest), ValueError)
    if isinstance(snapshot, SnapshotManifest) and snapshot.format == FORMAT:
        named = snapshot.named()
        found = attempt(lambda: unpack_manifest(named.packed()), KeyLoadError)
        assert found == named or (isinstance(found, KeyLoadError) and found.code in _DAMAGE)
    backup = attempt(lambda: msgspec.json.decode(data, type=backups.Manifest), ValueError)
    if isinstance(backup, backups.Manifest):
        text = attempt(lambda: backups.encode(backup), KeyLoadError)
        if isinstance(text, bytes):
            decoded = attempt(lambda: backups.decode(text), KeyLoadError)
            assert not isinstance(decoded, KeyLoadError) or decoded.code in _DAMAGE
    _identity(data)


def _identity(data: bytes) -> None:
    entry = backups.FileEntry(name=backups.IDENTITY, bytes=1, sha256="0" * 64)
    image = backups.FileEntry(name=backups.image_name(0), bytes=1, sha256="0" * 64)
    shard = backups.ShardImage(shard=0, index=0, term=0, position=0, file=image)
    manifest = backups.Manifest(id="0" * 32, incarnation=_OWNER.incarnation, identity=entry, shards=(shard,))
    found = attempt(lambda: backups.decode_identity(data, manifest), KeyLoadError)
    assert not isinstance(found, KeyLoadError) or found.code in _DAMAGE


def manifests_seeds() -> Iterator[bytes]:
    """A good manifest of each kind, and ones of another format."""
    snapshot = SnapshotManifest(1, _OWNER.incarnation, 0, 5, 2, 4, b"\x93\x01", 4096, "ab" * 32)
    yield snapshot.named().packed()
    yield snapshot.packed()
    entry = backups.FileEntry(name=backups.IDENTITY, bytes=10, sha256="cd" * 32)
    image = backups.FileEntry(name=backups.image_name(0), bytes=4096, sha256="ef" * 32)
    shard = backups.ShardImage(shard=0, index=5, term=2, position=4, file=image)
    yield backups.encode(
        backups.Manifest(id="0" * 32, incarnation=_OWNER.incarnation, identity=entry, shards=(shard,))
    )
    yield from (b'{"format":2}', b'{"format":"1"}', b'{"format":1e0}', b"{}", b"[]", b"\xff", b'"\\ud800"')


_CHECKPOINT = struct.Struct("<8sHxx32sIQQQ")
_CHECKPOINT_BYTES = _CHECKPOINT.size + pages.PAGE_BYTES + 4


def checkpoints(data: bytes) -> None:
    """A checkpoint file is refused, or is exactly what would be saved for what it says; so is one whose
    checksum was put right."""
    _checkpoint(data)
    source = Source(data)
    head = source.take(_CHECKPOINT.size).ljust(_CHECKPOINT.size, b"\0")
    page = bytearray(_meta_page())
    for _ in range(min(8, source.left // 3)):
        page[source.number(2) % len(page)] = source.number()
    content = head + bytes(page)
    _checkpoint(content + crc32(content).to_bytes(4, "little"))


def _checkpoint(content: bytes) -> None:
    folder = _folder() / "shard"
    folder.mkdir(exist_ok=True)
    path = folder / "checkpoint"
    path.write_bytes(content)
    saved = attempt(lambda: checkpoint.load(folder), KeyLoadError)
    if isinstance(saved, KeyLoadError):
        assert saved.code in _DAMAGE
        return
    assert saved is not None
    checkpoint.save(folder, saved)
    assert path.read_bytes() == content


@cache
def _meta_page() -> bytes:
    """The least that passes for a meta page."""
    page = bytearray(pages.PAGE_BYTES)
    struct.pack_into("<Q", page, 0, 1)
    struct.pack_into("<II16xI", page, 16, 0xBEEFC0DE, 1, pages.PAGE_BYTES)
    struct.pack_into("<Q", page, 16 + 24 + 2 * 48 + 8, 1)
    assert pages.is_meta_page(bytes(page))
    return bytes(page)


def checkpoints_seeds() -> Iterator[bytes]:
    """A good head, and heads with one wrong member."""
    owner = b"shard".ljust(32, b"\0")
    for signature, version, page_bytes in (
        (b"KEYLDCHK", 1, pages.PAGE_BYTES),
        (b"KEYLDCHX", 1, pages.PAGE_BYTES),
        (b"KEYLDCHK", 2, pages.PAGE_BYTES),
        (b"KEYLDCHK", 1, 512),
    ):
        yield _CHECKPOINT.pack(signature, version, owner, page_bytes, 1 << 20, 5, 2)
    good = _CHECKPOINT.pack(b"KEYLDCHK", 1, owner, pages.PAGE_BYTES, 1 << 20, 5, 2) + _meta_page()
    yield good + crc32(good).to_bytes(4, "little")
    yield good[: _CHECKPOINT.size] + b"\x00\x10\x00"
