from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.shards import Shard

OpenShard = Callable[..., Shard]


@pytest.fixture
def open_shard(tmp_path: Path) -> Iterator[OpenShard]:
    """Makes shards in the test's directory and closes them at the end."""
    opened: list[Shard] = []

    def make(**options: Any) -> Shard:
        shard = Shard(tmp_path / f"shard-{len(opened)}", **options)
        opened.append(shard)
        return shard

    yield make
    for shard in opened:
        shard.close()
