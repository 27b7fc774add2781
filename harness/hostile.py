"""Requests that try a parser: deep, wide, long, malformed, or of every character there is.

Each is sent at both doors as the request of an operation. It is answered with the documented code, or stored
and returned exactly. `apphost --measure=hostile` says how long the answers take.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any
from uuid import uuid4

import msgspec

from harness.acknowledged import COLLECTION, partition_of
from harness.cluster import Cluster
from harness.doors import tree
from harness.load import prepare
from harness.measured import Row, Table, below
from harness.raw_http import Connection, mcp_invoke, request
from keyload.contract.errors import ErrorCode

RUNS = 5
LIMIT_MS = 100.0
ID_BYTES = 256
TEXT_BYTES = 1 << 20
TOKENS = 2_000_000
COMMIT, GET = "keyload_documents_commit", "keyload_documents_get"
ROUTES = {COMMIT: "/v1/commands", GET: "/v1/documents/get"}
_HOLE = "the request of the case"


class Hostile(msgspec.Struct, frozen=True):
    """The bytes of a request, and the code it is refused with; None when it is executed."""

    what: str
    operation: str
    body: bytes
    code: ErrorCode | None = ErrorCode.VALIDATION


class Kept(msgspec.Struct, frozen=True):
    """A document that has to come back as it was sent."""

    what: str
    id: str
    json: str = '{"a":1}'


def over_http(case: Hostile, key: str) -> bytes:
    """The case as the body of its route."""
    return request("POST", ROUTES[case.operation], key, case.body)


def over_mcp(case: Hostile, key: str) -> bytes:
    """The case inside an invocation."""
    whole = mcp_invoke(key, case.operation, {"request": _HOLE})
    body = whole.partition(b"\r\n\r\n")[2].replace(json.dumps(_HOLE).encode(), case.body)
    head = [line for line in whole.partition(b"\r\n\r\n")[0].split(b"\r\n") if b"Content-Length" not in line]
    return b"\r\n".join([*head, b"Content-Length: %d" % len(body)]) + b"\r\n\r\n" + body


def code_of(body: bytes) -> str | None:
    """The code in an answer of either door, None for a success."""
    answer = json.loads(body)
    if "jsonrpc" not in answer:
        return answer.get("errorCode") if isinstance(answer, dict) else None
    if "error" in answer:
        return answer["error"]["data"]["errorCode"]
    error = answer["result"]["structuredContent"].get("error")
    return None if error is None else error["errorCode"]


def put_body(document_id: str, text: str, key: str = "hostile") -> bytes:
    """The body of a put."""
    mutation = {"kind": "putDocument", "collection": COLLECTION, "id": document_id, "json": text}
    command = {"commandId": str(uuid4()), "partition": tree(partition_of(key)), "mutations": [mutation]}
    return msgspec.json.encode(command)


def get_body(document_id: str, key: str = "hostile") -> bytes:
    """The body of a read."""
    reference = {"partition": tree(partition_of(key)), "collection": COLLECTION, "id": document_id}
    return msgspec.json.encode({"reference": reference})


def refused() -> Iterator[Hostile]:
    """Everything that is refused."""
    half = TEXT_BYTES // 2
    for what, body in {
        "1 MiB of nested arrays": b"[" * half + b"]" * half,
        "1 MiB of nested objects": b'{"a":' * (TEXT_BYTES // 6) + b"1" + b"}" * (TEXT_BYTES // 6),
        "1 MiB of opened arrays": b"[" * TEXT_BYTES,
        "2,000,000 tokens of numbers": b"[0" + b",0" * (TOKENS // 2 - 40) + b"]",
        "2,000,000 tokens of texts": b'[""' + b',""' * (TOKENS // 2 - 40) + b"]",
        "more than 2,000,000 tokens": b"[0" + b",0" * (TOKENS // 2) + b"]",
        "more than 2,000,000 tokens of marks in texts": b'["]"' + b',"]"' * (TOKENS // 2) + b"]",
        "a number of 5,000 digits": b'{"reference":' + b"7" * 5_000 + b"}",
        "a fraction of 5,000 digits": b'{"reference":0.' + b"7" * 5_000 + b"}",
        "an exponent of 5,000 digits": b'{"reference":1e' + b"7" * 5_000 + b"}",
        "a high surrogate alone": b'{"reference":"\\ud800"}',
        "a low surrogate first": b'{"reference":"\\udc00\\ud800"}',
        "a surrogate in UTF-8": b'{"reference":"\xed\xa0\x80"}',
        "NaN": b'{"reference":NaN}',
        "Infinity": b'{"reference":[Infinity]}',
        "a byte order mark": b'\xef\xbb\xbf{"reference":1}',
        "a NUL between": b'{"reference":\x001}',
        "a NUL in a text": b'{"reference":"\x00"}',
        "overlong UTF-8": b'{"reference":"\xc0\x80"}',
        "a name twice": b'{"reference":1,"reference":1}',
    }.items():
        yield Hostile(what, GET, body)
    for what, identifier in {
        "an id with NUL": "a\0b",
        "an id with DEL": "a\x7fb",
        "an id of 257 bytes": "i" * (ID_BYTES + 1),
        "an id of 258 bytes in three-byte characters": "\u20ac" * 86,
        "an empty id": "",
        "a blank id": " \u3000\u2003",
    }.items():
        yield Hostile(what, GET, get_body(identifier))
    deep = "[" * half + "]" * half
    for what, text, code in (
        ("a document of 1 MiB of nested arrays", '{"a":' + deep[6:] + "}", ErrorCode.VALIDATION),
        ("a document of 33 levels", '{"a":' + "[" * 32 + "]" * 32 + "}", ErrorCode.VALIDATION),
        ("a document with a number of 35 digits", '{"a":' + "1" * 35 + "}", ErrorCode.VALIDATION),
        ("a document with a number of 5,000 digits", '{"a":' + "1" * 5_000 + "}", ErrorCode.VALIDATION),
        ("a document with a lone surrogate", '{"a":"\\ud800"}', ErrorCode.VALIDATION),
        ("a document with NaN", '{"a":NaN}', ErrorCode.VALIDATION),
        ("a document with a byte order mark", '\ufeff{"a":1}', ErrorCode.VALIDATION),
        ("a document with a NUL", '{"a":"\0"}', ErrorCode.VALIDATION),
        ("a document of 1 MiB and a byte", filled(TEXT_BYTES + 1), ErrorCode.RESOURCE_EXHAUSTED),
    ):
        yield Hostile(what, COMMIT, put_body("refused", text), code)


def filled(size: int) -> str:
    """A document of so many bytes."""
    return '{"a":"' + "x" * (size - 8) + '"}'


def kept() -> Iterator[Kept]:
    """Everything that comes back as it was sent."""
    for number, identifier in enumerate(identifiers()):
        yield Kept(f"an id of {ID_BYTES} bytes, {number}", identifier)
    for what, text in {
        "a document of 32 levels": '{"a":' + "[" * 31 + "]" * 31 + "}",
        "a document of 1 MiB": filled(TEXT_BYTES),
        "a document of half a million texts": '{"a":[' + '"",' * 340_000 + '""]}',
        "numbers of 34 digits": '{"a":' + "1" * 34 + ',"b":-0.' + "3" * 34 + ',"c":1e6144,"d":9.99e-6144}',
        "spellings": '{ "b" :\t[1.0,1e0,-0,0.10],\n"a":"\\u0041\\/\\u00e9" }',
        "a NUL as an escape": '{"a\\u0000b":"\\u0000"}',
        "a whole surrogate pair": '{"a":"\\ud83d\\ude00\U0001f600"}',
        "a byte order mark within": '{"\ufeff":"\ufeff"}',
        "characters that are none": '{"a":"\ufffe\uffff\U0010ffff\u2028\u2029\x7f\x85"}',
    }.items():
        yield Kept(what, f"kept-{what}", text)


def identifiers() -> Iterator[str]:
    """Ids of 256 bytes that hold every legal character of one and two bytes, and the first and last ones of
    every plane.
    """
    edges = [plane << 16 | place for plane in range(17) for place in (*range(0x100), *range(0xFF00, 0x10000))]
    wanted = sorted({*range(0x800), *range(0xD700, 0xD800), *range(0xE000, 0xE100), *edges})
    identifier = ""
    for character in map(chr, wanted):
        if unicodedata.category(character) in ("Cc", "Cs"):
            continue
        if len((identifier + character).encode()) > ID_BYTES:
            yield identifier + "." * (ID_BYTES - len(identifier.encode()))
            identifier = ""
        identifier += character
    yield identifier + "." * (ID_BYTES - len(identifier.encode()))


def measure() -> Table:
    """The longest time of each kind of answer at a node alone, over both doors."""
    with (
        tempfile.TemporaryDirectory(prefix="keyload-hostile-") as name,
        Cluster(Path(name) / "cluster", nodes=1, workers=1, shards=None) as cluster,
    ):
        return asyncio.run(_measure(cluster))


async def _measure(cluster: Cluster) -> Table:
    await prepare(cluster.urls, cluster.key)
    connection = await Connection.open(cluster.urls[0])
    rows: list[Row] = []
    for case in refused():
        for door, form in (("HTTP", over_http), ("MCP", over_mcp)):
            times = [await _timed(connection, form(case, cluster.key), case.code) for _ in range(RUNS)]
            rows.append(below(f"{case.what}, {door}", times, "ms", LIMIT_MS))
    slowest: dict[str, list[float]] = {}
    for document in kept():
        put = Hostile(document.what, COMMIT, put_body(document.id, document.json), None)
        get = Hostile(document.what, GET, get_body(document.id), None)
        what = f"ids of {ID_BYTES} bytes" if document.json == Kept("", "").json else document.what
        for form in (over_http, over_mcp):
            for case in (put, get):
                slowest.setdefault(what, []).append(await _timed(connection, form(case, cluster.key), None))
    rows += [below(f"{what}, longest", [max(times)], "ms", LIMIT_MS) for what, times in slowest.items()]
    connection.close()
    return Table(title="Hostile requests", runs=RUNS, rows=rows)


async def _timed(connection: Connection, sent: bytes, code: Any) -> float:
    """Milliseconds from the first byte sent to the last one received."""
    began = perf_counter()
    _, body = await connection.ask(sent)
    took = (perf_counter() - began) * 1000
    if code_of(body) != code:
        sys.stderr.write(f"expected {code}: {body[:300]!r}\n")
        raise AssertionError(f"expected {code}")
    return took
