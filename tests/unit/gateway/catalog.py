"""A gateway over the metadata of docs/contract, whose tools are plain local functions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from keyload.contract.names import MUTATION_KINDS
from keyload.contract.phrases import phrases_of
from keyload.gateway import Gateway, GatewayOptions, ToolHints, create_gateway

CONTRACT = Path(__file__).parents[3] / "docs" / "contract"
OPERATIONS: list[dict[str, Any]] = json.loads((CONTRACT / "operations.json").read_text())["operations"]
TYPES: dict[str, Any] = json.loads((CONTRACT / "types.json").read_text())
COMMIT = "keyload_documents_commit"
MUTATION_ALIASES = tuple(alias for kind in TYPES["mutations"] for alias in kind["aliases"])


async def echo(**arguments: Any) -> Any:
    return {"arguments": arguments}


def contract_gateway() -> Gateway:
    """All 68 operations, with the member names and meanings of their request types, and their phrases."""
    options = GatewayOptions(strategy="graph", max_tools=256, max_metadata_bytes=4 * 1024 * 1024)
    gateway, registry, _ = create_gateway(options)
    types = {entry["name"]: entry for entry in TYPES["types"]}
    for operation in OPERATIONS:
        request = types.get(operation["requestType"] or "", {"members": []})
        members = {member["name"]: {"description": member["meaning"]} for member in request["members"]}
        more = MUTATION_ALIASES if operation["name"] == COMMIT else ()
        registry.add_tool(
            "keyload",
            echo,
            name=operation["name"],
            description=operation["description"],
            input_schema={"type": "object", "properties": members},
            hints=ToolHints(
                title=operation["title"],
                category=operation["feature"],
                aliases=(*operation["aliases"], *more),
                examples=phrases_of(operation["name"], MUTATION_KINDS),
                read_only=operation["readOnly"],
                destructive=operation["destructive"],
                idempotent=operation["idempotent"],
            ),
        )
    return gateway
