"""`keyload cluster replace` and `keep`: exchange a voter for a new node, or withdraw that; both follow it to
its end (CLU-19).

The nodes carry it through by themselves; this command only begins and watches. Interrupted, or when its node
goes away, it can be given again, also through another node.
"""

from __future__ import annotations

import time
from http import HTTPStatus
from pathlib import Path
from typing import Any, cast

import httpx
import msgspec

from keyload.cli.commands import UsageError, Words
from keyload.cli.remote import DEFAULT_URL, caller_key, explained, show
from keyload.client.core import Nodes
from keyload.codec import strict_json
from keyload.contract.errors import ErrorCode, KeyLoadError, Problem
from keyload.link.addresses import read_origin

PATH = "/admin/cluster/replace"
MAX_ENTRY_BYTES = 65_536
CALL_SECONDS = 10.0
PATIENCE_SECONDS = 60.0
"""How long the node may be out of reach or without a majority while it is watched."""

_PAUSE_SECONDS = 0.5
_UNCERTAIN = {ErrorCode.OWNERSHIP_LOST, ErrorCode.UNKNOWN_WRITE_OUTCOME, ErrorCode.RECOVERY_REQUIRED}


def replace(words: Words) -> int:
    """Begin the exchange and print each progress as JSON until it is done."""
    entry = _read_entry(Path(words.options["--with"]))
    wish = {"node": words.operands[0], "with": entry}
    progress = _order(words, "POST", msgspec.json.encode(wish))
    if entry.get("id") not in progress["voters"]:
        raise KeyLoadError(ErrorCode.CONFLICT, "The exchange was withdrawn.")
    return 0


def keep(words: Words) -> int:
    """Withdraw the exchange that is under way and print each progress until nothing of it is left."""
    _order(words, "DELETE", b"")
    return 0


def _order(words: Words, method: str, body: bytes) -> Any:
    """Give an order and follow it to its end; the last progress."""
    url = words.options.get("--url", DEFAULT_URL).rstrip("/")
    try:
        read_origin(url)
    except ValueError as error:
        raise UsageError(f"{url}: {error}.") from None
    key = caller_key(words.options.get("--profile"))
    try:
        headers = Nodes(url, key).headers
    except ValueError as error:
        raise KeyLoadError(ErrorCode.UNAUTHENTICATED, f"KEYLOAD_API_KEY or the profile: {error}.") from None
    with httpx.Client(headers=headers, timeout=CALL_SECONDS, trust_env=False) as client:
        progress = explained(url, lambda: _ask(client, method, url, body))
        shown: Any = None
        while True:
            if progress != shown:
                show(progress)
                shown = progress
            if progress["replacing"] is None:
                return progress
            time.sleep(_PAUSE_SECONDS)
            progress = explained(url, lambda: _ask(client, "GET", url, b""))


def _read_entry(path: Path) -> dict[str, Any]:
    """The new node's entry, an object as in the setting `peers`; what is in it is for the node to judge."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_ENTRY_BYTES + 1)
    except OSError as error:
        raise KeyLoadError(ErrorCode.VALIDATION, f"{path}: {error.strerror}.") from error
    if len(content) > MAX_ENTRY_BYTES:
        raise KeyLoadError(ErrorCode.VALIDATION, f"{path}: larger than {MAX_ENTRY_BYTES} bytes.")
    try:
        tree = strict_json.parse(content, 2)
    except KeyLoadError as error:
        raise KeyLoadError(ErrorCode.VALIDATION, f"{path}: {error.detail}") from None
    if not isinstance(tree, dict):
        raise KeyLoadError(ErrorCode.VALIDATION, f"{path}: expected one JSON object.")
    return cast("dict[str, Any]", tree)


def _ask(client: httpx.Client, method: str, url: str, body: bytes) -> Any:
    """One answer; what is uncertain or cannot be reached is asked again for a while: it changes nothing
    twice."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return _once(client, method, url, body)
        except httpx.TransportError:
            failure = KeyLoadError(ErrorCode.OWNERSHIP_LOST, f"The node at {url} cannot be reached.")
        except KeyLoadError as error:
            if error.code not in _UNCERTAIN:
                raise
            failure = error
        if time.monotonic() > deadline:
            raise failure
        time.sleep(_PAUSE_SECONDS)


def _once(client: httpx.Client, method: str, url: str, body: bytes) -> Any:
    response = client.request(method, url + PATH, content=body)
    if response.status_code == HTTPStatus.OK:
        return msgspec.json.decode(response.content)
    try:
        raise KeyLoadError.from_problem(msgspec.json.decode(response.content, type=Problem))
    except (msgspec.MsgspecError, ValueError):
        detail = f"The node answers with status {response.status_code}."
        raise KeyLoadError(ErrorCode.OWNERSHIP_LOST, detail) from None
