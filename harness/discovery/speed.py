"""Latency of searches, time to build, and memory of the index (GTW-39)."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence

import msgspec

from harness.evidence import ROOT
from harness.measured import nearest_rank
from keyload.gateway.documents import ToolDocument
from keyload.gateway.lexical import LexicalIndex

SEARCHES = 1000
BUILDS = 3
SEARCHED_BEFORE = 50


class Speed(msgspec.Struct, frozen=True, kw_only=True):
    """Milliseconds a search takes and seconds a build takes."""

    tools: int
    p50: float
    p99: float
    build: float


def measure(documents: Sequence[ToolDocument], queries: Sequence[str]) -> Speed:
    """Build three times and keep the middle one, then search a thousand times, after some to warm up."""
    builds: list[float] = []
    for _ in range(BUILDS):
        started = time.perf_counter()
        index = LexicalIndex(documents)
        builds.append(time.perf_counter() - started)
    taken: list[float] = []
    for at in range(SEARCHED_BEFORE + SEARCHES):
        query = queries[at % len(queries)]
        started = time.perf_counter()
        index.rank(query)
        taken.append((time.perf_counter() - started) * 1000)
    counted = taken[SEARCHED_BEFORE:]
    return Speed(
        tools=len(documents),
        p50=nearest_rank(counted, 0.5),
        p99=nearest_rank(counted, 0.99),
        build=sorted(builds)[BUILDS // 2],
    )


def enlarged(documents: Sequence[ToolDocument], count: int) -> list[ToolDocument]:
    """So many tools: the given ones, then variants of them with other names."""
    many = list(documents)
    round_ = 1
    while len(many) < count:
        round_ += 1
        many += [
            msgspec.structs.replace(document, id=f"{document.id}_{round_}", name=f"{document.name}_{round_}")
            for document in documents[: count - len(many)]
        ]
    return many[:count]


INDEX_MEGABYTES = 15.0
"""What the index of our catalogue may take."""


class Footprint(msgspec.Struct, frozen=True):
    """Megabytes of resident memory: of importing numpy and rapidfuzz, and of our catalogue's index in use."""

    packages: float
    index: float


def footprint() -> Footprint:
    """Measured in a fresh process."""
    done = subprocess.run(
        [sys.executable, "-m", "harness.discovery.footprint"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    return msgspec.convert(json.loads(done.stdout), Footprint)
