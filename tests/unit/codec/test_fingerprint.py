"""Fingerprints: what counts and what does not (CMD-17, CON-59)."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from keyload.codec import decoding, identity, strict_json
from keyload.codec.fingerprint import fingerprint
from keyload.contract.operations import OPERATIONS, partition_of

COMMIT = OPERATIONS["keyload_documents_commit"]
BODY = {
    "commandId": "7d9b4c3e-0000-4000-8000-00000000000a",
    "partition": {"tenantId": "t", "databaseId": "d", "transactionDomainId": "x", "partitionKey": "k"},
    "mutations": [
        {"kind": "putDocument", "collection": "c", "id": "1", "json": '{"a":1,"b":[true,null]}'},
        {
            "kind": "patchDocument",
            "collection": "c",
            "id": "2",
            "expectedRevision": 5,
            "patches": [{"path": "/a", "kind": "Set"}],
        },
    ],
}


def mark(body: Any, name: str = COMMIT.name) -> bytes:
    """Fingerprint of a command body, computed with and without the texts that decoding left behind."""
    texts: decoding.Texts = {}
    request = decoding.decode_request(COMMIT, body, texts=texts)
    partition = partition_of(COMMIT, request)
    assert partition is not None
    key = identity.partition_key(partition)
    found = fingerprint(name, key, request, texts)
    assert found == fingerprint(name, key, request)
    assert len(found) == 32
    return found


def changed(path: list[Any], value: Any) -> dict[str, Any]:
    """The body with one value changed."""
    body = copy.deepcopy(BODY)
    place: Any = body
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return body


@pytest.mark.covers("CMD-17", "CON-59", "CON-25")
@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["mutations", 0, "json"], ' { "b" : [true, null], "\\u0061" : 1.0 } '),
        (["mutations", 0, "resource"], "c"),
        (["mutations", 0, "expectedRevision"], None),
        (["mutations", 0, "explicitReplacement"], False),
        (["mutations", 1, "expectedRevision"], "5"),
        (["mutations", 1, "patches", 0, "valueJson"], None),
        (["partition", "atomicPartitionId"], "anything"),
        (["ownershipEpoch"], 1),
        (["commandId"], "7D9B4C3E-0000-4000-8000-00000000000A"),
    ],
)
def test_spelling_does_not_count(path: list[Any], value: Any) -> None:
    assert mark(changed(path, value)) == mark(BODY)


@pytest.mark.covers("CMD-17")
def test_member_order_does_not_count() -> None:
    backwards = dict(reversed(list(BODY.items())))
    backwards["mutations"] = [dict(reversed(list(one.items()))) for one in BODY["mutations"]]
    assert mark(backwards) == mark(BODY)


@pytest.mark.covers("CMD-17", "CON-59", "CON-60")
@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["mutations", 0, "json"], '{"a":1,"b":[null,true]}'),
        (["mutations", 0, "json"], '{"a":"1","b":[true,null]}'),
        (["mutations", 0, "id"], "3"),
        (["mutations", 0, "expectedRevision"], 0),
        (["mutations", 0, "access"], {}),
        (["mutations", 1, "patches", 0, "valueJson"], "null"),
        (["mutations", 1, "patches", 0, "kind"], "Remove"),
        (["mutations"], BODY["mutations"][::-1]),
        (["partition", "partitionKey"], "k2"),
        (["ownershipEpoch"], 2),
    ],
)
def test_meaning_counts(path: list[Any], value: Any) -> None:
    assert mark(changed(path, value)) != mark(BODY)


@pytest.mark.covers("CMD-17")
def test_operation_and_scope_count() -> None:
    request = decoding.decode_request(COMMIT, BODY)
    marks = {
        fingerprint(COMMIT.name, ("t", "d", "x", "k"), request),
        fingerprint("another", ("t", "d", "x", "k"), request),
        fingerprint(COMMIT.name, None, request),
        fingerprint("keyload_admin_dispatch", None, True),
        fingerprint("keyload_admin_dispatch", None, False),
    }
    assert len(marks) == 5


@pytest.mark.covers("CMD-17", "CON-59")
def test_a_definition_counts_with_its_defaults() -> None:
    operation = OPERATIONS["keyload_resources_configure"]
    plain = copy.deepcopy(decoding.skeleton(operation.request))
    spelled = copy.deepcopy(plain)
    spelled["definition"] |= {"queuePolicy": {"maxAttempts": "5"}, "indexes": [], "blobPolicy": None}
    other = copy.deepcopy(plain)
    other["definition"]["blobPolicy"] = {}
    first, same, third = (
        fingerprint(operation.name, None, decoding.decode_request(operation, tree))
        for tree in (plain, spelled, other)
    )
    assert first == same
    assert first != third


def test_the_fingerprint_is_kept_for_good() -> None:
    """Outcomes are stored by it, so a release must not change it."""
    body = b'{"commandId":"7d9b4c3e-0000-4000-8000-00000000000a","request":true}'
    command_id, request = decoding.decode_arguments(
        OPERATIONS["keyload_admin_dispatch"], strict_json.parse(body)
    )
    assert command_id == "7d9b4c3e-0000-4000-8000-00000000000a"
    assert fingerprint("keyload_admin_dispatch", None, request).hex() == (
        "1ab5c57cb6f7b915f0431b8a5c28c08878c82b3e0358256f2596efdf6235c129"
    )
    assert mark(BODY).hex() == "c64e8838fbfb0b7795c185485025e446f32e0c8c2db90fec732289ee629789d0"
