"""Hostile requests at both doors of a real cluster: the documented code, or stored and returned exactly."""

from __future__ import annotations

import asyncio
import json

import pytest

from harness.cluster import Cluster
from harness.hostile import (
    COMMIT,
    GET,
    Hostile,
    code_of,
    get_body,
    kept,
    over_http,
    over_mcp,
    put_body,
    refused,
)
from harness.raw_http import Connection


@pytest.mark.covers("HTTP-7", "MCP-7", "CON-3", "CON-4", "CON-5", "CON-20", "CON-22", "CON-23")
def test_what_no_request_may_be_is_refused_with_its_code(cluster: Cluster) -> None:
    async def main() -> None:
        connection = await Connection.open(cluster.urls[0])
        for case in refused():
            for form in (over_http, over_mcp):
                _, body = await connection.ask(form(case, cluster.key))
                assert code_of(body) == case.code, (case.what, form.__name__, body[:300])
        connection.close()

    asyncio.run(main())


@pytest.mark.covers("CON-18", "CON-20", "CON-22", "CON-23", "CON-24", "HTTP-14", "MCP-28")
def test_what_a_request_may_be_is_stored_and_returned_exactly(cluster: Cluster) -> None:
    async def main() -> None:
        here, there = [await Connection.open(url) for url in cluster.urls[:2]]
        for number, document in enumerate(kept()):
            first, second = (over_http, over_mcp) if number % 2 else (over_mcp, over_http)
            put = Hostile(document.what, COMMIT, put_body(document.id, document.json), None)
            _, body = await here.ask(first(put, cluster.key))
            assert code_of(body) is None, (document.what, body[:300])
            get = Hostile(document.what, GET, get_body(document.id), None)
            for form in (first, second):
                _, body = await there.ask(form(get, cluster.key))
                answer = json.loads(body)
                if "jsonrpc" in answer:
                    answer = answer["result"]["structuredContent"]["result"]
                assert answer["json"] == document.json, document.what
                assert answer["reference"]["id"] == document.id
        here.close()
        there.close()

    asyncio.run(main())
