"""`python -m harness.discovery.footprint`: what the index of our catalogue adds to a fresh process."""

from __future__ import annotations

import gc
import json

import psutil

from harness.discovery.catalogue import documents

MEGABYTE = 1 << 20
TASKS = (
    "read a document",
    "subir un archivo grande",
    "删除文件",
    "knoten des clusters",
    "misspeled qeury wrods",
)


def main() -> None:
    """Print both figures as JSON."""
    process = psutil.Process()
    known = documents()
    gc.collect()
    start = process.memory_info().rss
    import numpy  # noqa: F401, RUF100
    import rapidfuzz.process  # noqa: F401, RUF100

    gc.collect()
    packages = process.memory_info().rss
    from keyload.gateway.lexical import LexicalIndex

    index = LexicalIndex(known)
    for task in TASKS:
        index.rank(task)
    gc.collect()
    used = process.memory_info().rss
    print(json.dumps({"packages": (packages - start) / MEGABYTE, "index": (used - packages) / MEGABYTE}))


if __name__ == "__main__":
    main()
