"""A long scan as a reader process makes it: one cut of a shard, read to its end again and again."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from keyload.storage.onlooker import Onlooker
from keyload.worker.reader import NICENESS


def main() -> int:
    """Scan the shard in the first argument's directory for as many seconds as the second says."""
    os.nice(NICENESS)
    onlooker = Onlooker(Path(sys.argv[1]))
    deadline = time.monotonic() + float(sys.argv[2])
    try:
        with onlooker.reader() as reader:
            while time.monotonic() < deadline:
                for _ in reader.scan(b"", b"\xff" * 16):
                    if time.monotonic() >= deadline:
                        break
    finally:
        onlooker.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
