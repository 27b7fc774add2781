"""A shard's state as another process sees it while its worker goes on writing (STO-13, STO-14)."""

from __future__ import annotations

from pathlib import Path

import lmdb

from keyload.storage import layout
from keyload.storage.layout import translate
from keyload.storage.reader import Charge, StoreReader
from keyload.storage.store import MAP_BYTES


class Onlooker:
    """Reads a store that is open in another process on this machine.

    It writes nothing but its place in the table of readers, which the owner clears when this process has
    ended (`Store.reader_check`). It must be gone before the owner replaces the files. Raises as `Store`.
    """

    def __init__(self, directory: Path, *, map_bytes: int = MAP_BYTES) -> None:
        try:
            self._environment = lmdb.open(
                str(directory),
                map_size=map_bytes,
                readonly=True,
                create=False,
                max_dbs=layout.MAXIMUM_DATABASES,
                lib_version=0,
            )
            try:
                self._databases = layout.open_existing(self._environment)
            except BaseException:
                self._environment.close()
                raise
        except lmdb.Error as error:
            raise translate(error) from error

    def reader(self, charge: Charge | None = None) -> StoreReader:
        """A cut of the present state, as `Store.reader`."""
        return StoreReader(self._environment, self._databases, True, charge)

    def close(self) -> None:
        """Close the environment; every reader must be closed before. A second call does nothing."""
        self._environment.close()
