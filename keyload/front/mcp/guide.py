"""The guide an agent reads first: one text, served as a resource and as a prompt (MCP-37, MCP-38)."""

from __future__ import annotations

import json
from collections.abc import Mapping

from keyload.contract.operations import Operation

URI = "keyload://guides/agent-quickstart"
PROMPT = "keyload_agent_quickstart"
TITLE = "KeyLoad quick start for agents"
DESCRIPTION = "What KeyLoad is, and how to find, read and invoke its operations safely."
MEDIA_TYPE = "text/markdown"
MAX_BYTES = 8192

_TEXT = """# KeyLoad quick start

KeyLoad is one database server for agents. Every write is one atomic, ordered, replicated command; every
read sees one consistent moment. You reach all of it through three tools.

## Find an operation

1. `gateway_tools_search` takes a task in your own words (`query`) and returns up to 4 operations
   (`maxResults`).
2. `gateway_tools_route` does the same grouped by area; `preferReadOnly` puts reading operations first.
3. An empty list means that nothing fits: rephrase, or name the area.

```json
{search}
```

Each match carries `toolId`, a description, effect hints (`readOnly`, `destructive`, `idempotent`) and the
complete `inputSchema` and `outputSchema`. Read them before you invoke. Hints and discovery grant nothing:
your key decides.

## Invoke it

`gateway_tool_invoke` takes the exact `toolId` and `arguments`, which are what the input schema says:
`{{"request": ...}}`, `{{"commandId": "...", "request": ...}}`, or nothing at all:

```json
{invoke}
```

Success is `{{"result": ..., "requestId": "..."}}`. Failure has `isError` and `{{"error": ..., "requestId":
...}}`; a null `requestId` means that nothing was executed. Act on `error.errorCode`, never on the text;
`path`, `expected` and `example` show what to correct, `retry` whether to send it again.

## Page reads

A list result is bounded. When it carries a cursor or says that there is more, invoke the same operation
again with that cursor and the same filter. `BudgetExceeded` means: ask for less at once.

## Keep a write identity

A command names itself with a guid that you choose (`commandId`, beside or inside the request, as the schema
says). Choose it once per intended effect and keep it until you have a definite answer.

* After `UnknownWriteOutcome`, a lost connection or a timeout: send the identical command with the same
  identity again. If it was already done you get its first answer; it is never done twice.
* `Conflict` or `RevisionConflict`: read the current state, then decide on a new command with a new identity.
* `ResourceExhausted` with `retry` `later`: wait a little and send the same command again.
* `PermissionDenied`: repeating does not help; the key lacks a grant.

## Areas

{areas}
"""


def guide(operations: Mapping[str, Operation]) -> str:
    """The text for the operations this version implements; it names no other.

    Raises ValueError when it passes 8,192 bytes.
    """
    areas: dict[str, list[str]] = {}
    for operation in operations.values():
        areas.setdefault(operation.feature, []).append(operation.title.lower())
    text = _TEXT.format(
        search=json.dumps({"name": "gateway_tools_search", "arguments": {"query": _task(operations)}}),
        invoke=json.dumps({"name": "gateway_tool_invoke", "arguments": _without_body(operations)}),
        areas="\n".join(f"* {feature}: {', '.join(titles)}" for feature, titles in areas.items()),
    )
    if len(text.encode()) > MAX_BYTES:
        raise ValueError(f"the guide passes {MAX_BYTES} bytes")
    return text


def _task(operations: Mapping[str, Operation]) -> str:
    return next(iter(operations.values())).aliases[0]


def _without_body(operations: Mapping[str, Operation]) -> dict[str, object]:
    """Arguments that invoke a reading operation without a request."""
    name = next(
        name for name, operation in operations.items() if operation.request is None and operation.read_only
    )
    return {"toolId": name}
