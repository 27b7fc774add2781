"""A running node with a caller of each kind, its two doors, and a look at everything it stores."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import httpx
import msgspec

from harness.cluster import Cluster
from harness.raw_http import invocation, mcp_envelope
from keyload.client import Client
from keyload.contract.catalog import (
    AdminResourcesRequest,
    ConfigureResourceRequest,
    ResourceDefinition,
    ResourceKind,
    SensitiveFieldPolicy,
)
from keyload.contract.cluster import AtomicPartitionPlacementReadRequest, BindAtomicPartitionPlacementRequest
from keyload.contract.commands import CommandRequest
from keyload.contract.documents import (
    DeleteDocument,
    FieldPatch,
    GetDocumentRequest,
    PatchDocument,
    PatchKind,
    PutDocument,
)
from keyload.contract.mutations import Mutation
from keyload.contract.operations import OPERATIONS, Operation
from keyload.contract.security import (
    ApiKeyRecord,
    ConfigureApiKeyRequest,
    ConfigurePrincipalRequest,
    PrincipalRecord,
)
from keyload.contract.shared import EntityRef, PartitionRef, RowAccess
from keyload.models import tags
from keyload.storage.onlooker import Onlooker

from .table import COLLECTION, DATABASE, DOMAIN, FOREIGN, HOMES, OTHER_DATABASE, PRINCIPALS, TENANT

TEXT = '{"name": "n", "ssn": "1"}'
_WORDS = {"PermissionDenied": "denied", "Unauthenticated": "unknown"}
_RECORDS_OF_REFUSALS = (tags.OUTCOME, tags.SHARD_META, tags.OUTCOME_LOG)


def partition_of(tenant: str = TENANT, database: str = DATABASE) -> PartitionRef:
    return PartitionRef(
        tenant_id=tenant, database_id=database, transaction_domain_id=DOMAIN, partition_key="eu"
    )


def key_record(key: str, principal: str, **members: Any) -> ApiKeyRecord:
    verifier = hashlib.sha256(key.encode()).hexdigest()
    return ApiKeyRecord(id=key.split(".")[0], principal_id=principal, verifier=verifier, **members)


def collection(name: str = COLLECTION, **members: Any) -> ResourceDefinition:
    policy = SensitiveFieldPolicy(path="/ssn", classification="pii")
    values = {"field_policies": (policy,)} | members
    return ResourceDefinition(name=name, kind=ResourceKind.COLLECTION, transaction_domain_id=DOMAIN, **values)


class Ground:
    """What the tests stand on. Keys are by caller; `administrator` is the SDK as the administrator."""

    def __init__(self, cluster: Cluster) -> None:
        self.url = cluster.urls[0]
        self.port = cluster.node(1).profile.http_port
        self.directory = cluster.directory / cluster.node(1).profile.id
        self.keys = {"administrator": cluster.key}
        self.http = httpx.Client(base_url=self.url, timeout=30)
        self.administrator = Client(self.url, cluster.key)

    def __enter__(self) -> Self:
        for tenant, database in ((TENANT, DATABASE), (TENANT, OTHER_DATABASE), (FOREIGN, DATABASE)):
            self.administrator.resources_configure(tenant, database, collection())
            home = PutDocument(
                collection=COLLECTION, id="home", json="{}", access=RowAccess(owner_id=None, project_id="p2")
            )
            self.administrator.documents_commit(partition_of(tenant, database), [home])
        for record in PRINCIPALS:
            self.add(record)
        return self

    def __exit__(self, *_: object) -> None:
        self.administrator.close()
        self.http.close()

    def add(self, record: PrincipalRecord) -> None:
        """Store a principal, and a key for it."""
        self.administrator.principals_configure(record)
        self.keys[record.id] = f"{record.id}.{uuid4().hex}"
        self.administrator.credentials_configure(key_record(self.keys[record.id], record.id))

    # -- calls: the outcome in the words of the table

    def http_call(self, caller: str, operation: Operation, request: Any) -> str:
        """Call an operation on its route."""
        headers = {"authorization": f"Bearer {self.keys[caller]}"}
        if operation.outer_command_id:
            headers["x-keyload-command-id"] = str(uuid4())
        query = f"?{operation.http_query}={str(request).lower()}" if operation.http_query else ""
        body = msgspec.json.encode(request) if operation.http_body == "request" else b""
        answer = self.http.request(
            operation.http_method, operation.http_route + query, content=body, headers=headers
        )
        tree = answer.json()
        return word_of(tree, None if answer.status_code == 200 else tree["errorCode"])

    def mcp_call(self, caller: str, operation: Operation, request: Any) -> str:
        """Call an operation through `gateway_tool_invoke`."""
        arguments: dict[str, Any] = {}
        if operation.request is not None:
            arguments["request"] = msgspec.json.decode(msgspec.json.encode(request))
        if operation.outer_command_id:
            arguments["commandId"] = str(uuid4())
        headers, message = mcp_envelope("tools/call", invocation(operation.name, arguments))
        headers["Authorization"] = f"Bearer {self.keys[caller]}"
        answer = self.http.post("/mcp", content=json.dumps(message), headers=headers)
        tree = answer.json()
        if answer.status_code != 200:
            return word_of(None, tree["error"]["data"]["errorCode"])
        content = tree["result"]["structuredContent"]
        return word_of(content.get("result"), content["error"]["errorCode"] if "error" in content else None)

    def reads_at_home(self, caller: str) -> str:
        """A call that the caller may make."""
        reference = EntityRef(
            partition=partition_of(*HOMES.get(caller, (TENANT, DATABASE))), collection=COLLECTION, id="home"
        )
        operation = OPERATIONS["keyload_documents_get"]
        return self.http_call(caller, operation, GetDocumentRequest(reference=reference))

    # -- targets

    def document(self, name: str) -> None:
        """A document that the table speaks of."""
        access = RowAccess(owner_id="somebody", project_id="p1")
        put = PutDocument(collection=COLLECTION, id=name, json=TEXT, access=access)
        self.administrator.documents_commit(partition_of(), [put])

    def state(self) -> dict[tuple[str, bytes], bytes]:
        """Every record of every shard of the running node, as it stores it, and the names of its backups; but
        what a refusal leaves, its stored outcome and the position it took (CON-61).
        """
        backups = sorted(path.name for path in self.directory.glob("backups/*"))
        found = {("backups", name.encode()): b"" for name in backups}
        for directory in sorted(self.directory.glob("worker-*/shard-*")):
            for key, value in records(directory):
                if key[8:9] not in _RECORDS_OF_REFUSALS:
                    found[directory.name, key] = value
        return found


def records(directory: Path) -> list[tuple[bytes, bytes]]:
    """Everything in the state of one shard."""
    onlooker = Onlooker(directory)
    try:
        with onlooker.reader() as reader:
            return list(reader.scan(b"", b"\xff" * 9))
    finally:
        onlooker.close()


def word_of(result: Any, code: str | None) -> str:
    """An outcome in the words of the table."""
    if code is not None:
        return _WORDS.get(code, code)
    if isinstance(result, dict) and result.get("redacted"):
        return "redacted"
    return "null" if result is None else "ok"


# -- the request of each row; the name is that of a target nobody used before


def _commit(mutation: Mutation) -> CommandRequest:
    return CommandRequest(command_id=str(uuid4()), partition=partition_of(), mutations=(mutation,))


def _get(ground: Ground, name: str) -> Any:
    ground.document(name)
    return GetDocumentRequest(reference=EntityRef(partition=partition_of(), collection=COLLECTION, id=name))


def _put(ground: Ground, name: str) -> Any:
    ground.document(name)
    return _commit(
        PutDocument(collection=COLLECTION, id=name, json=TEXT, expected_revision=1, explicit_replacement=True)
    )


def _patch(ground: Ground, name: str) -> Any:
    ground.document(name)
    patch = FieldPatch(path="/ssn", kind=PatchKind.SET, value_json="2")
    return _commit(PatchDocument(collection=COLLECTION, id=name, patches=(patch,), expected_revision=1))


def _delete(ground: Ground, name: str) -> Any:
    ground.document(name)
    return _commit(DeleteDocument(collection=COLLECTION, id=name, expected_revision=1))


def _resource(ground: Ground, name: str) -> Any:
    return ConfigureResourceRequest(tenant_id=TENANT, database_id=DATABASE, definition=collection(name))


def _principal(ground: Ground, name: str) -> Any:
    return ConfigurePrincipalRequest(
        principal=PrincipalRecord(id=name, tenant_id=TENANT, grants=(), field_grants=())
    )


def _key(ground: Ground, name: str) -> Any:
    principal = PrincipalRecord(id=name, tenant_id=TENANT, grants=(), field_grants=())
    ground.administrator.principals_configure(principal)
    return ConfigureApiKeyRequest(api_key=key_record(f"k-{uuid4().hex}.x", name))


def _placement(ground: Ground, name: str) -> Any:
    return AtomicPartitionPlacementReadRequest(version=1, partition=partition_of())


def _binding(ground: Ground, name: str) -> Any:
    place = ground.administrator.admin_partition_placement_read(partition_of())
    return BindAtomicPartitionPlacementRequest(
        version=1,
        expected_revision=place.directory_revision,
        partition=partition_of(),
        physical_shard_id=place.physical_shard_id,
    )


REQUESTS: dict[str, Callable[[Ground, str], Any]] = {
    "keyload_documents_get": _get,
    "keyload_documents_commit putDocument": _put,
    "keyload_documents_commit patchDocument": _patch,
    "keyload_documents_commit deleteDocument": _delete,
    "keyload_resources_configure": _resource,
    "keyload_principals_configure": _principal,
    "keyload_credentials_configure": _key,
    "keyload_admin_backup": lambda ground, name: None,
    "keyload_admin_admission": lambda ground, name: None,
    "keyload_admin_status": lambda ground, name: None,
    "keyload_admin_dispatch": lambda ground, name: False,
    "keyload_admin_resources_list": lambda ground, name: AdminResourcesRequest(
        tenant_id=TENANT, database_id=DATABASE
    ),
    "keyload_admin_partition_placement_read": _placement,
    "keyload_admin_partition_placement_bind": _binding,
}
