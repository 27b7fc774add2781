"""Targets that read texts of callers: JSON, MCP frames, requests, tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from harness.fuzz import json_rules
from harness.fuzz.json_rules import Refused
from harness.fuzz.source import Source, attempt
from keyload.codec import json_text, strict_json, tokens
from keyload.codec.decoding import decode_arguments, decode_request, example_arguments, skeleton
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.contract.operations import OPERATIONS
from keyload.front.mcp import FrameError, preflight

DEPTH = 5
TOKENS = 40
_OPERATIONS = tuple(OPERATIONS.values())
_KEY = bytes(range(32))


def json(data: bytes) -> None:
    """A text is accepted when the slow rules accept it, with the same tree; its canonical text stays the same
    when it is read again."""
    try:
        expected: Any = json_rules.tree_of(data, DEPTH, TOKENS)
    except Refused:
        expected = Refused
    tree = attempt(lambda: strict_json.parse(data, DEPTH, TOKENS), KeyLoadError)
    assert isinstance(tree, KeyLoadError) == (expected is Refused), tree
    if isinstance(tree, KeyLoadError):
        assert tree.code is ErrorCode.VALIDATION
        return
    assert json_rules.same(tree, expected)
    _canonical(data.decode("utf-8"))


def _canonical(text: str) -> None:
    tree = attempt(lambda: json_text.check(text), KeyLoadError)
    if isinstance(tree, KeyLoadError):
        assert tree.code in (ErrorCode.VALIDATION, ErrorCode.RESOURCE_EXHAUSTED)
        return
    canonical = json_text.canonical(tree)
    again = json_text.check(canonical.decode("utf-8"))
    assert again == tree
    assert json_text.canonical(again) == canonical


def json_seeds() -> Iterator[bytes]:
    """Every form of JSON, and each rule broken."""
    yield from (b"null", b" [true,false] ", b'{"a":[1,-2,0.5,1e3,{"b":null}]}', b'"\\ud83d\\ude00\\n\\/"')
    yield from (b'{"a":1,"a":2}', b"\xef\xbb\xbf1", b"NaN", b"-Infinity", b'"\\ud800"', b"[" * 6 + b"]" * 6)
    yield from (b"1e99999999999999999999", b"01", b"1.", b"[1,]", b'"\x01"', b'"\xff"', b'{"\\u0061":1}')
    yield from (b'{"a":5,"b":1' + b"0" * 4999 + b"}", b"-0", b"[-0.0,1E+2,1e-7]", b"[" + b"1," * 30 + b"1]")


def mcp(data: bytes) -> None:
    """A frame is accepted when slow rules accept it, and its target is the one that they find."""
    try:
        expected: Any = _expected_frame(data)
    except Refused:
        expected = None
    frame = attempt(lambda: preflight.inspect(data, OPERATIONS), FrameError)
    assert isinstance(frame, FrameError) == (expected is None), frame
    if isinstance(frame, FrameError):
        return
    operation = None if frame.operation is None else frame.operation.name
    assert (frame.method, frame.tool, frame.tool_id, operation) == expected
    if not isinstance(frame.arguments, dict):
        assert frame.body is data
    else:  # the protocol library gets the call without its arguments
        sent = json_rules.tree_of(data, preflight.MAX_DEPTH, preflight.MAX_TOKENS)
        rest = msgspec.json.decode(frame.body)
        assert rest["params"].pop("arguments") == {}
        assert frame.arguments == sent["params"].pop("arguments")
        assert set(rest) == set(sent)
        assert set(rest["params"]) == set(sent["params"])


def _expected_frame(data: bytes) -> tuple[str, str | None, str | None, str | None]:
    tree = json_rules.tree_of(data, preflight.MAX_DEPTH, preflight.MAX_TOKENS)
    if not isinstance(tree, dict) or tree.get("jsonrpc") != "2.0" or not isinstance(tree.get("method"), str):
        raise Refused("no message")
    params = tree.get("params")
    if not (params is None or isinstance(params, dict)):
        raise Refused("no params")
    number = tree.get("id", "")
    short = number.__class__ is str and len(number) <= 1024
    if not short and not (number.__class__ is int and -(2**63) <= number < 2**63):
        raise Refused("no id")
    if tree["method"] != "tools/call" or not params:
        return tree["method"], None, None, None
    name, arguments = params.get("name"), params.get("arguments")
    target = arguments.get("toolId") if isinstance(arguments, dict) else None
    chosen = target if name == preflight.INVOKE and isinstance(target, str) else None
    known = chosen if chosen in OPERATIONS else None
    return "tools/call", name if isinstance(name, str) else None, chosen, known


def mcp_seeds() -> Iterator[bytes]:
    """Messages of both eras."""
    call = {"name": preflight.INVOKE, "arguments": {"toolId": "keyload_documents_get", "arguments": {}}}
    for method, params, number in (
        ("tools/call", call, 1),
        ("tools/call", {"name": "gateway_tools_search", "arguments": {"query": "x"}}, "a"),
        ("tools/list", None, 2**63),
        ("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}}, -(2**63)),
        ("notifications/cancelled", {"requestId": 1}, 1.5),
    ):
        yield msgspec.json.encode({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
    yield b'{"jsonrpc":"2.0","method":"ping"}'
    yield b'[{"jsonrpc":"2.0","method":"ping","id":1}]'
    yield b'{"jsonrpc":"2.0","method":"ping","id":1.0,"params":[]}'


def requests(data: bytes) -> None:
    """A body, or an argument envelope, is refused with a code or decoded to a record that is decoded to
    itself again, from JSON and from MessagePack."""
    source = Source(data)
    operation = source.pick(_OPERATIONS)
    tree = attempt(lambda: strict_json.parse(source.rest()), KeyLoadError)
    if isinstance(tree, KeyLoadError):
        return
    attempt(lambda: decode_arguments(operation, tree), KeyLoadError)
    if operation.request is None:
        return
    record = attempt(lambda: decode_request(operation, tree), KeyLoadError)
    if isinstance(record, KeyLoadError):
        return
    written = msgspec.json.encode(record)
    assert decode_request(operation, strict_json.parse(written)) == record
    packed = msgspec.msgpack.encode(record)
    assert msgspec.msgpack.decode(packed, type=type(record)) == record


def requests_seeds() -> Iterator[bytes]:
    """The smallest request and the smallest envelope of every operation."""
    for number, operation in enumerate(_OPERATIONS):
        yield bytes((number,)) + msgspec.json.encode(example_arguments(operation))
        if operation.request is not None:
            yield bytes((number,)) + msgspec.json.encode(skeleton(operation.request))


def token(data: bytes) -> None:
    """Only a token that was signed is valid, and no other spelling of it."""
    source = Source(data)
    purpose = source.pick(("cursor", "lease", ""))
    place, change = source.number(), source.number()
    content = source.rest()
    signed = tokens.sign(_KEY, purpose, content)
    if len(signed) <= tokens.TOKEN_MAX_CHARS:
        assert tokens.verify(_KEY, purpose, signed) == content
    _refuse(signed, purpose + "x")
    at = place % len(signed)
    changed = signed[:at] + chr(change) + signed[at + 1 :]
    for other in (signed[:at], signed + "=", changed, signed + chr(change)):
        if other != signed:
            _refuse(other, purpose)
    _refuse(content.decode("latin-1"), purpose)
    _refuse(content.decode("utf-8", "surrogateescape"), purpose)


def _refuse(text: str, purpose: str) -> None:
    """The text is no token of this purpose."""
    found = attempt(lambda: tokens.verify(_KEY, purpose, text), KeyLoadError)
    assert isinstance(found, KeyLoadError), "a text that was never signed is valid"
    assert found.code is ErrorCode.TOKEN_INVALIDATED


def token_seeds() -> Iterator[bytes]:
    """Contents of some lengths, and texts in the form of tokens."""
    for length in (0, 1, 2, 3, 32, 100):
        yield bytes((0, length, 65)) + bytes(range(length))
    yield b"\x01\x00=" + b"AAAA" * 12
    yield b"\x02\x05-" + b"AA==" + "ü".encode()
