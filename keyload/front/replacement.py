"""`/admin/cluster/replace`: POST begins the exchange of a voter, DELETE withdraws it, GET tells how far it is
(CLU-19).

It is for `keyload cluster replace` and no operation. What has begun goes on by itself; to ask for the same
again changes nothing.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta
from zmq.utils import z85

from keyload.codec import strict_json
from keyload.contract.errors import ErrorCode, KeyLoadError, Problem
from keyload.contract.tables import Node
from keyload.front.calls import Caller
from keyload.front.workers import WorkerHub
from keyload.link.addresses import read_address, read_origin
from keyload.link.messages import INTERNAL, Refusal

PATH = "/admin/cluster/replace"
REPLACE = "internal.nodes.replace"
WITHDRAW = "internal.nodes.withdraw"
_MAX_DEPTH = 4
_KEY_CHARACTERS = 40

Text = Annotated[str, Meta(min_length=1, max_length=4096)]
_problems = msgspec.msgpack.Decoder(Problem)


class NewNode(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The new node as an entry of the setting `peers`."""

    id: Annotated[str, Meta(min_length=1, max_length=256)]
    public_endpoint: Text
    peer_address: Text
    public_key: Annotated[str, Meta(min_length=_KEY_CHARACTERS, max_length=_KEY_CHARACTERS)]
    number: Annotated[int, Meta(ge=1, le=65_535)] | None = None


class Wish(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"new": "with"}):
    """Which voter to exchange for which node."""

    node: Annotated[str, Meta(min_length=1, max_length=256)]
    new: NewNode


class Pair(msgspec.Struct, frozen=True, rename={"new": "with"}):
    """The ids of the voter that goes and of the node that comes."""

    node: str
    new: str


class Progress(msgspec.Struct, frozen=True, rename="camel"):
    """How far an exchange is: `replacing` is null when none is under way; of `shards` shards `shards_done`
    have it behind them."""

    replacing: Pair | None
    shards: int
    shards_done: int
    voters: tuple[str, ...]


class ReplacementDoor:
    """Answers the requests of administrators; `shards` is the number of data shards."""

    def __init__(self, hub: WorkerHub, shards: int) -> None:
        self._hub = hub
        self._shards = shards

    async def answer(self, method: str, caller: Caller, body: bytes) -> bytes:
        """The progress as JSON, after what was asked for has begun. Errors: PermissionDenied, Validation,
        NotFound for other methods, and those of `begin_replacement` and `withdraw_replacement` in
        `keyload.models.cluster.nodes`.
        """
        if method not in ("GET", "POST", "DELETE"):
            raise KeyLoadError(ErrorCode.NOT_FOUND, "There is nothing at this path.")
        caller.require_administrator()
        if method == "POST":
            await self._order(caller, REPLACE, (caller.principal.id, *read_wish(body)))
        elif method == "DELETE":
            await self._order(caller, WITHDRAW, (caller.principal.id,))
        return msgspec.json.encode(self._progress())

    async def _order(self, caller: Caller, operation: str, content: object) -> None:
        answer = await self._hub.command(
            shard=0,
            operation=operation,
            principal=INTERNAL,
            catalog_version=caller.catalog_version,
            command_id=bytes(16),
            fingerprint=bytes(32),
            partition=None,
            payload=msgspec.msgpack.encode(content),
            control=True,
        )
        if isinstance(answer, Refusal):
            raise KeyLoadError.from_problem(_problems.decode(answer.payload))
        await self._hub.confirm()

    def _progress(self) -> Progress:
        """As the catalog has it, which was confirmed after the request arrived."""
        catalog = self._hub.catalog
        voters, under_way = catalog.voters, catalog.replacement
        ids = () if voters is None else voters.ids
        if under_way is None:
            return Progress(None, self._shards + 1, self._shards + 1, ids)
        nodes = catalog.nodes
        pair = Pair(nodes[under_way.leaving].id, nodes[under_way.coming].id)
        return Progress(pair, self._shards + 1, len(under_way.done), ids)


def read_wish(body: bytes) -> tuple[str, Node]:
    """Id of the voter and the new node from the body of a request; Validation for anything else."""
    try:
        wish = msgspec.convert(strict_json.parse(body, _MAX_DEPTH), Wish)
        read_origin(wish.new.public_endpoint)
        address = read_address(wish.new.peer_address)
        z85.decode(wish.new.public_key)
    except (ValueError, KeyError):  # KeyError is how z85 says that a character is none of its own
        detail = "The request does not name a voter and the entry of its successor."
        expected = '{"node": id, "with": {"id", "publicEndpoint", "peerAddress", "publicKey"}}'
        raise KeyLoadError(ErrorCode.VALIDATION, detail, path="", expected=expected) from None
    if not wish.new.id.strip() or not wish.new.id.isprintable():
        raise KeyLoadError(
            ErrorCode.VALIDATION,
            "The id of the new node is none.",
            path="/with/id",
            expected="a printable name that is not blank",
        )
    number = wish.new.number or 0
    return wish.node, Node(
        number, wish.new.id, wish.new.public_endpoint, address.host, address.port, wish.new.public_key
    )
