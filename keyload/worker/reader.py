"""A reader process: makes long reads beside its worker, `python -m keyload.worker.reader DESCRIPTOR`.

It has an interpreter of its own, so that whatever a read does costs the worker's loop nothing but a share of
the machine, and it gives way to the worker there too. Each read has its own cut; a thread only listens for
cancellations and for the end of the worker, which ends this process at once.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from queue import SimpleQueue

from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.link import log
from keyload.link.catalog import Catalog
from keyload.models import READS
from keyload.models.budget import Budget
from keyload.models.context import ReadHandler
from keyload.storage.onlooker import Onlooker
from keyload.worker import answers
from keyload.worker.batch import Answer
from keyload.worker.read_jobs import RECEIVE_BYTES, Cancel, Frames, Job, Result, Setup, ToReader, framed
from keyload.worker.reads import ReadAnswerer

NICENESS = 10
"""Reads give way to commands when both want the processor."""


def main(reads: Mapping[str, ReadHandler] = READS) -> int:
    """Serve the worker at the other end of the socket that the first argument names."""
    os.nice(NICENESS)
    with socket.socket(fileno=int(sys.argv[1])) as link:
        jobs: SimpleQueue[Job] = SimpleQueue()
        reader = _Reader(reads)
        setup = threading.Event()
        threading.Thread(target=_listen, args=(link, reader, jobs, setup), daemon=True).start()
        setup.wait()
        while True:
            job = jobs.get()
            answer = reader.run(job)
            link.sendall(framed(Result(job.number, answer.refused, answer.payload)))


def _listen(link: socket.socket, reader: _Reader, jobs: SimpleQueue[Job], setup: threading.Event) -> None:
    """Take what the worker says; nothing here outlives it."""
    frames = Frames[ToReader](ToReader)
    try:
        while data := link.recv(RECEIVE_BYTES):
            for message in frames.take(data):
                match message:
                    case Setup():
                        reader.begin(message)
                        setup.set()
                    case Job():
                        jobs.put(message)
                    case Cancel():
                        reader.cancelled = message.number
    finally:
        os._exit(0)


class _Reader:
    """The shards of one worker, opened when they are first read."""

    def __init__(self, reads: Mapping[str, ReadHandler]) -> None:
        self.cancelled = 0
        self._reads = reads
        self._directory = Path()
        self._incarnation = ""
        self._data_shards = 0
        self._stores: dict[int, Onlooker] = {}
        self._answerers: dict[int, ReadAnswerer] = {}

    def begin(self, setup: Setup) -> None:
        """Hear whose data it is."""
        log.name_process(f"worker-{setup.worker}-reader")
        self._directory = Path(setup.directory)
        self._incarnation = setup.incarnation
        self._data_shards = setup.data_shards

    def run(self, job: Job) -> Answer:
        """Make one read at a cut of its own."""
        deadline = time.monotonic() + job.seconds

        def late() -> bool:
            return self.cancelled == job.number or time.monotonic() > deadline

        def check(_: int) -> None:
            if late():
                raise KeyLoadError(ErrorCode.BUDGET_EXCEEDED, "The read takes too long.")

        catalog = Catalog()
        catalog.apply(job.catalog)
        try:
            with self._store(job.read.shard).reader(check) as reader:
                return self._answerer(job.read.shard).answer(
                    job.read, reader, catalog, now=job.now, budget=Budget(late=late), node=job.node
                )
        except KeyLoadError as error:
            return answers.refusal(error)

    def _store(self, shard: int) -> Onlooker:
        if shard not in self._stores:
            self._stores[shard] = Onlooker(self._directory / f"shard-{shard}")
        return self._stores[shard]

    def _answerer(self, shard: int) -> ReadAnswerer:
        if shard not in self._answerers:
            self._answerers[shard] = ReadAnswerer(
                shard=shard,
                incarnation=self._incarnation,
                data_shards=self._data_shards,
                reads=self._reads,
            )
        return self._answerers[shard]


if __name__ == "__main__":
    sys.exit(main())
