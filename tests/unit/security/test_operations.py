"""Every operation that the server declares, called by a caller of each kind, against the table."""

from __future__ import annotations

from itertools import count

import pytest

from keyload.contract.mutations import MUTATIONS
from keyload.contract.operations import OPERATIONS

from .ground import REQUESTS, Ground
from .table import CALLERS, TABLE

_numbers = count(1)


def declared() -> list[str]:
    """The rows that the table has to have, from the declarations of the server."""
    rows: list[str] = []
    for operation in OPERATIONS.values():
        effects = any("EffectGrants" in grant.any_of for grant in operation.required_grants)
        rows += [f"{operation.name} {kind}" for kind in MUTATIONS] if effects else [operation.name]
    return rows


def test_every_operation_has_its_row() -> None:
    assert sorted(TABLE) == sorted(declared())
    assert sorted(REQUESTS) == sorted(declared())


@pytest.mark.covers(
    "SEC-8", "SEC-10", "SEC-11", "SEC-12", "SEC-17", "SEC-18", "SEC-21", "SEC-22", "SEC-24", "SEC-25",
    "SEC-27", "SEC-30", "SEC-41", "CON-51", "CON-92", "CON-93", "CON-94", "CON-96", "CON-98", "CON-105",
)  # fmt: skip
@pytest.mark.parametrize("door", ["http", "mcp"])
@pytest.mark.parametrize("row", declared())
def test_each_caller_gets_what_the_table_says(ground: Ground, row: str, door: str) -> None:
    operation = OPERATIONS[row.split()[0]]
    call = ground.http_call if door == "http" else ground.mcp_call
    found: dict[str, str] = {}
    for caller in CALLERS:
        request = REQUESTS[row](ground, f"target-{next(_numbers)}")
        before = ground.state()
        outcome = found[caller] = call(caller, operation, request)
        refused = outcome in ("denied", "unknown")
        if refused or operation.read_only:
            assert ground.state() == before, caller
        elif row != "keyload_admin_dispatch":
            assert ground.state() != before, caller
        if refused:
            assert ground.reads_at_home("full" if outcome == "unknown" else caller) == "ok"
    assert found == TABLE[row]
