"""JSON Schemas of the three meta tools, exact and self-contained (MCP-9, MCP-14..16, MCP-29).

They differ from the schemas of the operations in one thing: their integers are JSON numbers only (CON-7).
"""

from __future__ import annotations

from typing import Any

from keyload.contract.errors import ErrorCode
from keyload.contract.features import FEATURES

MAX_QUERY_BYTES = 2048
MAX_RESULTS = 4
DEFAULT_RESULTS = 3
MAX_CATEGORIES = 2
MAX_TOOLS_PER_CATEGORY = 2

Schema = dict[str, Any]


def search_input() -> Schema:
    """Arguments of `gateway_tools_search`."""
    return _object(
        {"query": _query(), "maxResults": _count(MAX_RESULTS, DEFAULT_RESULTS, "Most matches.")}, ["query"]
    )


def route_input() -> Schema:
    """Arguments of `gateway_tools_route`."""
    members: Schema = {
        "query": _query(),
        "maxCategories": _count(MAX_CATEGORIES, MAX_CATEGORIES, "Most categories."),
        "maxToolsPerCategory": _count(
            MAX_TOOLS_PER_CATEGORY, MAX_TOOLS_PER_CATEGORY, "Most operations in a category."
        ),
        "preferReadOnly": {
            "type": "boolean",
            "default": False,
            "description": "True ranks reading operations first.",
        },
    }
    return _object(members, ["query"])


def invoke_input() -> Schema:
    """Arguments of `gateway_tool_invoke`."""
    members: Schema = {
        "toolId": {
            "type": "string",
            "minLength": 1,
            "maxLength": 256,
            "description": "Exact operation name, as found by search or route.",
        },
        "arguments": {
            "type": "object",
            "maxProperties": 2,
            "default": {},
            "description": "What the operation's input schema describes; nothing when it takes no request.",
        },
    }
    return _object(members, ["toolId"])


def search_output() -> Schema:
    """Structured content of `gateway_tools_search`."""
    return _envelope(
        _object({"matches": _list(_match(), 0, MAX_RESULTS, "Best first; empty when nothing fits.")})
    )


def route_output() -> Schema:
    """Structured content of `gateway_tools_route`."""
    category = _object(
        {
            "feature": _feature(),
            "score": _score(),
            "tools": _list(_match(), 1, MAX_TOOLS_PER_CATEGORY, "Operations, best first."),
        }
    )
    categories = _list(category, 0, MAX_CATEGORIES, "Best first; empty when nothing fits.")
    return _envelope(_object({"categories": categories}))


def invoke_output() -> Schema:
    """Structured content of `gateway_tool_invoke`: the result is what the operation's own schema says."""
    return _envelope({"description": "Result of the operation, as its output schema describes it."})


def _envelope(result: Schema) -> Schema:
    """`{result, requestId}` or `{error, requestId}`."""
    request_id = {
        "type": ["string", "null"],
        "description": "Id of the execution; null when nothing was executed.",
    }
    schema = _object({"result": result, "error": _problem(), "requestId": request_id}, ["requestId"])
    return {**schema, "oneOf": [{"required": ["result"]}, {"required": ["error"]}]}


def _object(members: Schema, required: list[str] | None = None) -> Schema:
    return {
        "type": "object",
        "properties": members,
        "required": list(members) if required is None else required,
        "additionalProperties": False,
    }


def _list(items: Schema, least: int, most: int, description: str) -> Schema:
    return {"type": "array", "items": items, "minItems": least, "maxItems": most, "description": description}


def _query() -> Schema:
    return {
        "type": "string",
        "minLength": 1,
        "maxLength": MAX_QUERY_BYTES,
        "pattern": "\\S",
        "description": f"Task in your own words; not blank, at most {MAX_QUERY_BYTES} bytes of UTF-8.",
    }


def _count(most: int, default: int, description: str) -> Schema:
    return {"type": "integer", "minimum": 1, "maximum": most, "default": default, "description": description}


def _text(description: str) -> Schema:
    return {"type": "string", "description": description}


def _flag(description: str) -> Schema:
    return {"type": "boolean", "description": description}


def _feature() -> Schema:
    return {"type": "string", "enum": list(FEATURES), "description": "Area of the database."}


def _score() -> Schema:
    return {"type": "number", "minimum": 0, "maximum": 1, "description": "Relative fit."}


def _match() -> Schema:
    return _object(
        {
            "toolId": _text("Operation name for gateway_tool_invoke."),
            "title": _text("Title."),
            "description": _text("What the operation does."),
            "feature": _feature(),
            "readOnly": _flag("It changes nothing."),
            "destructive": _flag("It may remove or overwrite data."),
            "idempotent": _flag("A repeat has no further effect."),
            "score": _score(),
            "inputSchema": {"type": "object", "description": "Schema of the arguments."},
            "outputSchema": {"type": "object", "description": "Schema of the structured content."},
        }
    )


def _problem() -> Schema:
    members: Schema = {
        "type": _text("urn:keyload:error: and the code."),
        "title": _text("The code."),
        "status": {"type": "integer", "description": "HTTP status of the code."},
        "detail": _text("One sentence for people."),
        "errorCode": {"type": "string", "enum": [str(code) for code in ErrorCode]},
        "path": _text("JSON pointer of the wrong member."),
        "expected": _text("What was expected there."),
        "example": {"description": "Smallest valid request."},
        "retry": {"type": "string", "enum": ["never", "sameId", "later"]},
    }
    return _object(members, ["type", "title", "status", "detail", "errorCode"])
