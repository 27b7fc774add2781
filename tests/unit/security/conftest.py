"""One node for the whole folder, with real files, processes and sockets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.cluster import Cluster

from .ground import Ground


@pytest.fixture(scope="session")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """The node with a caller of each kind."""
    directory = tmp_path_factory.mktemp("rights") / "cluster"
    with Cluster(directory, nodes=1, workers=1, shards=2) as cluster, Ground(cluster) as ground:
        yield ground
