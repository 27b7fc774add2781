"""Readiness follows the workers, the index and the last barrier; the log says only closed things."""

from __future__ import annotations

import asyncio
import contextlib

import msgspec
import pytest

from keyload.front.health import Readiness
from keyload.link import log
from keyload.link.messages import Barrier, Ready

from .hubs import catalog, hub_of, run, until


@contextlib.asynccontextmanager
async def watched(readiness: Readiness):
    watching = asyncio.create_task(readiness.watch())
    try:
        yield
    finally:
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching


@pytest.mark.covers("CLU-27", "CLU-28")
def test_ready_needs_replayed_shards_a_warm_index_and_a_fresh_barrier() -> None:
    async def main() -> None:
        warm = False
        async with hub_of(2, catalog(), call_ms=100) as (hub, peers, _):
            readiness = Readiness(hub, lambda: warm, barrier_seconds=0.01, fresh_seconds=0.2)
            assert not readiness.ready()
            async with watched(readiness):
                await until(lambda: hub.last_confirmed is not None)
                assert not readiness.ready()
                warm = True
                await until(readiness.ready)
                peers[1].say(Ready(1, [], False))
                await until(lambda: not readiness.ready())
                peers[1].say(Ready(1, [1], True))
                await until(readiness.ready)
                peers[0].behaviour = lambda message: ()
                await until(lambda: not readiness.ready())
                peers[0].behaviour = peers[0].answer
                await until(readiness.ready)
                readiness.stop()
                assert not readiness.ready()

    run(main())


@pytest.mark.covers("CLU-27")
def test_barriers_go_on_without_callers() -> None:
    async def main() -> None:
        async with (
            hub_of(1, catalog()) as (hub, peers, _),
            watched(Readiness(hub, lambda: True, barrier_seconds=0.001)),
        ):
            await until(lambda: sum(isinstance(m, Barrier) for m in peers[0].received) > 5)

    run(main())


@pytest.mark.covers("SEC-40", "CLI-13", "HTTP-17")
def test_a_log_line_is_json_with_a_closed_category(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        raise ValueError("MARKER")
    except ValueError as error:
        log.failure(log.Category.REQUEST_FAILED, error)
    log.event(log.Category.WORKER_ATTACHED, worker=3)
    first, second = (msgspec.json.decode(line) for line in capsys.readouterr().err.splitlines())
    assert (first["category"], first["kind"]) == ("request-failed", "ValueError")
    assert first["place"].startswith("test_health.py:")
    assert "MARKER" not in str(first)
    assert (second["category"], second["worker"], second["process"]) == ("worker-attached", 3, "front")
    assert set(second) == {"at", "process", "category", "worker"}
