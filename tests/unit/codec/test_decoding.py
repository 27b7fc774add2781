"""Decoding of requests: what is accepted, what is refused, and how a refusal names place and expectation."""

from __future__ import annotations

import copy
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyload.codec import decoding, strict_json
from keyload.contract.commands import CommandRequest
from keyload.contract.documents import DeleteDocument, GetDocumentRequest, PatchDocument, PutDocument
from keyload.contract.errors import ErrorCode
from keyload.contract.gateway import GatewayInvokeArguments, GatewaySearchArguments, ToolSuccess
from keyload.contract.operations import OPERATIONS
from keyload.contract.security import PrincipalRecord
from keyload.contract.shared import PartitionRef
from tests.unit.codec.support import bounded, refusal, refused, texts, trees

COMMIT = OPERATIONS["keyload_documents_commit"]
GUID = "7d9b4c3e-0000-4000-8000-00000000000a"
PARTITION = {"tenantId": "acme", "databaseId": "main", "transactionDomainId": "d", "partitionKey": "k"}
PUT = {"kind": "putDocument", "collection": "c", "id": "i", "json": "{}"}


def command(**changes: Any) -> dict[str, Any]:
    """A valid command with these members changed."""
    return {"commandId": GUID, "partition": dict(PARTITION), "mutations": [dict(PUT)]} | changes


def decoded(tree: Any) -> CommandRequest:
    return decoding.decode_request(COMMIT, tree)


@pytest.mark.covers("CON-6", "CON-16", "CMD-11")
def test_defaults_and_the_resource_are_filled_in() -> None:
    put = decoded(command()).mutations[0]
    assert put == PutDocument(resource="c", collection="c", id="i", json="{}")
    assert put.resource == "c"
    assert decoded(command()).ownership_epoch == 1


@pytest.mark.covers("CON-15", "HTTP-11")
def test_the_kind_of_a_mutation_may_stand_anywhere() -> None:
    steps = [{"path": "/a", "kind": "Set", "valueJson": "1"}, {"kind": "Remove", "path": "/b"}]
    patch = {"patches": steps, "id": "i", "collection": "c", "expectedRevision": "3", "kind": "patchDocument"}
    delete = {
        "collection": "c",
        "resource": "c",
        "kind": "deleteDocument",
        "id": "i",
        "expectedRevision": None,
    }
    found = decoded(command(mutations=[patch, delete])).mutations
    assert isinstance(found[0], PatchDocument)
    assert found[0].expected_revision == 3
    assert found[1] == DeleteDocument(collection="c", id="i")


@pytest.mark.covers("CMD-2", "CON-59")
@pytest.mark.parametrize("value", [None, "", "f" * 64, "anything"])
def test_a_computed_member_is_ignored_on_input(value: Any) -> None:
    tree = command(partition=PARTITION | {"atomicPartitionId": value})
    assert decoded(tree) == decoded(command())
    wrong = command(partition=PARTITION | {"atomicPartitionId": 1})
    assert refusal(lambda: decoded(wrong)).path == "/partition/atomicPartitionId"


@pytest.mark.covers("CON-2", "CON-54", "HTTP-8", "HTTP-11")
@pytest.mark.parametrize(
    ("tree", "path", "words"),
    [
        ([], "", "an object"),
        (command(partitoin=1), "/partitoin", "partition, or another"),
        (command(Partition=1), "/Partition", "partition"),
        ({"a/b~c": 1}, "/a~1b~0c", "one of"),
        (
            {name: value for name, value in command().items() if name != "mutations"},
            "/mutations",
            "mutations",
        ),
        (command(partition=None), "/partition", "an object"),
        (command(ownershipEpoch=None), "/ownershipEpoch", "a whole number from 1"),
        (command(mutations={}), "/mutations", "an array"),
        (command(mutations=[None]), "/mutations/0", "an object"),
        (command(mutations=[]), "/mutations", "1 to 256 items"),
        (command(mutations=[PUT, {"kind": "putdocument"}]), "/mutations/1/kind", "putDocument, or another"),
        (command(mutations=[{"collection": "c"}]), "/mutations/0/kind", "one of putDocument"),
        (command(mutations=[{"kind": ["putDocument"]}]), "/mutations/0/kind", "one of putDocument"),
        (command(mutations=[PUT | {"resource": "d"}]), "/mutations/0/resource", "the same"),
        (command(mutations=[PUT | {"resource": ""}]), "/mutations/0/resource", "1..256"),
        (command(mutations=[PUT | {"resource": None}]), "/mutations/0/resource", "a text"),
        (
            command(mutations=[PUT | {"explicitReplacement": 1}]),
            "/mutations/0/explicitReplacement",
            "true or false",
        ),
        (command(mutations=[PUT | {"access": {"ownerId": ""}}]), "/mutations/0/access/ownerId", "1..256"),
        (command(mutations=[PUT | {"json": "[]"}]), "/mutations/0/json", "object"),
        (command(mutations=[PUT | {"json": '{"a":1,"a":2}'}]), "/mutations/0/json/a", "unique"),
        (command(mutations=[PUT | {"json": {}}]), "/mutations/0/json", "a text"),
        (command(commandId="x"), "/commandId", "guid"),
        (command(commandId="00000000-0000-0000-0000-000000000000"), "/commandId", "other than zero"),
        (command(commandId=GUID.replace("-", "")), "/commandId", "guid"),
    ],
)
def test_a_wrong_request_names_place_and_expectation(tree: Any, path: str, words: str) -> None:
    failure = refusal(lambda: decoded(tree))
    assert (failure.path, words in str(failure.expected)) == (path, True)


@pytest.mark.covers("CMD-7", "CON-53", "TST-5")
def test_too_many_mutations_or_patches_exhaust_a_resource() -> None:
    assert len(decoded(command(mutations=[PUT] * 256)).mutations) == 256
    refusal(lambda: decoded(command(mutations=[PUT] * 257)), ErrorCode.RESOURCE_EXHAUSTED)
    patch = {"kind": "patchDocument", "collection": "c", "id": "i", "expectedRevision": 1}
    step = {"path": "/a", "kind": "Remove"}
    decoded(command(mutations=[patch | {"patches": [step] * 256}]))
    failure = refusal(
        lambda: decoded(command(mutations=[patch | {"patches": [step] * 257}])), ErrorCode.RESOURCE_EXHAUSTED
    )
    assert failure.path == "/mutations/0/patches"
    assert failure.example is msgspec.UNSET
    refusal(lambda: decoded(command(mutations=[patch | {"patches": []}])))


@pytest.mark.covers("DOC-5", "CON-22", "TST-5")
def test_a_json_text_above_its_bound_exhausts_a_resource() -> None:
    text = '{"a":"' + "x" * (1_048_576 - 8) + '"}'
    decoded(command(mutations=[PUT | {"json": text}]))
    longer = command(mutations=[PUT | {"json": text + " "}])
    assert refusal(lambda: decoded(longer), ErrorCode.RESOURCE_EXHAUSTED).path == "/mutations/0/json"


@pytest.mark.covers("CON-39")
@pytest.mark.parametrize("name", OPERATIONS)
def test_the_example_of_a_refusal_is_itself_accepted(name: str) -> None:
    operation = OPERATIONS[name]
    failure = refusal(lambda: decoding.decode_arguments(operation, {"surprise": 1}))
    assert failure.path == "/surprise"
    command_id, request = decoding.decode_arguments(operation, failure.example)
    assert (command_id is not None) is operation.outer_command_id
    assert (request is None) is (operation.request is None)
    if operation.request is not None:
        wrong = decoding.example_arguments(operation) | {"request": 7}
        nested = refusal(lambda: decoding.decode_arguments(operation, wrong))
        assert (nested.path, nested.example) == ("/request", decoding.example_arguments(operation))


@pytest.mark.covers("CON-29", "CON-39", "CON-56")
@pytest.mark.parametrize(
    ("envelope", "path"),
    [
        ({"request": True}, "/commandId"),
        ({"commandId": GUID}, "/request"),
        ({"commandId": "0" * 8 + GUID[8:-1] + "g", "request": True}, "/commandId"),
        ({"commandId": "00000000-0000-0000-0000-000000000000", "request": True}, "/commandId"),
        ({"commandId": GUID, "request": "true"}, "/request"),
        ({"commandId": GUID, "request": True, "role": "admin"}, "/role"),
        (None, ""),
    ],
)
def test_a_wrong_envelope_is_refused(envelope: Any, path: str) -> None:
    operation = OPERATIONS["keyload_admin_dispatch"]
    assert refusal(lambda: decoding.decode_arguments(operation, envelope)).path == path
    assert decoding.decode_arguments(operation, {"commandId": GUID.upper(), "request": False}) == (
        GUID,
        False,
    )


@pytest.mark.covers("CON-7", "CON-44")
def test_gateway_arguments_take_numbers_only() -> None:
    kind = GatewaySearchArguments
    assert decoding.decode(kind, {"query": "q", "maxResults": "4"}).max_results == 4
    assert decoding.decode(kind, {"query": "q", "maxResults": 4}, strict_integers=True).max_results == 4
    refusal(lambda: decoding.decode(kind, {"query": "q", "maxResults": "4"}, strict_integers=True))
    for query in ("", "  ", "x" * 2049):
        refusal(lambda query=query: decoding.decode(kind, {"query": query}))
    assert decoding.decode(kind, {"query": "x" * 2048}).max_results == 3


@pytest.mark.covers("CON-40")
def test_arguments_of_an_invocation_are_any_two_members() -> None:
    tree = {"toolId": "t", "arguments": {"commandId": None, "request": [Decimal("1.0")]}}
    found = decoding.decode(GatewayInvokeArguments, tree, strict_integers=True).arguments
    assert str(found) == str(tree["arguments"])  # spelling included: the operation's own types judge it
    assert decoding.decode(GatewayInvokeArguments, {"toolId": "t"}).arguments == {}
    tree["arguments"]["third"] = 1
    assert refusal(lambda: decoding.decode(GatewayInvokeArguments, tree)).path == "/arguments"


@pytest.mark.covers("CON-10")
def test_capabilities_become_their_canonical_text() -> None:
    grant = {"database": "*", "resource": "*", "capabilities": "Query,DocumentsRead"}
    tree = {"id": "p", "tenantId": "t", "grants": [grant], "fieldGrants": []}
    assert decoding.decode(PrincipalRecord, tree).grants[0].capabilities == "DocumentsRead, Query"
    grant["capabilities"] = "DocumentRead"
    failure = refusal(lambda: decoding.decode(PrincipalRecord, tree))
    assert failure.path == "/grants/0/capabilities"
    assert "DocumentsRead, or another" in str(failure.expected)


@pytest.mark.covers("CON-9", "HTTP-10")
@pytest.mark.parametrize("name", ["collection", "COLLECTION", "0", 0, None, True, "Table"])
def test_an_enum_is_accepted_by_its_exact_name_only(name: Any) -> None:
    operation = OPERATIONS["keyload_resources_configure"]
    tree = copy.deepcopy(decoding.skeleton(operation.request))
    decoding.decode_request(operation, tree)
    tree["definition"]["kind"] = name
    assert refusal(lambda: decoding.decode_request(operation, tree)).path == "/definition/kind"


@pytest.mark.covers("CON-8", "CON-17")
def test_a_member_omitted_when_null_is_unset() -> None:
    operation = OPERATIONS["keyload_resources_configure"]
    tree = copy.deepcopy(decoding.skeleton(operation.request)) | {"expectedSchemaVersion": None}
    request = decoding.decode_request(operation, tree)
    assert request.expected_schema_version is msgspec.UNSET
    assert b"expectedSchemaVersion" not in msgspec.json.encode(request)
    assert (
        decoding.decode_request(operation, tree | {"expectedSchemaVersion": 2}).expected_schema_version == 2
    )


# --- nothing but refusals comes out of anything -------------------------------------------------------------

numbers = st.integers() | st.decimals() | st.sampled_from([Decimal("1E+400"), Decimal("1E+999999"), 10**4000])
names = st.sampled_from(
    ["request", "commandId", "partition", "mutations", "kind", "json", "definition", "id"]
)
leaves = st.none() | st.booleans() | numbers | texts | st.sampled_from(["putDocument", GUID, "\ud800", "{}"])
wild = trees(leaves) | st.dictionaries(names, trees(leaves), max_size=5)


@pytest.mark.covers("CON-2", "CON-48")
@bounded
@given(st.sampled_from(list(OPERATIONS.values())), wild)
def test_any_tree_is_decoded_or_refused(operation: Any, tree: Any) -> None:
    refused(lambda: decoding.decode_arguments(operation, tree))
    if operation.request is not None:
        refused(lambda: decoding.decode_request(operation, tree, texts={}))


def _places(tree: Any) -> list[tuple[Any, Any]]:
    """Every container and key of a tree."""
    found: list[tuple[Any, Any]] = []
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in pairs:
        found += [(tree, key), *_places(value)]
    return found


@pytest.mark.covers("CON-2", "CON-48")
@bounded
@given(st.sampled_from(list(OPERATIONS.values())), leaves | wild, st.integers(0, 50))
def test_a_valid_request_with_one_wild_value_is_decoded_or_refused(
    operation: Any, value: Any, place: int
) -> None:
    arguments = copy.deepcopy(decoding.example_arguments(operation))
    places = _places(arguments)
    if places:
        container, key = places[place % len(places)]
        container[key] = value
    refused(lambda: decoding.decode_arguments(operation, arguments, texts={}))


@pytest.mark.covers("CON-5")
def test_a_tree_deeper_than_python_recurses_is_refused() -> None:
    tree: Any = 1
    for _ in range(100_000):
        tree = [tree]
    refusal(lambda: decoding.decode(ToolSuccess, {"result": tree, "requestId": None}))


@pytest.mark.covers("CON-11", "CON-12")
def test_a_request_read_from_bytes_and_written_again_is_read_the_same() -> None:
    body = (
        b'{"reference":{"partition":{"tenantId":"\xc3\xa9","databaseId":"d","transactionDomainId":"x",'
        b'"partitionKey":"k"},"collection":"c","id":"i"}}'
    )
    first = decoding.decode(GetDocumentRequest, strict_json.parse(body))
    again = decoding.decode(GetDocumentRequest, strict_json.parse(msgspec.json.encode(first)))
    assert first == again
    assert isinstance(first.reference.partition, PartitionRef)
