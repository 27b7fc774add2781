"""Metadata of operations is for every principal; it grants nothing (MCP-30)."""

from __future__ import annotations

from typing import Any

import pytest

from keyload.contract.operations import OPERATIONS
from keyload.contract.security import PrincipalRecord
from keyload.front.calls import Caller
from keyload.front.mcp.tools import ROUTE, SEARCH

from .support import Driver, Functions, with_driver

NOBODY = Caller(PrincipalRecord(id="nobody", tenant_id="other", grants=(), field_grants=()), "key", 1)
ADMINISTRATOR = Caller(
    PrincipalRecord(id="root", tenant_id="system", grants=(), field_grants=(), cluster_administrator=True),
    "key",
    1,
)


@pytest.mark.covers("MCP-30", "MCP-5")
def test_a_principal_without_any_grant_sees_what_an_administrator_sees() -> None:
    invoke = Functions({})

    async def test(driver: Driver) -> None:
        async def found(who: Caller, tool: str, arguments: dict[str, Any]) -> Any:
            return (await driver.call(tool, arguments, who=who)).structured["result"]

        for name, operation in OPERATIONS.items():
            search = {"query": name, "maxResults": 1}
            (match,) = (await found(NOBODY, SEARCH, search))["matches"]
            assert match["toolId"] == name
            assert match["description"] == operation.description
            assert match["inputSchema"]
            assert match["outputSchema"]
            for tool, arguments in ((SEARCH, search), (ROUTE, {"query": operation.title})):
                assert await found(NOBODY, tool, arguments) == await found(ADMINISTRATOR, tool, arguments)
        assert invoke.calls == []
        reply = await driver.invoke("keyload_admin_status", who=NOBODY)
        assert reply.structured["error"]["errorCode"] == "PermissionDenied"  # seeing it grants nothing

    with_driver(test, invoke)
