"""A reader process whose point read does what the id of its document says; started by tests of long reads.

`count` counts all records; `scan` reads them again and again until its budget ends it; `spin` never ends and
never looks at its budget; `die` ends the process; `twice:<fifo>` counts, waits for a byte in the named pipe,
and counts again in the same cut; `names` tells what it sees of the catalog.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from keyload.contract.documents import GetDocumentRequest
from keyload.models import READS
from keyload.models.context import ReadContext, ReadHandler
from keyload.worker.reader import main

EVERYTHING = (b"", b"\xff" * 9)


def execute(context: ReadContext, request: GetDocumentRequest) -> Any:
    """What the id of the wanted document says."""
    word, _, rest = request.reference.id.partition(":")
    match word:
        case "count":
            return _count(context)
        case "scan":
            while True:
                _count(context)
        case "spin":
            while True:
                pass
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "twice":
            first = _count(context)
            Path(rest).read_bytes()
            return [first, _count(context)]
        case _:
            resources = sorted(row.name for row in context.catalog.resources("acme", "shop"))
            others = [row for row in ("ann", "bob") if context.catalog.principal(row) is not None]
            return [resources, others]


def _count(context: ReadContext) -> int:
    return sum(1 for _ in context.reader.scan(*EVERYTHING))


HANDLER = ReadHandler(authorize=lambda context, request: None, execute=execute)

if __name__ == "__main__":
    sys.exit(main({**READS, "keyload_documents_get": HANDLER}))
