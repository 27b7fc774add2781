"""The process that opens state files of doubtful content:
`python -m keyload.storage.inspector 0|1 SECONDS PATH...`, with the processor time it may use.

It may end by a signal; `keyload.storage.verify` starts it and reads what it found.
"""

from __future__ import annotations

import hashlib
import resource
import struct
import sys
from pathlib import Path

import lmdb
import msgspec

from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.storage import keys, layout, pages
from keyload.storage.layout import Position
from keyload.storage.verify import EXIT_REFUSED, Facts, Problem

_SPARE_BYTES = 512 << 20
_RECORD_HEAD = struct.Struct("<II")


def inspect(path: Path, every_record: bool) -> Facts:
    """What a state file holds; Corruption and FormatUnsupported as `verify_image`."""
    if not path.exists() or path.stat().st_size == 0:
        raise KeyLoadError(ErrorCode.CORRUPTION, "The state of a shard is missing.")
    pages.check_signature(path)
    try:
        with lmdb.open(
            str(path),
            subdir=False,
            readonly=True,
            lock=False,
            map_size=path.stat().st_size,
            max_dbs=layout.MAXIMUM_DATABASES,
            lib_version=0,
        ) as environment:
            return _facts(environment, every_record)
    except lmdb.Error as error:
        raise KeyLoadError(ErrorCode.CORRUPTION, "A state file is damaged.") from error


def _facts(environment: lmdb.Environment, every_record: bool) -> Facts:
    databases = layout.open_existing(environment)
    with environment.begin() as transaction:
        stored = transaction.get(layout.POSITION_KEY, db=databases.meta)
        membership = transaction.get(layout.MEMBERSHIP_KEY, db=databases.meta)
        head = Facts(Position.unpacked(stored), membership)
        if not every_record:
            for database in databases:
                with transaction.cursor(database) as cursor:
                    cursor.first()
                    cursor.last()
            return head
    return _all_records(environment, databases, head)


def _all_records(environment: lmdb.Environment, databases: layout.Databases, head: Facts) -> Facts:
    digest = hashlib.sha256()
    records = size = 0
    with environment.begin(buffers=True) as transaction:
        for database in (databases.short, databases.long):
            former = b""
            found = 0
            for place, stored in transaction.cursor(database):
                key = bytes(place)
                if key <= former:
                    raise KeyLoadError(ErrorCode.CORRUPTION, "The keys of a state file are out of order.")
                keys.logical_form(key, bytes(stored))
                digest.update(_RECORD_HEAD.pack(len(key), len(stored)))
                digest.update(key)
                digest.update(stored)
                former = key
                found += 1
                size += len(key) + len(stored)
            if found != transaction.stat(database)["entries"]:
                raise KeyLoadError(ErrorCode.CORRUPTION, "A state file has lost records.")
            records += found
    return Facts(head.applied, head.membership, records, size, digest.hexdigest())


def main(arguments: list[str]) -> int:
    """Check the files and write what was found, or the first problem, to standard output."""
    every_record, seconds, paths = arguments[0] == "1", int(arguments[1]), list(map(Path, arguments[2:]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    used = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * pages.PAGE_BYTES
    limit = used + max((path.stat().st_size for path in paths if path.exists()), default=0) + _SPARE_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    try:
        found: list[Facts] | Problem = [inspect(path, every_record) for path in paths]
    except KeyLoadError as error:
        found = Problem(error.code, error.detail)
    sys.stdout.write(msgspec.json.encode(found).decode())
    return EXIT_REFUSED if isinstance(found, Problem) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
