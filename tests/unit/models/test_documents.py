"""Documents: revisions, tombstones, literal text, patches, rows, fields (documents.md, security.md)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from keyload.contract.catalog import DocumentAuthority, IndexDefinition, ResourceKind, SensitiveFieldPolicy
from keyload.contract.documents import DeleteDocument, FieldPatch, PatchDocument, PatchKind, PutDocument
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.contract.shared import RowAccess
from keyload.models.documents.keys import COLLECTION, CollectionState, collection_key
from tests.unit.shards import Shard, collection, principal

from .conftest import OpenShard

ANN = principal()


def put(document_id: str = "a", text: str = "{}", name: str = "orders", **more: Any) -> PutDocument:
    return PutDocument(collection=name, id=document_id, json=text, **more)


def patch(revision: int, *steps: FieldPatch, document_id: str = "a", name: str = "orders") -> PatchDocument:
    return PatchDocument(collection=name, id=document_id, patches=steps, expected_revision=revision)


def set_(path: str, value: str | None) -> FieldPatch:
    return FieldPatch(path=path, kind=PatchKind.SET, value_json=value)


def remove(path: str) -> FieldPatch:
    return FieldPatch(path=path, kind=PatchKind.REMOVE)


def delete(document_id: str = "a", name: str = "orders", **more: Any) -> DeleteDocument:
    return DeleteDocument(collection=name, id=document_id, **more)


def refused(shard: Shard, *mutations: Any, **options: Any) -> str:
    with pytest.raises(KeyLoadError) as caught:
        shard.commit(*mutations, **options)
    return str(caught.value.code)


@pytest.fixture
def shard(open_shard: OpenShard) -> Shard:
    return open_shard(resources=[collection()], principals=[ANN])


def revision(shard: Shard, *mutations: Any, **options: Any) -> int:
    return shard.commit(*mutations, **options).mutations[-1].revision


@pytest.mark.covers("DOC-1", "DOC-2", "DOC-3", "DOC-13", "CON-74", "CON-75", "CON-76", "CON-78")
def test_revisions_rise_by_one_through_delete_and_creation(shard: Shard) -> None:
    assert revision(shard, put(expected_revision=0)) == 1
    assert refused(shard, put(expected_revision=0)) == ErrorCode.REVISION_CONFLICT
    assert revision(shard, put(expected_revision=1)) == 2
    assert revision(shard, patch(2, set_("/a", "1"))) == 3
    assert refused(shard, delete(expected_revision=2)) == ErrorCode.REVISION_CONFLICT
    assert revision(shard, delete(expected_revision=3)) == 4
    assert shard.get("a") is None
    assert refused(shard, delete()) == ErrorCode.NOT_FOUND
    assert refused(shard, patch(4, set_("/a", "1"))) == ErrorCode.NOT_FOUND
    assert refused(shard, patch(9, set_("/a", "1"), document_id="never")) == ErrorCode.NOT_FOUND
    assert refused(shard, delete("never")) == ErrorCode.NOT_FOUND
    assert refused(shard, put(expected_revision=0)) == ErrorCode.REVISION_CONFLICT
    assert refused(shard, put(expected_revision=3)) == ErrorCode.REVISION_CONFLICT
    assert revision(shard, put(expected_revision=4)) == 5
    assert revision(shard, delete()) == 6
    assert revision(shard, put()) == 7


@pytest.mark.covers("DOC-4", "CON-77")
def test_one_of_two_writers_wins(shard: Shard) -> None:
    shard.commit(put())
    answers = shard.run(
        *(shard.commit_command([put(text=t, expected_revision=1)]) for t in ('{"x":1}', "{}"))
    )
    assert [answer.refused for answer in answers if answer] == [False, True]
    assert shard.get("a").json == '{"x":1}'


@pytest.mark.covers("DOC-7", "CON-24")
def test_put_text_is_literal(shard: Shard) -> None:
    text = '{ "b" : 1.00,\n "a":"\\u0041\\/", "c": [1e2, -0.0] }'
    shard.commit(put(text=text))
    found = shard.get("a")
    assert (found.json, found.redacted, found.redacted_fields, found.revision) == (text, False, (), 1)


@pytest.mark.covers("DOC-11", "DOC-12")
def test_patches_apply_in_order_on_exact_json(shard: Shard) -> None:
    shard.commit(put(text='{"a":{"b":1.10},"n":123456789012345678901234567890.1234}'))
    shard.commit(
        patch(
            1,
            set_("/a/c", "[1,2]"),
            set_("/a/c", '{"d":5.0}'),
            set_("/a/c/e~1f", None),
            remove("/a/b"),
            remove("/a/b"),
            set_("/*x", "true"),
        )
    )
    assert json.loads(shard.get("a").json, parse_float=str) == {
        "a": {"c": {"d": 5, "e/f": None}},
        "n": "123456789012345678901234567890.1234",
        "*x": True,
    }


@pytest.mark.covers("DOC-12")
def test_a_patch_without_change_makes_a_revision(shard: Shard) -> None:
    shard.commit(put(text='{"a":1}'))
    assert revision(shard, patch(1, set_("/a", "1"))) == 2
    assert revision(shard, patch(2, remove("/zz"))) == 3


@pytest.mark.covers("DOC-11")
@pytest.mark.parametrize(
    ("step", "code"),
    [
        (set_("/x/y", "1"), ErrorCode.VALIDATION),
        (set_("/text/y", "1"), ErrorCode.VALIDATION),
        (set_("/list/0/y", "1"), ErrorCode.VALIDATION),
        (remove("/nothing/y"), ErrorCode.VALIDATION),
        (set_("/a/*", "1"), ErrorCode.VALIDATION),
        (set_("", "1"), ErrorCode.VALIDATION),
        (set_("/list/0", "1"), ErrorCode.UNSUPPORTED_CAPABILITY),
        (remove("/list/0"), ErrorCode.UNSUPPORTED_CAPABILITY),
    ],
)
def test_patch_paths_need_objects(shard: Shard, step: FieldPatch, code: ErrorCode) -> None:
    shard.commit(put(text='{"a":{},"text":"t","list":[{"y":0}],"nothing":null}'))
    assert refused(shard, patch(1, step)) == code
    assert shard.get("a").revision == 1


@pytest.mark.covers("DOC-12", "DOC-5")
def test_a_patched_document_keeps_the_limits(shard: Shard) -> None:
    def nested(levels: int) -> str:
        return '{"a":' * (levels - 1) + "{}" + "}" * (levels - 1)

    shard.commit(put(text='{"x":{}}'))
    assert revision(shard, patch(1, set_("/x/y", nested(30)))) == 2
    assert refused(shard, patch(2, set_("/x/y", nested(31)))) == ErrorCode.VALIDATION
    half = json.dumps("h" * (524_288 - 10))
    shard.commit(put("big", '{"a":' + half + "}"))
    assert revision(shard, patch(1, set_("/b", half), document_id="big")) == 2
    assert (
        refused(shard, patch(2, set_("/c", '"123456789"'), document_id="big")) == ErrorCode.RESOURCE_EXHAUSTED
    )


@pytest.mark.covers("DOC-14", "CON-104")
def test_event_stream_authority_refuses_documents(open_shard: OpenShard) -> None:
    definition = collection(authority=DocumentAuthority.EVENT_STREAM)
    shard = open_shard(resources=[definition], principals=[ANN])
    for mutation in (put(), patch(1, remove("/a")), delete()):
        assert refused(shard, mutation) == ErrorCode.PERMISSION_DENIED


@pytest.mark.covers("CMD-5", "CON-51", "SEC-18")
def test_resource_must_exist_be_a_collection_and_in_the_domain(open_shard: OpenShard) -> None:
    shard = open_shard(
        resources=[
            collection("queue", kind=ResourceKind.WORK_QUEUE),
            collection("other", transaction_domain_id="stock"),
            collection("orders"),
        ],
        principals=[ANN, principal("bob", "DocumentsRead"), principal("eve", resource="orders")],
    )
    assert refused(shard, put(name="none")) == ErrorCode.NOT_FOUND
    assert refused(shard, put(name="queue")) == ErrorCode.VALIDATION
    assert refused(shard, put(name="other")) == ErrorCode.VALIDATION
    assert refused(shard, put(), put(name="other")) == ErrorCode.VALIDATION
    assert shard.get("a") is None
    for name in ("none", "queue", "other", "orders"):
        assert refused(shard, put(name=name), by="bob") == ErrorCode.PERMISSION_DENIED
    assert refused(shard, put(name="none"), by="eve") == ErrorCode.PERMISSION_DENIED
    elsewhere = ("other-tenant", "shop", "sales", "eu")
    assert refused(shard, put(), partition=elsewhere) == ErrorCode.PERMISSION_DENIED


@pytest.mark.covers("CMD-9", "CON-70")
def test_later_mutations_see_earlier_ones_and_the_first_failure_undoes_all(shard: Shard) -> None:
    receipt = shard.commit(put(text='{"a":1}'), patch(1, set_("/b", "2")), delete(expected_revision=2))
    assert [(item.kind, item.id, item.revision) for item in receipt.mutations] == [
        ("putDocument", "a", 1),
        ("patchDocument", "a", 2),
        ("deleteDocument", "a", 3),
    ]
    assert refused(shard, put("b"), put("c"), delete("d")) == ErrorCode.NOT_FOUND
    assert shard.get("b") is None
    assert shard.get("c") is None


@pytest.mark.covers("CMD-1")
def test_partitions_differ_in_every_part(shard: Shard) -> None:
    shard.feed(resources=[collection()], database="shop2")
    shard.commit(put())
    assert shard.get("a", partition=("acme", "shop", "sales", "us")) is None
    assert shard.get("a", partition=("acme", "shop2", "sales", "eu")) is None
    assert revision(shard, put(expected_revision=0), partition=("acme", "shop2", "sales", "eu")) == 1


OWNER = principal("own", "All", owner_id="own", projects=("p1", "p2"), restrict_rows=True)


@pytest.mark.covers("DOC-15", "SEC-23", "SEC-25", "CON-95", "CON-52")
def test_writes_need_the_old_and_the_new_row_scope(open_shard: OpenShard) -> None:
    shard = open_shard(resources=[collection()], principals=[ANN, OWNER])
    mine, project = RowAccess(owner_id="own"), RowAccess(project_id="p2")
    foreign = RowAccess(owner_id="ann", project_id="p9")
    assert refused(shard, put(), by="own") == ErrorCode.PERMISSION_DENIED
    assert refused(shard, put(access=foreign), by="own") == ErrorCode.PERMISSION_DENIED
    assert revision(shard, put(access=mine), by="own") == 1
    assert revision(shard, put(), by="own") == 2
    assert revision(shard, put(access=project), by="own") == 3
    assert refused(shard, put(access=foreign), by="own") == ErrorCode.PERMISSION_DENIED
    assert revision(shard, put(access=foreign)) == 4
    for mutation in (put(access=mine), patch(4, set_("/a", "1")), patch(9, set_("/a", "1")), delete()):
        assert refused(shard, mutation, by="own") == ErrorCode.PERMISSION_DENIED
    assert revision(shard, delete()) == 5
    assert refused(shard, put(access=mine), by="own") == ErrorCode.PERMISSION_DENIED
    assert revision(shard, put(access=mine)) == 6
    assert revision(shard, delete(), by="own") == 7


@pytest.mark.covers("DOC-18", "SEC-24", "CON-105")
def test_missing_deleted_and_hidden_read_alike(open_shard: OpenShard) -> None:
    nobody = principal("nobody", restrict_rows=True)
    shard = open_shard(resources=[collection()], principals=[ANN, OWNER, nobody])
    shard.commit(put("gone"), delete("gone"), put("free"), put("theirs", access=RowAccess(owner_id="own")))
    assert shard.get("theirs", by="own").revision == 1
    for document_id in ("gone", "free", "missing"):
        assert shard.get(document_id, by="own") is None
    for document_id in ("free", "theirs"):
        assert shard.get(document_id, by="nobody") is None
        assert shard.get(document_id) is not None
    assert shard.get("a", partition=("acme", "shop", "sales", "unknown")) is None
    with pytest.raises(KeyLoadError) as caught:
        shard.get("a", name="none")
    assert caught.value.code == ErrorCode.NOT_FOUND
    shard.feed(principals=[principal("writer", "DocumentsWrite")])
    with pytest.raises(KeyLoadError) as caught:
        shard.get("a", name="none", by="writer")
    assert caught.value.code == ErrorCode.PERMISSION_DENIED


def policy(path: str, **more: Any) -> SensitiveFieldPolicy:
    return SensitiveFieldPolicy(path=path, classification="secret", **more)


@pytest.fixture
def guarded(open_shard: OpenShard) -> Shard:
    definition = collection(
        field_policies=(policy("/ssn"), policy("/people/*/age"), policy("/tags/*"), policy("/deep/x~1y"))
    )
    return open_shard(
        resources=[definition],
        principals=[
            ANN,
            principal("reader", field_grants=("pii.read",)),
            principal("writer", field_grants=("pii.write",)),
            principal("both", field_grants=("pii.write", "pii.read")),
            principal("forced", field_grants=("pii.write", "document.replaceSensitive")),
            principal("star", field_grants=("*",)),
            principal("boss", "None", cluster_administrator=True),
        ],
    )


SECRET = '{"ssn":1,"people":[{"age":3,"n":1},{"n":2}],"tags":["x","y"],"deep":{"x/y":null,"z":0}}'


@pytest.mark.covers("DOC-19", "SEC-27", "CON-96", "DOC-7", "SEC-21")
def test_reads_withhold_protected_fields(guarded: Shard) -> None:
    guarded.commit(put(text=SECRET), by="star")
    found = guarded.get("a")
    assert json.loads(found.json) == {
        "people": [{"n": 1}, {"n": 2}],
        "tags": [None, None],
        "deep": {"z": 0},
    }
    assert found.redacted
    assert found.redacted_fields == ("/deep/x~1y", "/people/0/age", "/ssn", "/tags/0", "/tags/1")
    for name in ("reader", "star", "boss"):
        whole = guarded.get("a", by=name)
        assert (whole.json, whole.redacted, whole.redacted_fields) == (SECRET, False, ())
    guarded.commit(put("plain", '{ "n":1}'))
    assert guarded.get("plain").json == '{ "n":1}'


@pytest.mark.covers("DOC-17", "SEC-30", "CON-98")
def test_writing_protected_fields_needs_the_write_grant(guarded: Shard) -> None:
    for text in ('{"ssn":1}', '{"ssn":null}', '{"people":[{"age":1}]}', '{"tags":[1]}', '{"deep":{"x/y":1}}'):
        assert refused(guarded, put(text=text)) == ErrorCode.PERMISSION_DENIED
        assert revision(guarded, put("ok", text=text), by="both") > 0
    assert revision(guarded, put(text='{"people":[{}],"tags":[],"deep":{"x":1}}')) == 1
    for step in (
        set_("/ssn", "1"),
        remove("/ssn"),
        set_("/ssn/inner", "1"),
        set_("/people", "[]"),
        remove("/deep"),
        set_("/tags", "[]"),
        set_("/deep/x~1y", "1"),
    ):
        assert refused(guarded, patch(1, step)) in (ErrorCode.PERMISSION_DENIED, ErrorCode.VALIDATION)
    assert refused(guarded, patch(1, set_("/people", "[]"))) == ErrorCode.PERMISSION_DENIED
    assert revision(guarded, patch(1, set_("/deep/x", "2"))) == 2
    assert revision(guarded, patch(2, set_("/ssn", "2")), by="writer") == 3
    assert refused(guarded, put(text="{}")) == ErrorCode.PERMISSION_DENIED
    assert revision(guarded, delete()) == 4


@pytest.mark.covers("DOC-16", "CON-99")
def test_replacing_unseen_values_needs_consent_and_grant(guarded: Shard) -> None:
    guarded.commit(put(text=SECRET), by="star")
    assert refused(guarded, put(), by="writer") == ErrorCode.PERMISSION_DENIED
    assert refused(guarded, put(explicit_replacement=True), by="writer") == ErrorCode.PERMISSION_DENIED
    assert refused(guarded, put(), by="forced") == ErrorCode.PERMISSION_DENIED
    assert revision(guarded, put(explicit_replacement=True), by="forced") == 2
    guarded.commit(put(text=SECRET), by="star")
    assert revision(guarded, put(), by="both") == 4
    guarded.commit(put(text=SECRET), delete(), by="star")
    assert revision(guarded, put(), by="ann") == 7


def state(shard: Shard) -> CollectionState:
    with shard.store.reader() as reader:
        stored = reader.get(collection_key(2, "orders"))
    assert stored is not None
    return COLLECTION.decode(stored)


@pytest.mark.covers("DOC-15")
def test_changed_access_raises_the_row_epoch_and_every_change_the_position(shard: Shard) -> None:
    mine, other = RowAccess(owner_id="o"), RowAccess(owner_id="o", project_id="p")
    for mutation, epoch in (
        (put(access=mine), 0),
        (put(), 0),
        (put(access=mine), 0),
        (put(access=other), 1),
        (patch(4, set_("/a", "1")), 1),
        (delete(), 1),
        (put(access=mine), 2),
        (put("b", access=other), 2),
    ):
        receipt = shard.commit(mutation)
        assert state(shard) == CollectionState(epoch, receipt.token.position)
    last = state(shard)
    refused(shard, put(expected_revision=1))
    assert state(shard) == last


@pytest.mark.covers("DOC-19", "SEC-27")
def test_inside_something_withheld_nothing_more_is_listed(open_shard: OpenShard) -> None:
    policies = (policy("/a/b"), policy("/a"), policy("/l/*"), policy("/l/0/x"), policy("/l/1/x"))
    shard = open_shard(
        resources=[collection(field_policies=policies)],
        principals=[ANN, principal("star", field_grants=("*",))],
    )
    shard.commit(put(text='{"a":{"b":1},"l":[{"x":1},null]}'), by="star")
    found = shard.get("a")
    assert (json.loads(found.json), found.redacted_fields) == ({"l": [None, None]}, ("/a", "/l/0", "/l/1"))


@pytest.mark.covers("DOC-17", "SEC-18", "SEC-30")
def test_a_unique_index_tells_nothing_of_a_field_the_caller_may_not_write(open_shard: OpenShard) -> None:
    shard = open_shard(
        resources=[
            collection(
                field_policies=(policy("/ssn"),),
                indexes=(IndexDefinition(name="one", fields=("/ssn",), unique=True),),
            )
        ],
        principals=[ANN, principal("boss", field_grants=("*",))],
    )
    shard.commit(put("theirs", '{"ssn":"1"}'), by="boss")
    shard.commit(put("mine", "{}"))
    for guess in ("1", "2"):
        text = f'"{guess}"'
        assert refused(shard, put("new", f'{{"ssn":{text}}}')) == ErrorCode.PERMISSION_DENIED
        assert refused(shard, patch(1, set_("/ssn", text), document_id="mine")) == ErrorCode.PERMISSION_DENIED
    assert refused(shard, put("new", '{"ssn":"1"}'), by="boss") == ErrorCode.CONFLICT
