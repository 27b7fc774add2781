"""One worker of a node alone, run in a thread on real files and sockets, with the test as its front."""

from __future__ import annotations

import hashlib
import os
import socket
import threading
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import zmq

from keyload.codec.decoding import decode_request
from keyload.codec.fingerprint import fingerprint
from keyload.codec.placement import FIRST_EPOCH, Place
from keyload.contract.errors import Problem
from keyload.contract.operations import OPERATIONS
from keyload.link import framing
from keyload.link.catalog import Catalog
from keyload.link.launch import Bootstrap, PeerAddress, WorkerLaunch
from keyload.link.messages import (
    Barrier,
    CatalogDelta,
    Command,
    Confirmed,
    Errand,
    Read,
    Ready,
    Refusal,
    Reply,
    WorkerToFront,
)
from keyload.worker.__main__ import build

SHARDS = 3
INCARNATION = "6f1a2b3c-0000-4000-8000-000000000001"
ROOT_KEY = "root.0123456789abcdef0123456789abcdef"
COLLECTION = "notes"
DOMAIN = "main"


def partition(key: str) -> tuple[str, str, str, str]:
    return ("acme", "app", DOMAIN, key)


def partition_tree(key: str) -> dict[str, str]:
    names = ("tenantId", "databaseId", "transactionDomainId", "partitionKey")
    return dict(zip(names, partition(key), strict=True))


def put(key: str, document: str, text: str, **members: Any) -> dict[str, Any]:
    """The request tree of a commit with one putDocument."""
    mutation = {"kind": "putDocument", "collection": COLLECTION, "id": document, "json": text, **members}
    return {"commandId": str(uuid.uuid4()), "partition": partition_tree(key), "mutations": [mutation]}


class WorkerUnderTest:
    """Starts the worker, speaks as its front, and stops it by ending its lifeline.

    `runs_errands` and `returns_errands` let it lose what the worker asks for, or the answer to it.
    `absent_peers` makes it one of three voters whose other two are not there; `peer_secrets` are their keys,
    for a test that speaks as one of them.
    """

    def __init__(
        self, directory: Path, endpoint: str, *, absent_peers: bool = False, **settings: Any
    ) -> None:
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.front = self.context.socket(zmq.DEALER)
        self.front.bind(endpoint)
        self.catalog = Catalog()
        self.ready: Ready | None = None
        self.errands: list[Errand] = []
        self.runs_errands = True
        self.returns_errands = True
        self._relayed: dict[int, int] = {}
        self._answers: dict[int, Reply | Refusal | Confirmed] = {}
        self._next_call = 1
        self._read_end, self._write_end = os.pipe()
        pairs = [zmq.curve_keypair() for _ in range(3)]
        self.peer_secrets = [secret.decode() for _, secret in pairs[1:]]
        self.launch = _launch(directory, endpoint, pairs, absent_peers, settings)
        directory.mkdir(mode=0o700, exist_ok=True)
        self.worker = build(
            self.launch,
            context=self.context,
            step=lambda name: None,
            lifeline=self._read_end,
        )
        self._thread = threading.Thread(target=self.worker.run)
        self._thread.start()

    def stop(self) -> list[WorkerToFront]:
        """End the lifeline; returns what the worker said last."""
        os.close(self._write_end)
        self._thread.join(10)
        assert not self._thread.is_alive(), "the worker goes on without its parent"
        self.worker.close()
        last: list[WorkerToFront] = []
        while self.front.poll(50):
            last.extend(framing.unpack_from_worker(self.front.recv()))
        self.front.close(linger=0)
        self.context.term()
        os.close(self._read_end)
        return last

    def send(self, *messages: Any) -> None:
        self.front.send(framing.pack(messages))

    def pump(self, milliseconds: int = 100) -> None:
        """Take in what the worker has sent within the time."""
        if not self.front.poll(milliseconds):
            return
        for message in framing.unpack_from_worker(self.front.recv()):
            if isinstance(message, CatalogDelta):
                self.catalog.apply(message)
            elif isinstance(message, Ready):
                self.ready = message
            elif isinstance(message, Errand):
                self._run(message)
            elif isinstance(message, Reply | Refusal) and message.call in self._relayed:
                asker = self._relayed.pop(message.call)
                if self.returns_errands:
                    self.send(msgspec.structs.replace(message, call=asker))
            elif isinstance(message, Reply | Refusal | Confirmed):
                self._answers[message.call] = message

    def _run(self, errand: Errand) -> None:
        """Pass a command of the server on, as the front does."""
        self.errands.append(errand)
        if self.runs_errands:
            number = self.number()
            self._relayed[number] = errand.call
            self.send(msgspec.structs.replace(errand.command, call=number))

    def answer(self, call: int, seconds: float = 10.0) -> Reply | Refusal | Confirmed:
        deadline = time.monotonic() + seconds
        while call not in self._answers:
            assert time.monotonic() < deadline, "no answer in time"
            self.pump()
        return self._answers.pop(call)

    def has_answer(self, call: int) -> bool:
        """Whether an answer has been taken in already."""
        return call in self._answers

    def number(self) -> int:
        self._next_call += 1
        return self._next_call

    def wait_ready(self) -> None:
        deadline = time.monotonic() + 10
        while self.ready is None or self.catalog.principal("root") is None:
            assert time.monotonic() < deadline, "the worker did not get ready"
            self.pump()

    def command(self, operation: str, tree: Any, key: str | None, identity: uuid.UUID) -> Command:
        """A command as the front would send it."""
        declared = OPERATIONS[operation]
        request = tree if isinstance(tree, bool) else decode_request(declared, tree)
        scope = None if key is None else partition(key)
        place = Place(0, FIRST_EPOCH) if scope is None else self.catalog.place(scope, SHARDS)
        return Command(
            self.number(),
            place.shard,
            operation,
            "root",
            self.catalog.version,
            identity.bytes,
            fingerprint(operation, scope, request),
            scope,
            msgspec.msgpack.encode(request),
            epoch=place.epoch,
        )

    def commit(self, tree: Mapping[str, Any]) -> Reply | Refusal | Confirmed:
        """Send one commit and wait for its answer."""
        command = self.command(
            "keyload_documents_commit",
            tree,
            tree["partition"]["partitionKey"],
            uuid.UUID(tree["commandId"]),
        )
        self.send(command)
        return self.answer(command.call)

    def configure_collection(self, **members: Any) -> None:
        definition = {
            "name": COLLECTION,
            "kind": "Collection",
            "transactionDomainId": DOMAIN,
            **members,
        }
        tree = {"tenantId": "acme", "databaseId": "app", "definition": definition}
        command = self.command("keyload_resources_configure", tree, None, uuid.uuid4())
        self.send(command)
        answer = self.answer(command.call)
        assert isinstance(answer, Reply), problem(answer)

    def read_document(self, key: str, document: str) -> Reply | Refusal | Confirmed:
        return self.answer(self.send_read(key, document))

    def send_read(self, key: str, document: str) -> int:
        """Send a read of a document; gives the number of the call."""
        reference = {"partition": partition_tree(key), "collection": COLLECTION, "id": document}
        request = decode_request(OPERATIONS["keyload_documents_get"], {"reference": reference})
        scope = partition(key)
        place = self.catalog.place(scope, SHARDS)
        read = Read(
            self.number(),
            place.shard,
            "keyload_documents_get",
            "root",
            self.catalog.version,
            scope,
            msgspec.msgpack.encode(request),
            place.epoch,
        )
        self.send(read)
        return read.call

    def confirm(self) -> Reply | Refusal | Confirmed:
        barrier = Barrier(self.number())
        self.send(barrier)
        return self.answer(barrier.call)


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def problem(answer: Any) -> Problem:
    """The problem of a refusal."""
    assert isinstance(answer, Refusal), answer
    return msgspec.msgpack.decode(answer.payload, type=Problem)


def _launch(
    directory: Path,
    endpoint: str,
    pairs: list[tuple[bytes, bytes]],
    absent_peers: bool,
    settings: dict[str, Any],
) -> WorkerLaunch:
    peers: list[PeerAddress] = []
    if absent_peers:
        peers = [
            PeerAddress(place, f"node{place}", "127.0.0.1", free_port(), public.decode())
            for place, (public, _) in enumerate(pairs, 1)
        ]
    return WorkerLaunch(
        worker=0,
        workers=1,
        shards=SHARDS,
        node_number=1,
        node_id="node1",
        incarnation=settings.pop("incarnation", INCARNATION),
        directory=str(directory),
        endpoint=endpoint,
        guard=b"guard",
        durability="QuorumDurable" if peers else "LocalDurable",
        peers=peers,
        secret_key=pairs[0][1].decode(),
        bootstrap=Bootstrap("root", hashlib.sha256(ROOT_KEY.encode()).hexdigest()),
        **settings,
    )
