"""Random commands against a shard and against a dict; both must agree after each one."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from keyload.contract.catalog import IndexDefinition
from keyload.models.documents.keys import DOCUMENT, index_prefix
from keyload.models.outbox import ENTRY, document_images, outbox_prefix
from keyload.models.partitions import load_head
from tests.unit.shards import Shard, code_of, collection, principal

from .test_documents import delete, patch, put, remove, set_

IDS = st.sampled_from(["a", "b", "c"])
VALUES = st.sampled_from(["1", "1.0", '"x"', "null", "[1]", '{"d":1}', "true"])
MEMBERS = st.sampled_from(["k", "n"])
NUMBER = 2


class Model:
    """The documents as a dict: id -> (revision, tree, or None once deleted)."""

    def __init__(self) -> None:
        self.documents: dict[str, tuple[int, dict[str, Any] | None]] = {}
        self.changes: list[tuple[str, int]] = []

    def revision(self, document_id: str) -> int:
        return self.documents.get(document_id, (0, None))[0]

    def live(self, document_id: str) -> dict[str, Any] | None:
        return self.documents.get(document_id, (0, None))[1]

    def key(self, tree: dict[str, Any] | None) -> str | None:
        """The unique key of a tree, None when it takes no part."""
        value = None if tree is None else tree.get("k", [])
        if tree is None or isinstance(value, list | dict):
            return None
        return repr(float(value)) if type(value) in (int, float) else repr(value)

    def store(self, document_id: str, tree: dict[str, Any] | None) -> str:
        key = self.key(tree)
        for other, (_, found) in self.documents.items():
            if other != document_id and key is not None and self.key(found) == key:
                return "Conflict"
        self.documents[document_id] = (self.revision(document_id) + 1, tree)
        self.changes.append((document_id, self.revision(document_id)))
        return "ok"


class Documents(RuleBasedStateMachine):
    """Puts, patches and deletes with and without expected revisions; replays; restarts of the executor."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        index = IndexDefinition(name="u", fields=("/k",), unique=True)
        self.shard = Shard(
            self.directory / "shard", resources=[collection(indexes=(index,))], principals=[principal()]
        )
        self.model = Model()
        self.answered: list[Any] = []

    def teardown(self) -> None:
        self.shard.close()
        shutil.rmtree(self.directory)

    def commit(self, mutation: Any, expected: str) -> None:
        command = self.shard.commit_command([mutation])
        answer = self.shard.run(command)[0]
        assert code_of(answer) == expected
        self.answered.append((command, answer))

    @rule(document_id=IDS, value=VALUES, off=st.sampled_from([None, 0, 1]))
    def put(self, document_id: str, value: str, off: int | None) -> None:
        expected = None if off is None else self.model.revision(document_id) + off
        text = f'{{ "k":{value}, "n":0 }}'
        wanted = "RevisionConflict" if off == 1 else self.model.store(document_id, json.loads(text))
        self.commit(put(document_id, text, expected_revision=expected), wanted)

    @rule(
        document_id=IDS, value=VALUES, name=st.sampled_from(["k", "n"]), gone=st.booleans(), off=st.booleans()
    )
    def patch(self, document_id: str, value: str, name: str, gone: bool, off: bool) -> None:
        live = self.model.live(document_id)
        step = remove(f"/{name}") if gone else set_(f"/{name}", value)
        mutation = patch(max(1, self.model.revision(document_id) + off), step, document_id=document_id)
        if live is None:
            self.commit(mutation, "NotFound")
        elif off:
            self.commit(mutation, "RevisionConflict")
        else:
            tree = {key: old for key, old in live.items() if key != name}
            if not gone:
                tree[name] = json.loads(value)
            self.commit(mutation, self.model.store(document_id, tree))

    @rule(document_id=IDS, off=st.booleans())
    def delete(self, document_id: str, off: bool) -> None:
        mutation = delete(document_id, expected_revision=self.model.revision(document_id) + off or None)
        if self.model.live(document_id) is None:
            self.commit(mutation, "NotFound")
        else:
            self.commit(mutation, "RevisionConflict" if off else self.model.store(document_id, None))

    @rule(data=st.data())
    def replay(self, data: st.DataObject) -> None:
        if self.answered:
            command, answer = data.draw(st.sampled_from(self.answered))
            assert self.shard.run(command) == [answer]

    @rule()
    def restart(self) -> None:
        self.shard.new_executor()

    @invariant()
    def documents_agree(self) -> None:
        for document_id in ("a", "b", "c"):
            found, live = self.shard.get(document_id), self.model.live(document_id)
            assert (found is None) == (live is None)
            if found is not None:
                assert found.revision == self.model.revision(document_id)
                assert json.loads(found.json) == live

    @invariant()
    def index_agrees(self) -> None:
        prefix = index_prefix(NUMBER, "orders", "u")
        with self.shard.store.reader() as reader:
            found = sorted(value.decode() for _, value in reader.scan(prefix, prefix + b"\xff"))
        documents = self.model.documents.items()
        assert found == sorted(name for name, (_, tree) in documents if self.model.key(tree) is not None)

    @invariant()
    def outbox_agrees(self) -> None:
        prefix = outbox_prefix(NUMBER)
        with self.shard.store.reader() as reader:
            rows = list(reader.scan(prefix, prefix + b"\xff"))
            head = load_head(reader, NUMBER)
        changed = []
        images: dict[str, Any] = {}
        for key, value in rows:
            entry = ENTRY.decode(value)
            before, after = document_images(entry)
            assert int.from_bytes(key[len(prefix) :], "big") == len(changed) + 1
            assert before == images.get(entry.receipt[2])
            images[entry.receipt[2]] = after
            changed.append((entry.receipt[2], entry.receipt[3]))
        assert changed == self.model.changes
        assert (head.outbox_tail, head.records, head.first_available) == (len(rows), len(rows), 1)
        assert head.bytes == sum(len(value) for _, value in rows)
        for name, image in images.items():
            assert msgspec.msgpack.decode(DOCUMENT.encode(image))[0] == self.model.revision(name)


TestDocuments = pytest.mark.covers(
    "DOC-1", "DOC-2", "DOC-3", "DOC-12", "DOC-13", "DOC-23", "DOC-24", "CHG-14", "CMD-18"
)(Documents.TestCase)
TestDocuments.settings = settings(
    derandomize=True, deadline=None, max_examples=25, stateful_step_count=30, database=None
)
