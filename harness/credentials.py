"""Whether the time of a refusal tells what is wrong with a credential (`apphost --measure=credentials`).

One node, one connection, one request at a time: so nothing but the way to the refusal makes a difference. All
wrong credentials take turns in an order drawn anew for each round. Compared is the mean of the middle half of
the times of each: the times of all kinds alike gather around two values, as a processor sleeps or not, and a
median jumps between them.
"""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from pathlib import Path
from random import Random
from statistics import fmean
from time import perf_counter
from typing import Any

from harness.cluster import Cluster
from harness.measured import Row, Table, below, nearest_rank
from harness.raw_http import Connection
from keyload.client import AsyncClient
from keyload.contract.security import ApiKeyRecord, PrincipalRecord

RUNS = 3
ROUNDS = 500
WARMING_ROUNDS = 50
WANTED_PERCENT = 10
SEED = 1
SECRET = "0123456789abcdef0123456789abcdef"
PAST = "2020-01-01T00:00:00+00:00"
ENDPOINTS = ("POST /v1/documents/get", "POST /v1/commands", "POST /mcp", "GET /metrics", "POST /v1/nothing")


def measure() -> Table:
    """The spread at each endpoint."""
    with (
        tempfile.TemporaryDirectory(prefix="keyload-credentials-") as name,
        Cluster(Path(name) / "cluster", nodes=1, workers=1, shards=1) as cluster,
    ):
        return asyncio.run(_measured(cluster.urls[0], cluster.key))


async def _measured(url: str, key: str) -> Table:
    credentials = await prepare(url, key)
    return table(
        {
            endpoint: [
                await middles_of(url, endpoint, credentials, Random(SEED + run)) for run in range(RUNS)
            ]
            for endpoint in ENDPOINTS
        }
    )


def table(found: dict[str, list[dict[str, float]]]) -> Table:
    """The table of the middle times in seconds, by endpoint, run and kind of credential."""
    rows: list[Row] = []
    raw: dict[str, list[float]] = {}
    for endpoint, runs in found.items():
        spreads = [spread_percent(list(run.values())) for run in runs]
        rows.append(below(f"{endpoint}, slowest kind above quickest", spreads, "%", WANTED_PERCENT))
        middles = tuple(nearest_rank(list(run.values()), 0.5) * 1000 for run in runs)
        rows.append(Row(what=f"{endpoint}, middle kind", values=middles, unit="ms"))
        for run in runs:
            for kind, median in run.items():
                raw.setdefault(f"{endpoint}, {kind}", []).append(median * 1000)
    kinds = max(len(run) for runs in found.values() for run in runs)
    count = max(len(runs) for runs in found.values())
    return Table(title=f"Time of a 401, {kinds} wrong credentials", runs=count, rows=rows, raw=raw)


async def prepare(url: str, key: str) -> dict[str, tuple[str, ...]]:
    """Values of the header `Authorization` by what is wrong with them; what they need is stored first."""
    async with AsyncClient(url, key) as administrator:
        principals: dict[str, dict[str, Any]] = {
            "good": {},
            "gone": {"revoked": True},
            "late": {"expires_at": PAST},
        }
        for name, members in principals.items():
            await administrator.principals_configure(
                PrincipalRecord(id=name, tenant_id="t", grants=(), field_grants=(), **members)
            )
            await administrator.credentials_configure(_record(name, name))
        await administrator.credentials_configure(_record("dropped", "good", revoked=True))
        await administrator.credentials_configure(_record("expired", "good", expires_at=PAST))
    return {
        "missing": (),
        "repeated": (f"Bearer good.{SECRET}",) * 2,
        "other scheme": (f"Basic good.{SECRET}",),
        "over 512 bytes": (f"Bearer good.{SECRET}{'x' * 512}",),
        "no dot": (f"Bearer good{SECRET}",),
        "unknown id": (f"Bearer none.{SECRET}",),
        "wrong from the first byte": (f"Bearer good.{SECRET[::-1]}",),
        "wrong in the last byte": (f"Bearer good.{SECRET[:-1]}x",),
        "revoked key": (f"Bearer dropped.{SECRET}",),
        "expired key": (f"Bearer expired.{SECRET}",),
        "revoked principal": (f"Bearer gone.{SECRET}",),
        "expired principal": (f"Bearer late.{SECRET}",),
    }


def _record(key_id: str, principal: str, **members: Any) -> ApiKeyRecord:
    verifier = hashlib.sha256(f"{key_id}.{SECRET}".encode()).hexdigest()
    return ApiKeyRecord(id=key_id, principal_id=principal, verifier=verifier, **members)


def request_of(endpoint: str, values: tuple[str, ...]) -> bytes:
    """The bytes of one request."""
    body = b"" if endpoint.startswith("GET ") else b"{}"
    lines = [f"{endpoint} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}"]
    lines += [f"Authorization: {value}" for value in values]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def middles_of(
    url: str, endpoint: str, credentials: dict[str, tuple[str, ...]], random: Random
) -> dict[str, float]:
    """The middle time of the refusal of each credential, in seconds."""
    requests = {kind: request_of(endpoint, values) for kind, values in credentials.items()}
    times: dict[str, list[float]] = {kind: [] for kind in requests}
    order = list(requests)
    connection = await Connection.open(url)
    for number in range(WARMING_ROUNDS + ROUNDS):
        random.shuffle(order)
        for kind in order:
            before = perf_counter()
            status, body = await connection.ask(requests[kind])
            if status != 401:
                raise AssertionError(f"answered {status}: {body[:300]!r}")
            if number >= WARMING_ROUNDS:
                times[kind].append(perf_counter() - before)
    connection.close()
    return {kind: middle_half(found) for kind, found in times.items()}


def middle_half(times: list[float]) -> float:
    """The mean of the times without the quickest and the slowest quarter."""
    quarter = len(times) // 4
    return fmean(sorted(times)[quarter : len(times) - quarter])


def spread_percent(middles: list[float]) -> float:
    """How much the slowest lies above the quickest, in percent."""
    return (max(middles) / min(middles) - 1) * 100
