"""Every refusal of a request names the place and what was expected there, and shows what would pass."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET

from keyload.codec import decoding, json_text, places, strict_json
from keyload.codec.examples import example_arguments, likeness
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.contract.operation import Operation
from keyload.contract.operations import OPERATIONS
from tests.unit.codec.support import refusal
from tests.unit.declared import GUID, MARKER, faults, whole

REQUESTS = {
    name: operation for name, operation in OPERATIONS.items() if operation.request not in (None, bool)
}


def envelope(operation: Operation, request: Any) -> dict[str, Any]:
    return ({"commandId": GUID} if operation.outer_command_id else {}) | {"request": request}


@pytest.mark.covers("HTTP-8", "CON-2", "CON-54", "HTTP-16", "CON-55", "SEC-40")
@pytest.mark.parametrize("name", REQUESTS)
def test_every_fault_of_every_member_is_refused_with_its_place(name: str) -> None:
    operation = REQUESTS[name]
    decoding.decode_arguments(operation, envelope(operation, whole(operation.request)))
    seen = set[str]()
    for fault in faults(operation.request):
        with pytest.raises(KeyLoadError) as caught:
            decoding.decode_arguments(operation, envelope(operation, fault.tree))
        error = caught.value
        assert error.path == "/request" + fault.path, fault
        assert error.expected, fault
        assert MARKER not in f"{error.detail}{error.expected}{error.example}", fault
        if fault.what.startswith("misspelt "):
            nearest = fault.what.removeprefix("misspelt ")
            assert error.expected == nearest or error.expected.startswith(f"{nearest}, or another"), fault
        if error.code is ErrorCode.VALIDATION:
            decoding.decode_arguments(operation, error.example)
        else:
            assert error.example is UNSET
        assert error.problem.retry in ("never", "sameId", "later")
        seen.add(fault.what.split(" ")[0])
    assert {"unknown", "wrong", "missing", "null", "misspelt", "scalar"} <= seen


@pytest.mark.covers("CON-39", "SEC-40")
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_example_has_the_members_given_and_none_of_their_values(name: str) -> None:
    operation = OPERATIONS[name]
    if name not in REQUESTS:
        assert decoding.decode_arguments(operation, example_arguments(operation))
        return
    given = whole(operation.request)
    example = likeness(operation.request, given)
    decoding.decode_request(operation, example)
    assert MARKER not in str(example)
    assert GUID not in str(example)
    assert example.keys() <= given.keys()
    assert likeness(operation.request, {**given, MARKER: 1, "partition": MARKER}).keys() == example.keys()


@pytest.mark.covers("HTTP-7", "CON-3", "CON-4", "CON-5")
@pytest.mark.parametrize(
    ("data", "path"),
    [
        (b"", ""),
        (b"{", ""),
        (b'{"a":1,}', ""),
        (b'{"a":[1,{"b":tru}]}', "/a/1/b"),
        (b'{"a":[1,{"b":1 2}]}', "/a/1/b"),
        (b'{"a":"x\ny"}', "/a"),
        (b'{"a":{"b":NaN}}', "/a/b"),
        (b'{"a":["NaN",-Infinity]}', "/a/1"),
        (b'{"a":{"x/y":1,"x/y":1}}', "/a/x~1y"),
        (b'{"a":{"x":1,"\\u0078":1}}', "/a/x"),
        (b'{"x":{"x":1},"y":{"x":2,"z":[{"q":1,"q":2}]}}', "/y/z/0/q"),
        (b'{"a":["\\ud800"]}', "/a/0"),
        (b'{"a":["ok","\xff"]}', "/a/1"),
        (b'{"a":[' + b"[" * 63 + b"]" * 63 + b"]}", "/a" + "/0" * 63),
        (b"\xef\xbb\xbf{}", ""),
        (b'{"' + b"n" * 9000 + b'":tru}', "/" + "n" * 511),
    ],
)
def test_a_wrong_text_is_refused_at_its_place(data: bytes, path: str) -> None:
    error = refusal(lambda: strict_json.parse(data))
    assert (error.path, bool(error.expected)) == (path, True)


@pytest.mark.covers("HTTP-7")
def test_explaining_a_wrong_text_is_bounded() -> None:
    far = places.MAX_LOOKED_AT
    near = b'{"a":"' + b"x" * (far - 20) + b'","b":tru}'
    assert refusal(lambda: strict_json.parse(near)).path == "/b"
    beyond = b'{"a":"' + b"x" * far + b'","b":tru,"b":1}'
    assert refusal(lambda: strict_json.parse(beyond)).path == ""
    assert refusal(lambda: strict_json.parse(b'{"a":"' + b"x" * far + b'","b":"\xff"}')).path == ""


@pytest.mark.covers("CON-22", "CON-23")
def test_a_number_out_of_bounds_is_named_with_its_place() -> None:
    long = "1" * 35
    assert refusal(lambda: json_text.check(f'{{"a":[1,"{long}",{long}]}}')).path == "/a/2"
    assert refusal(lambda: json_text.exact({"a": {"b~": [1, int(long)]}})).path == "/a/b~0/1"
    assert refusal(lambda: json_text.check('{"a":1e7000}')).path == "/a"
