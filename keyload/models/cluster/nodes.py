"""Who belongs to the cluster, and the exchange of one voter for a new node (CLU-19).

The system shard keeps every node with its addresses and key, the list of voters, and the replacement that is
under way. These are steps the server takes itself; how the shards follow, `keyload.worker.replacing` tells.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.contract.tables import (
    ALL_SHARDS,
    NODES,
    REPLACEMENTS,
    UNDER_WAY,
    VOTERS,
    Node,
    Replacement,
    Voters,
)
from keyload.models.catalog.rows import FreshCatalog, delete_row, put_row
from keyload.models.context import refuse
from keyload.models.security.rights import Rights
from keyload.storage.txn import Txn


class WithdrawRequest(Struct, frozen=True, array_like=True):
    """Asks to withdraw the exchange that is under way, on behalf of a principal."""

    principal: str


class ReplaceRequest(Struct, frozen=True, array_like=True):
    """Asks to exchange the voter called `old` for `new`, on behalf of a principal; number 0 lets the server
    choose."""

    principal: str
    old: str
    new: Node


def register(txn: Txn, nodes: list[Node]) -> bool:
    """Write the first voters; False, and nothing written, when there are some already."""
    if FreshCatalog(txn).voters is not None:
        return False
    for node in nodes:
        put_row(txn, NODES, (str(node.number),), node)
    ids = tuple(node.id for node in nodes)
    put_row(txn, VOTERS, ALL_SHARDS, Voters(ids, tuple(node.number for node in nodes)))
    return True


def begin_replacement(txn: Txn, request: ReplaceRequest, instant: int, heard: frozenset[int]) -> bool:
    """Register the new node and the wish to exchange a voter for it; `heard` are the nodes that answer the
    leader of the system shard, itself included.

    False, and nothing written, when just that is under way or done. Errors: PermissionDenied; NotFound for
    an unknown voter; Conflict when another replacement is under way, anything of the new node is in use,
    or no majority is left without the old voter; UnsupportedCapability on a node alone.
    """
    catalog = FreshCatalog(txn)
    _check_principal(catalog, request.principal, instant)
    voters = catalog.voters
    if voters is None:
        refuse(ErrorCode.UNSUPPORTED_CAPABILITY, "There are no registered voters to exchange.")
    nodes = {node.number: node for node in catalog.nodes()}
    under_way = catalog.replacement
    if under_way is not None:
        same = nodes[under_way.old].id == request.old and _same(nodes[under_way.new], request.new)
        if same and not under_way.withdrawn:
            return False
        refuse(ErrorCode.CONFLICT, "Another replacement is under way.")
    present = next((node for node in nodes.values() if node.id == request.old), None)
    if present is None:
        if any(_same(node, request.new) for node in nodes.values()):
            return False
        refuse(ErrorCode.NOT_FOUND, "There is no voter of that name.", "/node")
    new = replace(request.new, number=voters.greatest + 1)
    _check_new(new, request.new.number, list(nodes.values()))
    _check_health(voters, present.number, heard)
    put_row(txn, NODES, (str(new.number),), new)
    put_row(txn, REPLACEMENTS, UNDER_WAY, Replacement(present.number, new.number))
    return True


def withdraw_replacement(txn: Txn, request: WithdrawRequest, instant: int) -> bool:
    """Turn the exchange that is under way round, as when its new node cannot be reached.

    False, and nothing written, when that was done or nothing is under way. Errors: PermissionDenied;
    Conflict once a shard has done without the old voter: then the exchange is carried to its end.
    """
    catalog = FreshCatalog(txn)
    _check_principal(catalog, request.principal, instant)
    under_way = catalog.replacement
    if under_way is None or under_way.withdrawn:
        return False
    if under_way.done:
        refuse(ErrorCode.CONFLICT, "The exchange has gone too far to be withdrawn.")
    put_row(txn, REPLACEMENTS, UNDER_WAY, replace(under_way, withdrawn=True))
    return True


def shard_replaced(txn: Txn, shard: int, withdrawn: bool) -> bool:
    """Note that a data shard has whom it should have; False when that is known, or nothing is under way.

    A report that left before the exchange was withdrawn says nothing any more.
    """
    under_way = FreshCatalog(txn).replacement
    if under_way is None or shard in under_way.done or withdrawn != under_way.withdrawn:
        return False
    put_row(txn, REPLACEMENTS, UNDER_WAY, replace(under_way, done=tuple(sorted({*under_way.done, shard}))))
    return True


def finish_replacement(txn: Txn, data_shards: int) -> bool:
    """Every shard has done it: the new voter takes the place of the old one, and who left is forgotten."""
    catalog = FreshCatalog(txn)
    under_way, voters = catalog.replacement, catalog.voters
    if under_way is None or voters is None or len(under_way.done) < data_shards:
        return False
    if under_way.withdrawn:
        voters = replace(voters, withdrawn=max(voters.withdrawn, under_way.new))
    else:
        new = next(node for node in catalog.nodes() if node.number == under_way.new)
        place = voters.numbers.index(under_way.old)
        ids, numbers = list(voters.ids), list(voters.numbers)
        ids[place], numbers[place] = new.id, new.number
        voters = replace(voters, ids=tuple(ids), numbers=tuple(numbers))
    put_row(txn, VOTERS, ALL_SHARDS, voters)
    delete_row(txn, NODES, (str(under_way.leaving),))
    delete_row(txn, REPLACEMENTS, UNDER_WAY)
    return True


def forget_nodes(txn: Txn) -> None:
    """Remove all nodes, the voters and the exchange that is under way: a restored store belongs to other
    nodes, which its first leader registers from their settings (BKP-14)."""
    for node in FreshCatalog(txn).nodes():
        delete_row(txn, NODES, (str(node.number),))
    delete_row(txn, VOTERS, ALL_SHARDS)
    delete_row(txn, REPLACEMENTS, UNDER_WAY)


def _check_principal(catalog: FreshCatalog, name: str, instant: int) -> None:
    """A node that passed the request on may have known an older catalog."""
    record = catalog.principal(name)
    rights = None if record is None else Rights(record)
    if rights is None or not rights.valid_at(instant):
        raise KeyLoadError(ErrorCode.UNAUTHENTICATED, "There is no valid current identity.")
    rights.require_administrator()


def _same(node: Node, wanted: Node) -> bool:
    return wanted.number in (0, node.number) and replace(wanted, number=node.number) == node


def _check_new(new: Node, wanted: int, nodes: list[Node]) -> None:
    if wanted not in (0, new.number):
        refuse(ErrorCode.CONFLICT, "The new node has a wrong number.", "/with/number", str(new.number))
    for name, path in (("id", "id"), ("origin", "publicEndpoint"), ("public_key", "publicKey")):
        if any(getattr(node, name) == getattr(new, name) for node in nodes):
            refuse(ErrorCode.CONFLICT, "The new node has something that another node has.", f"/with/{path}")
    if any((node.host, node.port) == (new.host, new.port) for node in nodes):
        refuse(ErrorCode.CONFLICT, "The new node has the address of another node.", "/with/peerAddress")


def _check_health(voters: Voters, old: int, heard: frozenset[int]) -> None:
    answering = [number for number in voters.numbers if number != old and number in heard]
    needed = len(voters.numbers) // 2 + 1
    if len(answering) < needed:
        refuse(
            ErrorCode.CONFLICT,
            f"Of the other voters {len(answering)} answer; {needed} must, before one is exchanged.",
        )
