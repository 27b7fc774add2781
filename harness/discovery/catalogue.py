"""KeyLoad's own catalogue: all operations that the contract declares, as the front registers them.

Read from the published contract, so that it does not depend on which of them this version implements.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from harness.discovery.sets import TEXT_LIMIT
from harness.evidence import ROOT
from keyload.contract.names import MUTATION_KINDS
from keyload.contract.phrases import phrases_of
from keyload.gateway import Gateway, GatewayOptions, ToolHints, create_gateway
from keyload.gateway.documents import ToolDocument
from keyload.gateway.schema_text import schema_arguments

SOURCE = "keyload"
COMMIT = "keyload_documents_commit"
_CONTRACT = ROOT / "docs/contract"
_DEPTH = 4


async def _nothing() -> None:
    """No tool of the catalogue is run here."""


def gateway() -> Gateway:
    """A gateway that knows the whole catalogue, wired as the front wires its own."""
    options = GatewayOptions(strategy="graph", max_tools=256, max_metadata_bytes=4 * 1024 * 1024)
    made, registry, _ = create_gateway(options)
    for operation in _operations():
        registry.add_tool(
            SOURCE,
            _nothing,
            name=operation["name"],
            description=operation["description"],
            input_schema=_schema(operation["requestType"], _DEPTH),
            hints=ToolHints(
                title=operation["title"],
                category=operation["feature"],
                aliases=aliases(operation),
                examples=phrases_of(operation["name"], MUTATION_KINDS),
                read_only=operation["readOnly"],
                destructive=operation["destructive"],
                idempotent=operation["idempotent"],
            ),
        )
    return made


def documents() -> tuple[ToolDocument, ...]:
    """The same as documents, with the names of the operations as ids."""
    return tuple(
        ToolDocument(
            id=operation["name"],
            name=operation["name"],
            title=operation["title"],
            description=operation["description"],
            category=operation["feature"],
            aliases=aliases(operation),
            examples=phrases_of(operation["name"], MUTATION_KINDS),
            arguments=schema_arguments(_schema(operation["requestType"], _DEPTH), TEXT_LIMIT),
        )
        for operation in _operations()
    )


def aliases(operation: Mapping[str, Any]) -> tuple[str, ...]:
    """Aliases of an operation; the kinds of mutations lend theirs to the commit."""
    mutations = _types()["mutations"] if operation["name"] == COMMIT else ()
    return (*operation["aliases"], *(alias for kind in mutations for alias in kind["aliases"]))


@cache
def _operations() -> list[dict[str, Any]]:
    return json.loads((_CONTRACT / "operations.json").read_text(encoding="utf-8"))["operations"]


@cache
def _types() -> dict[str, Any]:
    return json.loads((_CONTRACT / "types.json").read_text(encoding="utf-8"))


def _schema(name: str | None, depth: int) -> dict[str, Any]:
    """Properties of a type with their meaning, types of members inside them as far as `depth`."""
    found = next((entry for entry in _types()["types"] if entry["name"] == name), None)
    if found is None or not depth:
        return {}
    return {
        "type": "object",
        "properties": {
            member["name"]: {"description": member["meaning"], **_schema(member["type"], depth - 1)}
            for member in found["members"]
        },
        "required": [member["name"] for member in found["members"] if member["required"]],
    }
