"""The catalog feed: worker 0 turns what the system shard applies into deltas for its node
(docs/architecture.md).

The catalog's version is the applied index of the system shard, the same on every node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.link.catalog import Catalog
from keyload.link.messages import CatalogDelta
from keyload.models.catalog import CATALOG_RANGE, parse_row_key
from keyload.storage import WriteSet, logical_form
from keyload.worker.shard import Shard

Row = tuple[str, tuple[str, ...], bytes | None]


class CatalogFeed:
    """Keeps worker 0's own catalog and sends each change to the front."""

    def __init__(self, catalog: Catalog, send: Callable[[CatalogDelta], None]) -> None:
        self._catalog = catalog
        self._send = send

    def load(self, system: Shard) -> None:
        """Read the whole catalog from the applied state, at the start of the worker."""
        rows: list[Row] = []
        with system.store.reader() as reader:
            for key, value in reader.scan(*CATALOG_RANGE):
                name = parse_row_key(key)
                if name is not None:
                    rows.append((*name, value))
        self._publish(CatalogDelta(version=system.store.applied.index, whole=True, rows=rows))

    def applied(self, index: int, write_sets: Iterable[WriteSet]) -> None:
        """Publish the catalog rows among the writes applied up to `index`."""
        rows: list[Row] = []
        for write_set in write_sets:
            for physical_key, physical_value in write_set:
                key, value = logical_form(physical_key, physical_value)
                name = parse_row_key(key)
                if name is not None:
                    rows.append((*name, value))
        self._publish(CatalogDelta(version=index, whole=False, rows=rows))

    def _publish(self, delta: CatalogDelta) -> None:
        """Take over and send a delta; Corruption when a row is none (CLU-33)."""
        try:
            self._catalog.apply(delta)
        except (KeyError, msgspec.MsgspecError) as error:
            raise KeyLoadError(ErrorCode.CORRUPTION, "A row of the catalog cannot be read.") from error
        self._send(delta)
