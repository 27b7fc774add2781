"""What the cluster as a whole has committed, read from the log itself and compared with a plain model.

Every committed entry is applied to a reference state and its outcomes are executed once more by
`documents.Documents`; whatever a node applies, answers or shows is held against these two.
"""

from __future__ import annotations

import zlib
from typing import Any

import msgspec

from harness.simulator.agenda import Agenda
from harness.simulator.checker import Checker, Violation
from harness.simulator.nodes.documents import Documents
from harness.simulator.nodes.orders import COLLECTION, Order
from harness.simulator.nodes.state import Rows
from keyload.consensus import Entry, Membership
from keyload.contract.documents import DocumentResult
from keyload.contract.errors import Problem
from keyload.contract.shared import CommitReceipt
from keyload.link.messages import PartitionKey
from keyload.models import tags
from keyload.models.documents.keys import DOCUMENT, document_key, index_prefix
from keyload.models.outbox import outbox_prefix
from keyload.models.partitions import FIRST_NUMBER, load_head, load_meta, partition_number, space
from keyload.models.receipts import guid_text
from keyload.storage.keys import unpack_writes
from keyload.worker.outcomes import OUTCOME, Outcome

_FIRST = space(FIRST_NUMBER)
_receipt = msgspec.json.Decoder(CommitReceipt)
_document = msgspec.json.Decoder(DocumentResult | None)
_problem = msgspec.msgpack.Decoder(Problem)


class History(Checker):
    """The promises of consensus, and those of the store above it."""

    def __init__(self, agenda: Agenda, membership: Membership) -> None:
        super().__init__(membership)
        self._agenda = agenda
        self.reference = Rows({}, 0)
        self.digests = [0]  # of the reference after each index
        self.documents: dict[PartitionKey, Documents] = {}
        self.orders: dict[bytes, Order] = {}
        self.outcomes: dict[bytes, Outcome] = {}
        self.indexes: dict[bytes, int] = {}  # command id -> index of the entry that holds its outcome

    # -- what is committed

    def committed_now(self, entry: Entry) -> None:
        """Apply the entry to the reference and execute its commands once more."""
        self._agenda.note(entry.index, entry.term, zlib.crc32(entry.data))
        if entry.data and not entry.membership:
            self._execute(entry)
        self.digests.append(self.reference.digest)

    def _execute(self, entry: Entry) -> None:
        before = load_meta(self.reference)
        writes = unpack_writes(entry.data)
        self.reference.take(writes)
        after = load_meta(self.reference)
        if after.instant < before.instant or after.position < before.position:
            raise Violation(f"the logged instant or position goes back at {entry.index}")
        found: list[tuple[Outcome, bytes]] = []
        for key, value in writes:
            if key[8:9] == tags.OUTCOME and key[:8] >= _FIRST and value is not None:
                found.append((OUTCOME.decode(value[:-4]), key[-16:]))
        for outcome, identity in sorted(found, key=lambda item: item[0].position):
            self._one_command(entry.index, outcome, identity)

    def _one_command(self, index: int, outcome: Outcome, identity: bytes) -> None:
        order = self.orders.get(identity)
        name = guid_text(identity)
        if order is None:
            raise Violation(f"entry {index} holds a command nobody sent: {name}")
        if identity in self.outcomes:
            raise Violation(f"{name} took effect at {self.indexes[identity]} and again at {index}")
        if order.refuted:
            raise Violation(f"{name} took effect at {index} after OwnershipLost to its only call")
        if index <= order.floor:
            raise Violation(f"{name} took effect at {index}, clients knew {order.floor} before they sent it")
        self.outcomes[identity] = outcome
        self.indexes[identity] = index
        partition = order.command.partition
        assert partition is not None
        documents = self.documents.setdefault(partition, Documents())
        expected = documents.execute(index, order.mutations)
        told = (
            outcome.problem[0] if outcome.problem is not None else [tuple(r) for r in outcome.receipts or ()]
        )
        if told != expected:
            raise Violation(f"{name} at {index} gave {told}, the model says {expected}")
        if outcome.problem is None:
            self._compare(partition, documents, [receipt[2] for receipt in outcome.receipts or ()])

    def _compare(self, partition: PartitionKey, documents: Documents, names: list[str]) -> None:
        """Documents just changed stand in the reference as the model has them; later commands of the same
        entry may have changed them again, then the comparison is theirs."""
        number = partition_number(self.reference, partition)
        assert number is not None
        for name in names:
            stored = self.reference.get(document_key(number, COLLECTION, name))
            assert stored is not None
            image = DOCUMENT.decode(stored)
            revision, content = documents.images[name]
            if image.revision == revision and (
                image.deleted != (content is None)
                or (content is not None and msgspec.json.decode(image.json) != content)
            ):
                raise Violation(f"document {name} is stored as {image}, the model says {content}")

    # -- what a node shows

    def holds(self, node: int, index: int, digest: int) -> None:
        """A node's state after `index` is that of the reference."""
        if index >= len(self.digests) or self.digests[index] != digest:
            raise Violation(f"node {node} reached another state at {index}")

    def answered(self, order: Order, refused: bool, payload: bytes) -> str:
        """A definite answer of a command, or one that says nothing; returns the code, "ok" for success."""
        code = _problem.decode(payload).error_code if refused else "ok"
        outcome = self.outcomes.get(order.identity)
        if refused and (outcome is None or outcome.problem is None or outcome.problem[0] != code):
            return code
        name = guid_text(order.identity)
        if outcome is None:
            raise Violation(f"{name} is acknowledged and not committed")
        if order.answer is not None and order.answer != (refused, payload):
            raise Violation(f"{name} is answered {payload!r}, first it was {order.answer[1]!r}")
        order.answer = (refused, payload)
        if not refused:
            self._receipt_is_true(order, outcome, payload)
        order.definite = True
        self.floor = max(self.floor, self.indexes[order.identity])
        return code

    def _receipt_is_true(self, order: Order, outcome: Outcome, payload: bytes) -> None:
        receipt = _receipt.decode(payload)
        told = [(each.kind, each.resource, each.id, each.revision) for each in receipt.mutations]
        stored = [tuple(each) for each in outcome.receipts or ()]
        facts = (receipt.command_id, receipt.token.position, told)
        if facts != (guid_text(order.identity), outcome.position, stored):
            raise Violation(f"the receipt {facts} differs from the stored outcome at {outcome.position}")

    def shown(self, node: int, cut: int, floor: int, partition: PartitionKey, name: str, text: bytes) -> int:
        """A read that began when clients knew `floor` was answered from the cut `cut`; returns the
        revision."""
        if cut < floor:
            raise Violation(f"stale read on node {node}: it shows {cut}, clients knew {floor}")
        documents = self.documents.get(partition)
        revision, content = (0, None) if documents is None else documents.at(cut, name)
        result = _document.decode(text)
        shown: Any = None if result is None else (result.revision, msgspec.json.decode(result.json))
        if shown != (None if content is None else (revision, content)):
            raise Violation(f"node {node} shows {shown} for {name} at {cut}, the model {revision, content}")
        self.floor = max(self.floor, cut)
        return revision

    # -- at the end

    def complete(self) -> None:
        """Documents, index entries, outbox, outcomes and position all tell the same story (STO-9)."""
        for partition, documents in self.documents.items():
            number = partition_number(self.reference, partition)
            assert number is not None
            live = {name: image for name, image in documents.images.items() if image[1] is not None}
            for index, member in (("mail", "mail"), ("number", "n")):
                prefix = index_prefix(number, COLLECTION, index)
                entries = sorted(value.decode() for _, value in self.reference.scan(prefix, prefix + b"\xff"))
                wanted = sorted(name for name, (_, content) in live.items() if member in (content or {}))
                if entries != wanted:
                    raise Violation(f"index {index} holds {entries}, the documents say {wanted}")
            prefix = outbox_prefix(number)
            head = load_head(self.reference, number)
            kept = sum(1 for _ in self.reference.scan(prefix, prefix + b"\xff" * 9))
            if (head.outbox_tail, head.records) != (documents.changes, kept):
                raise Violation(
                    f"the outbox ends at {head.outbox_tail}, {documents.changes} changes were made"
                )
        for order in self.orders.values():
            if order.definite and order.identity not in self.outcomes:
                raise Violation(f"the acknowledged {guid_text(order.identity)} is lost")
