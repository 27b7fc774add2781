"""Wrong credentials and capability texts at a real node."""

from __future__ import annotations

import socket
from uuid import uuid4

import pytest
from msgspec.structs import replace

from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.contract.operations import OPERATIONS
from keyload.contract.security import PrincipalRecord, ScopeGrant

from .ground import REQUESTS, Ground, key_record
from .table import TABLE, TENANT

ENDPOINTS = [
    *((operation.http_method, operation.http_route) for operation in OPERATIONS.values()),
    ("POST", "/v1/nothing"),
    ("PUT", "/v1/commands"),
    ("GET", "/metrics"),
    ("GET", "/admin/cluster/replace"),
]
MCP_ENDPOINTS = [("POST", "/mcp"), ("GET", "/mcp"), ("DELETE", "/mcp")]


def wrong_credentials(ground: Ground) -> dict[str, list[str]]:
    """Values of the header `Authorization` by what is wrong with them."""
    right = ground.keys["full"]
    long = f"long.{'x' * 507}"
    keys = {"revoked": "dropped.secret", "expired": "late.secret", "longest": long}
    administrator = ground.administrator
    administrator.credentials_configure(key_record(keys["revoked"], "full", revoked=True))
    administrator.credentials_configure(
        key_record(keys["expired"], "full", expires_at="2020-01-01T00:00:00+00:00")
    )
    administrator.credentials_configure(key_record(long, "full"))
    assert raw_answer(ground, "POST", "/v1/documents/get", [f"bEaReR {long}"]).startswith(b"HTTP/1.1 400 ")
    return {
        "missing": [],
        "empty": [""],
        "scheme alone": ["Bearer"],
        "no key": ["Bearer "],
        "repeated": [f"Bearer {right}"] * 2,
        "other scheme beside it": [f"Bearer {right}", "Basic x"],
        "other scheme": [f"Basic {right}"],
        "no scheme": [right],
        "no space": [f"Bearer{right}"],
        "over 512 bytes": [f"Bearer {long}x"],
        "far too long": [f"Bearer {right}{'x' * 8000}"],
        "not UTF-8": ["Bearer \xff\xfe.secret"],
        "no dot": ["Bearer full"],
        "no id": [f"Bearer .{right}"],
        "no secret": ["Bearer full."],
        "unknown id": [f"Bearer {uuid4().hex}.secret"],
        "wrong secret": [f"Bearer full.{uuid4().hex}"],
        "end cut off": [f"Bearer {right[:-1]}"],
        "other case": [f"Bearer {right.upper()}"],
        "revoked key": [f"Bearer {keys['revoked']}"],
        "expired key": [f"Bearer {keys['expired']}"],
        "revoked principal": [f"Bearer {ground.keys['revoked']}"],
        "expired principal": [f"Bearer {ground.keys['expired']}"],
    }


def raw_answer(ground: Ground, method: str, target: str, credentials: list[str]) -> bytes:
    """Every byte of an answer but its date."""
    lines = [f"{method} {target} HTTP/1.1", "host: localhost", "connection: close", "content-length: 2"]
    lines += [f"authorization: {value}" for value in credentials]
    with socket.create_connection(("127.0.0.1", ground.port), 30) as connection:
        connection.sendall("\r\n".join([*lines, "", "{}"]).encode("latin-1"))
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    return b"\r\n".join(line for line in answer.split(b"\r\n") if not line.lower().startswith(b"date:"))


@pytest.mark.covers("SEC-1", "SEC-2", "SEC-3", "SEC-8", "CON-31", "CON-32", "CON-38", "MCP-3")
def test_all_wrong_credentials_get_one_answer_everywhere(ground: Ground) -> None:
    wrong = wrong_credentials(ground)
    before = ground.state()
    for endpoints in (ENDPOINTS, MCP_ENDPOINTS):
        found = {
            (name, *endpoint): raw_answer(ground, *endpoint, values)
            for endpoint in endpoints
            for name, values in wrong.items()
        }
        expected = found["missing", *endpoints[0]]
        assert expected.startswith(b"HTTP/1.1 401 ")
        assert not {what: answer for what, answer in found.items() if answer != expected}
    assert ground.state() == before
    assert ground.reads_at_home("full") == "ok"


def granted(ground: Ground, capabilities: str) -> str:
    """What the server makes of a capability text."""
    grant = ScopeGrant(database="d", resource="r", capabilities=capabilities)
    record = PrincipalRecord(id=f"p-{uuid4()}", tenant_id=TENANT, grants=(grant,), field_grants=())
    return ground.administrator.principals_configure(record).grants[0].capabilities


_TEXT = """
    DocumentsRead DocumentsWrite Query EventsAppend EventsRead QueuePublish QueueConsume QueueAck QueueRenew
    QueueInspect DeadLettersRead DeadLettersRedrive SubscriptionsManage GraphRead GraphWrite SeriesRead
    SeriesAppend VectorSearch VectorRaw SchemaManage SecurityManage BackupManage BackupRestore Diagnose
    DataExport TopicsPublish TopicsRead SubscriptionsConsume SubscriptionsAck ChangesRead BlobRead BlobWrite
    BlobDelete BlobManage SeriesManage EventsReplay EventsSnapshotsManage SchedulerManage
"""
NAMES = _TEXT.split()
"""The capabilities as SEC-19 lists them."""


@pytest.mark.covers("SEC-19", "SEC-20", "CON-10")
def test_each_capability_is_granted_by_its_name_in_bit_order(ground: Ground) -> None:
    assert len(NAMES) == 38
    assert [granted(ground, name) for name in NAMES] == NAMES
    assert granted(ground, ",".join(reversed(NAMES[1:]))) == ", ".join(NAMES[1:])
    for text, stored in (
        (", ".join(NAMES), "All"),
        ("All", "All"),
        ("None", "None"),
        ("All, Query", "All"),
        ("None,Query", "Query"),
        ("Query ,  DocumentsRead,Query", "DocumentsRead, Query"),
    ):
        assert granted(ground, text) == stored


@pytest.mark.covers("SEC-20", "CON-10")
@pytest.mark.parametrize(
    "text", ["", " ", "query", "Query,", "Query;EventsRead", "Everything", "1", "Query\t"]
)
def test_a_capability_text_that_names_none_is_refused(ground: Ground, text: str) -> None:
    with pytest.raises(KeyLoadError) as caught:
        granted(ground, text)
    assert caught.value.code is ErrorCode.VALIDATION


OPENED_BY = {
    "keyload_documents_get": "DocumentsRead",
    "keyload_documents_commit putDocument": "DocumentsWrite",
    "keyload_documents_commit patchDocument": "DocumentsWrite",
    "keyload_documents_commit deleteDocument": "DocumentsWrite",
    "keyload_resources_configure": "SchemaManage",
    "keyload_principals_configure": "SecurityManage",
    "keyload_credentials_configure": "SecurityManage",
}
"""The one capability that a row of the table needs; rows that are missing need an administrator."""


@pytest.mark.covers("SEC-18", "SEC-19", "CON-92")
def test_each_capability_opens_what_needs_it_and_nothing_else(ground: Ground) -> None:
    record = PrincipalRecord(id="one-right", tenant_id=TENANT, grants=(), field_grants=("*",))
    ground.add(record)
    for name in NAMES:
        ground.administrator.principals_configure(
            replace(record, grants=(ScopeGrant(database="*", resource="*", capabilities=name),))
        )
        for row in TABLE:
            request = REQUESTS[row](ground, f"{name}-{row}")
            outcome = ground.http_call(record.id, OPERATIONS[row.split()[0]], request)
            assert outcome == ("ok" if OPENED_BY.get(row) == name else "denied"), (name, row)


@pytest.mark.covers("SEC-3", "SEC-13", "SEC-14", "SEC-35", "CON-101")
def test_a_principal_that_loses_and_regains_a_right(ground: Ground) -> None:
    record = PrincipalRecord(
        id="comes-and-goes",
        tenant_id=TENANT,
        grants=(ScopeGrant(database="*", resource="*", capabilities="DocumentsRead"),),
        field_grants=("*",),
    )
    ground.add(record)
    assert ground.reads_at_home(record.id) == "ok"
    without = ground.administrator.principals_configure(replace(record, grants=()))
    assert (without.policy_epoch, ground.reads_at_home(record.id)) == (2, "denied")
    revoked = ground.administrator.principals_configure(replace(record, revoked=True))
    assert (revoked.policy_epoch, ground.reads_at_home(record.id)) == (3, "unknown")
    back = ground.administrator.principals_configure(record)
    assert (back.policy_epoch, ground.reads_at_home(record.id)) == (4, "ok")
    key = key_record(ground.keys[record.id], record.id, revoked=True)
    ground.administrator.credentials_configure(key)
    assert ground.reads_at_home(record.id) == "unknown"
