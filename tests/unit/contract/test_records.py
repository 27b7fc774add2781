"""What records do by themselves: the tag and the resource of mutations, where a request says who and where."""

from __future__ import annotations

import msgspec
import pytest

from keyload.contract.commands import CommandRequest
from keyload.contract.documents import DeleteDocument, GetDocumentRequest, PutDocument
from keyload.contract.errors import ErrorCode, KeyLoadError, Problem
from keyload.contract.mutations import Mutation
from keyload.contract.operations import OPERATIONS, partition_of, write_identity_of
from keyload.contract.shared import EntityRef, PartitionRef

PARTITION = PartitionRef(tenant_id="t", database_id="d", transaction_domain_id="x", partition_key="k")
COMMIT = OPERATIONS["keyload_documents_commit"]


@pytest.mark.covers("CON-15", "CON-16", "CMD-11")
def test_a_mutation_is_written_with_kind_and_resource_first() -> None:
    written = msgspec.json.encode(DeleteDocument(collection="c", id="i"))
    assert written == (
        b'{"kind":"deleteDocument","resource":"c","collection":"c","id":"i","expectedRevision":null}'
    )


def test_a_mutation_survives_messagepack() -> None:
    put = PutDocument(collection="c", id="i", json="{}", expected_revision=3)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(put), type=Mutation) == put


@pytest.mark.covers("CMD-14", "CMD-15")
def test_identity_and_partition_of_a_request() -> None:
    command = CommandRequest(command_id="id", partition=PARTITION, mutations=())
    assert partition_of(COMMIT, command) is PARTITION
    assert write_identity_of(COMMIT, command, None) == "id"
    read = GetDocumentRequest(reference=EntityRef(partition=PARTITION, collection="c", id="i"))
    assert partition_of(OPERATIONS["keyload_documents_get"], read) is PARTITION
    assert write_identity_of(OPERATIONS["keyload_documents_get"], read, None) is None
    dispatch = OPERATIONS["keyload_admin_dispatch"]
    assert partition_of(dispatch, True) is None
    assert write_identity_of(dispatch, True, "outer") == "outer"


@pytest.mark.covers("CON-34", "HTTP-16")
def test_a_failure_survives_its_problem() -> None:
    failure = KeyLoadError(ErrorCode.NOT_FOUND, "Nothing is there.", path="/a", expected="something")
    problem = msgspec.json.decode(msgspec.json.encode(failure.problem), type=Problem)
    assert (problem.status, problem.title, problem.retry) == (404, "NotFound", "never")
    again = KeyLoadError.from_problem(problem)
    assert (again.code, again.detail, again.path, again.expected) == (
        failure.code,
        failure.detail,
        failure.path,
        failure.expected,
    )
