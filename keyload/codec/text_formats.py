"""The text formats of the contract as functions that raise a `Fault` for a wrong text (CON-20, CON-22)."""

from __future__ import annotations

import re
from collections.abc import Callable

from keyload.codec import json_text
from keyload.codec.faults import Fault
from keyload.contract.errors import KeyLoadError
from keyload.contract.formats import FORMATS, TextFormat
from keyload.contract.mutations import MUTATIONS

Texts = dict[str, bytes]
"""Canonical form of each JSON text met while one request was decoded, by the text; bounded by the request."""

Check = Callable[[str, Texts | None], object]

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def _is_identifier(text: str) -> bool:
    return _CONTROL.search(text) is None and not text.isspace() and text != ""


def _is_field_pointer(text: str) -> bool:
    return _pattern("fieldPointer")(text) and "*" not in text.split("/")


def _is_query_path(text: str) -> bool:
    return text == "*" or _is_field_pointer(text)


def _is_prefix(text: str) -> bool:
    return _CONTROL.search(text) is None


def _is_filterable(text: str) -> bool:
    rule = MUTATIONS.get(text)
    return rule is not None and rule.filterable


def _is_task(text: str) -> bool:
    return text != "" and not text.isspace()


def _pattern(name: str) -> Callable[[str], bool]:
    """Length in characters and pattern, as in the schema fragment of the format."""
    schema = FORMATS[name].schema
    least, most = schema.get("minLength", 0), schema.get("maxLength")
    pattern = re.compile(
        schema.get("pattern", ".*").removeprefix("^").removesuffix("$"), re.ASCII | re.DOTALL
    )

    def fits(text: str) -> bool:
        return least <= len(text) and (most is None or len(text) <= most) and bool(pattern.fullmatch(text))

    return fits


_RULES: dict[str, Callable[[str], bool]] = {
    "identifier": _is_identifier,
    "fieldPointer": _is_field_pointer,
    "queryPath": _is_query_path,
    "idPrefix": _is_prefix,
    "mutationKind": _is_filterable,
    "gatewayQuery": _is_task,
}


def checker(name: str, error_above: str | None = None, error_other: str | None = None) -> Check:
    """The check of a format. Codes given are those of the member; they come before those of the format."""
    form = FORMATS[name]
    if name in ("jsonObject", "jsonText"):
        return _json_checker(form, name == "jsonObject")
    fits = _RULES.get(name) or _pattern(name)
    wrong, above = error_other or form.error, error_above or error_other or form.error_above
    most = form.max_bytes

    def check(text: str, _: Texts | None) -> None:
        try:
            size = len(text) if text.isascii() else len(text.encode("utf-8"))
        except UnicodeEncodeError as error:
            raise Fault("The text holds a lone surrogate.", form.meaning, wrong) from error
        if most is not None and size > most:
            raise Fault("The text is too long.", form.meaning, above)
        if not fits(text):
            raise Fault("The text does not have the form of this member.", form.meaning, wrong)

    return check


def _json_checker(form: TextFormat, object_only: bool) -> Check:
    """The check of JSON text, which leaves its canonical form behind when asked to."""

    def check(text: str, texts: Texts | None) -> None:
        try:
            tree = json_text.check(text, object_only)
        except KeyLoadError as error:
            expected = error.expected or form.meaning
            raise Fault(error.detail, expected, error.code, error.path) from error
        if texts is not None:
            texts[text] = json_text.canonical(tree)

    return check
