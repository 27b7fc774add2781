"""From a parsed tree to a record of the contract: every rule of CON-2, CON-6..16 and CON-20 in one place.

A decoder is compiled once per record type from its declaration. The first fault is raised as `KeyLoadError`
with the JSON pointer of the wrong member and what was expected there.
"""

from __future__ import annotations

from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple, cast

from msgspec import NODEFAULT, UNSET

from keyload.codec import scalar_readers
from keyload.codec.declarations import Declared, members, scalar_name, tag
from keyload.codec.examples import example_arguments, skeleton
from keyload.codec.faults import Fault, one_of
from keyload.codec.scalar_readers import Reader, wrong_type
from keyload.codec.text_formats import Texts, checker
from keyload.contract.base import Choice, Member, Record
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.contract.limits import REQUEST_MAX_DEPTH
from keyload.contract.mutation import MutationRecord
from keyload.contract.operation import Operation

__all__ = ["Texts", "decode", "decode_arguments", "decode_request", "example_arguments", "skeleton"]


def decode(
    kind: Any, tree: Any, path: str = "", *, texts: Texts | None = None, strict_integers: bool = False
) -> Any:
    """The value of a record type, or of `bool`, that `tree` stands for.

    `path` is the pointer of `tree` itself. `texts` takes up the canonical form of each JSON text met.
    `strict_integers` refuses integers written as text, as the three gateway tools do. Validation, or the code
    that a member names, for the first fault.
    """
    try:
        return _reader(kind, not strict_integers)(tree, texts)
    except Fault as fault:
        raise fault.error(path) from fault
    except RecursionError as error:
        detail, expected = "The value is nested too deep.", f"at most {REQUEST_MAX_DEPTH} levels"
        raise KeyLoadError(ErrorCode.VALIDATION, detail, path=path, expected=expected) from error


def decode_request(operation: Operation, tree: Any, *, texts: Texts | None = None, path: str = "") -> Any:
    """The request of `operation`; a Validation failure carries the smallest valid request as `example`."""
    try:
        return decode(operation.request, tree, path, texts=texts)
    except KeyLoadError as error:
        if error.code is ErrorCode.VALIDATION:
            error.example = skeleton(operation.request)
        raise


def decode_arguments(
    operation: Operation, tree: Any, *, texts: Texts | None = None
) -> tuple[str | None, Any]:
    """Outer command id and request of an argument envelope (CON-39); None where the operation has none."""
    names = operation.arguments
    try:
        envelope = _envelope(tree, names)
        command_id = _COMMAND_ID(envelope["commandId"], None) if operation.outer_command_id else None
    except Fault as fault:
        error = fault.error("")
        error.example = example_arguments(operation)
        raise error from fault
    if operation.request is None:
        return None, None
    try:
        request = decode(operation.request, envelope["request"], "/request", texts=texts)
    except KeyLoadError as error:
        if error.code is ErrorCode.VALIDATION:
            error.example = example_arguments(operation)
        raise
    return command_id, request


def _envelope(tree: Any, names: tuple[str, ...]) -> dict[str, Any]:
    envelope = _object(tree)
    _refuse_unknown(envelope, names)
    for name in names:
        if name not in envelope:
            raise _at(Fault("A required member is missing.", f"the members {', '.join(names)}"), name)
    return envelope


def _command_id(value: Any, texts: Texts | None) -> Any:
    try:
        return _GUID(value, texts)
    except Fault as fault:
        raise _at(fault, "commandId") from fault


_GUID = scalar_readers.guid(Member(not_empty=True))
_COMMAND_ID: Reader = _command_id

# --- compiled readers --------------------------------------------------------------------------------------


@cache
def _reader(kind: Any, quoted: bool) -> Reader:
    """The reader of a record type or of `bool`."""
    return scalar_readers.boolean() if kind is bool else _record(kind, quoted)


class _Slot(NamedTuple):
    """What the record reader needs of one member, unpacked in its loop."""

    name: str
    attribute: str
    read: Reader
    null: Any  # value of an accepted null, NODEFAULT when null is refused
    required: bool


def _record(record: type[Record], quoted: bool) -> Reader:
    declared = members(record)
    slots = [_slot(member, quoted) for member in declared]
    variant = tag(record)
    names = [member.name for member in declared]
    if variant is not None:
        names.insert(0, variant[0])
    known = frozenset(names)

    def read(value: Any, texts: Texts | None) -> Any:
        if type(value) is not dict:
            raise wrong_type(value, "an object")
        tree = cast(dict[str, Any], value)
        if not known.issuperset(tree):
            _refuse_unknown(tree, names)
        values: dict[str, Any] = {}
        for name, attribute, read_value, null, required in slots:
            item = tree.get(name, _ABSENT)
            if item is _ABSENT:
                if required:
                    raise _at(Fault("A required member is missing.", _needs(declared)), name)
            elif item is None and null is not NODEFAULT:
                values[attribute] = null
            else:
                try:
                    values[attribute] = read_value(item, texts)
                except Fault as fault:
                    fault.steps.append(name)
                    raise
        return record(**values)

    return _with_resource(record, read) if issubclass(record, MutationRecord) else read


_ABSENT = object()


def _slot(member: Declared, quoted: bool) -> _Slot:
    read = scalar_readers.computed() if member.mark.direction == "output" else _member(member, quoted)
    null = (UNSET if member.omitted else None) if member.nullable else NODEFAULT
    return _Slot(member.name, member.attribute, read, null, member.required)


def _member(member: Declared, quoted: bool) -> Reader:
    form = member.mark.format if member.container is None else member.mark.item_format
    item = _value(member, form, quoted)
    match member.container:
        case "array":
            return _array(member.mark, item, member.kind is Any)
        case "map":
            return _map(member.mark, item, member.kind is Any)
        case _:
            return item


def _value(member: Declared, form: str | None, quoted: bool) -> Reader:
    kind = member.kind
    if isinstance(kind, tuple):
        return _union(cast(tuple[type[Record], ...], kind), quoted)
    if isinstance(kind, type) and issubclass(kind, Record):
        return _reader(kind, quoted)
    if isinstance(kind, type) and issubclass(kind, Choice):
        return scalar_readers.choice(kind)
    return scalar_readers.scalar(scalar_name(member), member.mark, form, quoted)


def _array(mark: Member, read_item: Reader, with_nulls: bool) -> Reader:
    check_count = _counter(mark, "items")

    def read(value: Any, texts: Texts | None) -> tuple[Any, ...]:
        if type(value) is not list:
            raise wrong_type(value, "an array")
        tree = cast(list[Any], value)
        check_count(len(tree))
        items: list[Any] = []
        for item in tree:
            try:
                items.append(None if item is None and with_nulls else read_item(item, texts))
            except Fault as fault:
                fault.steps.append(str(len(items)))
                raise
        if mark.unique_items:
            _refuse_repeats(mark, items)
        return tuple(items)

    return read


def _refuse_repeats(mark: Member, items: list[Any]) -> None:
    seen: set[Any] = set()
    for place, item in enumerate(items):
        if item in seen:
            code = mark.error_other or ErrorCode.VALIDATION
            raise _at(Fault("The item occurs twice.", "items that differ from each other", code), str(place))
        seen.add(item)


def _map(mark: Member, read_item: Reader, with_nulls: bool) -> Reader:
    check_count = _counter(mark, "members")
    check_key = None if mark.key_format is None else checker(mark.key_format)

    def read(value: Any, texts: Texts | None) -> dict[str, Any]:
        tree = _object(value)
        check_count(len(tree))
        entries: dict[str, Any] = {}
        for name, item in tree.items():
            try:
                if check_key is not None:
                    check_key(name, None)
                entries[name] = None if item is None and with_nulls else read_item(item, texts)
            except Fault as fault:
                fault.steps.append(name)
                raise
        return entries

    return read


def _counter(mark: Member, noun: str) -> Any:
    least, most = mark.min_items or 0, mark.max_items
    expected = f"at least {least} {noun}" if most is None else f"{least} to {most} {noun}"

    def check(count: int) -> None:
        if count < least:
            raise Fault(f"There are too few {noun}.", expected, mark.error_below or ErrorCode.VALIDATION)
        if most is not None and count > most:
            raise Fault(f"There are too many {noun}.", expected, mark.error_above or ErrorCode.VALIDATION)

    return check


def _union(variants: tuple[type[Record], ...], quoted: bool) -> Reader:
    readers: dict[str, Reader] = {}
    field = "kind"
    for variant in variants:
        named = tag(variant)
        assert named is not None
        field, value = named
        readers[value] = _reader(variant, quoted)

    def read(value: Any, texts: Texts | None) -> Any:
        tree = _object(value)
        kind = tree.get(field, _ABSENT)
        if kind is _ABSENT:
            raise _at(Fault("A required member is missing.", one_of(readers)), field)
        reader = readers.get(kind) if type(kind) is str else None
        if reader is None:
            wrong = kind if type(kind) is str else ""
            raise _at(Fault("The kind is unknown.", one_of(readers, wrong)), field)
        return reader(tree, texts)

    return read


def _with_resource(record: type[MutationRecord], read_record: Reader) -> Reader:
    """Adds CON-16 to the reader of a mutation: `resource` says the same as the member it repeats."""
    source = attrgetter(record.resource_attribute)

    def read(value: Any, texts: Texts | None) -> Any:
        mutation = read_record(value, texts)
        if mutation.resource != source(mutation):
            raise _at(
                Fault("The resource differs from that of the mutation.", "the same, or none"), "resource"
            )
        return mutation

    return read


def _object(value: Any) -> dict[str, Any]:
    if type(value) is not dict:
        raise wrong_type(value, "an object")
    return cast(dict[str, Any], value)


def _refuse_unknown(tree: dict[str, Any], names: list[str] | tuple[str, ...]) -> None:
    for name in tree:
        if name not in names:
            expected = one_of(names, name) if names else "no members"
            raise _at(Fault("The member is unknown.", expected), name)


def _needs(declared: tuple[Declared, ...]) -> str:
    return "the members " + ", ".join(member.name for member in declared if member.required)


def _at(fault: Fault, step: str) -> Fault:
    fault.steps.append(step)
    return fault
