"""The guide says only what is there."""

from __future__ import annotations

import json
import re
from types import MappingProxyType

import pytest

from keyload.contract.errors import ErrorCode
from keyload.contract.operations import OPERATIONS
from keyload.front.mcp.guide import MAX_BYTES, guide
from keyload.front.mcp.tools import META_TOOLS
from tests.unit.gateway.catalog import OPERATIONS as CONTRACT

TEXT = guide(OPERATIONS)


@pytest.mark.covers("MCP-37", "CON-46")
def test_it_fits() -> None:
    assert len(TEXT.encode()) <= MAX_BYTES


@pytest.mark.covers("MCP-38")
def test_its_two_examples_are_one_search_and_one_invocation_without_body() -> None:
    search, invoke = (json.loads(block) for block in re.findall(r"```json\n(.*?)\n```", TEXT, re.DOTALL))
    assert (search["name"], set(search["arguments"])) == ("gateway_tools_search", {"query"})
    assert invoke["name"] == "gateway_tool_invoke"
    assert set(invoke["arguments"]) == {"toolId"}
    operation = OPERATIONS[invoke["arguments"]["toolId"]]
    assert operation.request is None
    assert operation.read_only


@pytest.mark.covers("MCP-38")
def test_it_names_nothing_that_is_not_implemented() -> None:
    named = set(re.findall(r"\b(?:keyload|gateway)_\w+", TEXT))
    assert named <= set(OPERATIONS) | set(META_TOOLS)
    missing = [entry for entry in CONTRACT if entry["name"] not in OPERATIONS]
    assert not [entry["title"] for entry in missing if f" {entry['title'].lower()}," in TEXT]
    areas = set(re.findall(r"^\* (\w+):", TEXT, re.MULTILINE))
    assert areas == {operation.feature for operation in OPERATIONS.values()}
    codes = set(re.findall(r"`([A-Z]\w+)`", TEXT))
    assert codes <= {str(code) for code in ErrorCode}


@pytest.mark.covers("MCP-38")
@pytest.mark.parametrize(
    "word", ["search", "route", "inputSchema", "readOnly", "cursor", "UnknownWriteOutcome"]
)
def test_it_explains_what_an_agent_needs(word: str) -> None:
    assert word in TEXT


@pytest.mark.covers("MCP-37")
def test_a_guide_that_does_not_fit_stops_the_start() -> None:
    status = OPERATIONS["keyload_admin_status"]
    many = {f"operation_{number}": status for number in range(600)}
    with pytest.raises(ValueError):
        guide(MappingProxyType(many))
