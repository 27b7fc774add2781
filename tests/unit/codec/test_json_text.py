"""JSON text members: bounds, exact numbers, canonical text and equality, against a slow model in decimals."""

from __future__ import annotations

import json
from decimal import Decimal, localcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyload.codec import json_text
from keyload.contract.errors import ErrorCode
from tests.unit.codec.support import bounded, refusal, texts, trees

digit_texts = st.from_regex(r"[0-9]{1,40}", fullmatch=True)
number_texts = st.from_regex(r"-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,5})?", fullmatch=True)


class Number(str):
    """A number kept as it is spelled."""


def spelled(tree: Any) -> str:
    """JSON text of a tree whose numbers are `Number`."""
    match tree:
        case Number():
            return str(tree)
        case dict():
            return "{" + ", ".join(f"{json.dumps(k)} :{spelled(v)}" for k, v in tree.items()) + "}"
        case list():
            return "[ " + ",".join(map(spelled, tree)) + "]"
        case _:
            return json.dumps(tree)


def model_number(text: str) -> tuple[int, str, int] | None:
    """Sign, digits without surplus zeros and exponent of the last digit; None when out of bounds."""
    with localcontext() as context:
        context.prec, context.Emax, context.Emin = 10_000, 999_999, -999_999
        sign, digits, exponent = Decimal(text).as_tuple()
    assert isinstance(exponent, int)
    plain = "".join(map(str, digits)).lstrip("0")
    if not plain:
        return (0, "", 0)
    stripped = plain.rstrip("0")
    scientific = exponent + len(plain) - 1
    if len(stripped) > 34 or not -6144 <= scientific <= 6144:
        return None
    return (sign, stripped, exponent + len(plain) - len(stripped))


def model(tree: Any) -> Any:
    """A value that is equal exactly when the JSON value is; None inside for a number out of bounds."""
    match tree:
        case Number():
            return ("number", model_number(tree))
        case dict():
            return ("object", frozenset((name, model(value)) for name, value in tree.items()))
        case list():
            return ("array", tuple(map(model, tree)))
        case _:
            return (type(tree).__name__, tree)


small_numbers = st.sampled_from(
    ["0", "-0", "0.0", "1", "1.0", "1e0", "10e-1", "-1", "100", "1E2", "1e40", "1e-9"]
)
documents = trees(st.none() | st.booleans() | small_numbers.map(Number) | texts)


@pytest.mark.covers("DOC-6", "CON-23")
@bounded
@given(number_texts)
def test_a_number_is_taken_exactly_or_refused(text: str) -> None:
    expected = model_number(text)
    if expected is None:
        refusal(lambda: json_text.check(text))
        return
    found = json_text.check(text)
    assert Decimal(found) == Decimal(text) or expected == (0, "", 0) == model_number(str(found))
    canonical = json_text.canonical(found).decode()
    assert model_number(canonical) == expected
    assert json_text.canonical(json_text.check(canonical)).decode() == canonical


@pytest.mark.covers("DOC-8", "CON-25", "CON-27")
@bounded
@given(documents, documents)
def test_canonical_text_is_equal_exactly_for_equal_values(first: Any, second: Any) -> None:
    one, two = json_text.check(spelled(first)), json_text.check(spelled(second))
    assert json_text.equal(one, two) is (model(first) == model(second))
    assert (json_text.canonical(one) == json_text.canonical(two)) is (model(first) == model(second))


@pytest.mark.covers("DOC-8", "TST-8")
@bounded
@given(documents)
def test_canonical_text_is_stable_and_the_same_in_both_forms(document: Any) -> None:
    tree = json_text.check(spelled(document))
    canonical = json_text.fast_canonical(tree)
    assert canonical == json_text.reference_canonical(tree)
    assert json_text.canonical(json_text.check(canonical.decode())) == canonical


@pytest.mark.covers("DOC-8", "CON-27")
@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        (' { "b" : 1 , "a" : [ 1.0, -0, 1e0 ] } ', '{"a":[1,0,1],"b":1}'),
        (r'"\u0041\/\b\t\n\f\r\u001F\u007f\"\\"', '"A/\\b\\t\\n\\f\\r\\u001f\x7f\\"\\\\"'),
        (r'{"\ud83d\ude00":1,"\uffff":2,"a":3}', '{"a":3,"\uffff":2,"\U0001f600":1}'),
        ("1e33", "1" + "0" * 33),
        ("1e34", "1e34"),
        ("1.5e34", "1.5e34"),
        ("0.000001", "0.000001"),
        ("1.5e-7", "1.5e-7"),
        ("-12.50e-1", "-1.25"),
        ("1" + "0" * 6144, "1e6144"),
        ("1e-6144", "1e-6144"),
        ("0e999999999999999999999", "0"),
        ('"5E+3"', '"5E+3"'),
    ],
)
def test_canonical_spelling(text: str, canonical: str) -> None:
    assert json_text.canonical(json_text.check(text)).decode() == canonical


@pytest.mark.covers("DOC-6", "TST-5")
@pytest.mark.parametrize("text", ["1" * 35, "0." + "1" * 35, "1e6145", "1e-6145", "1e9999999999999999999999"])
def test_a_number_beyond_its_bounds_is_refused(text: str) -> None:
    assert "digits" in refusal(lambda: json_text.check(text)).detail
    refusal(lambda: json_text.check(f'{{"a":[{text}]}}'))


@pytest.mark.covers("DOC-6", "TST-5")
@pytest.mark.parametrize("text", ["1" * 34, "0." + "1" * 34, "9." + "9" * 33 + "e6144", "-1e-6144"])
def test_a_number_exactly_at_its_bounds_passes(text: str) -> None:
    assert Decimal(json_text.check(text)) == Decimal(text)


@pytest.mark.covers("DOC-5", "CON-22", "TST-5")
def test_bounds_of_a_text() -> None:
    json_text.check("[" * 32 + "]" * 32)
    refusal(lambda: json_text.check("[" * 33 + "]" * 33))
    longest = '"' + "\u00e9" * ((1_048_576 - 2) // 2) + '"'
    assert len(json_text.check(longest)) == 524_287
    refusal(lambda: json_text.check(longest + " "), ErrorCode.RESOURCE_EXHAUSTED)


@pytest.mark.covers("DOC-5", "CON-22")
@pytest.mark.parametrize(
    "text", ["", "{", '{"a":1,"a":1}', '[{"a":{"b":1,"b":2}}]', r'"\ud800"', '"\ud800"', "\ufeff1", "1 2"]
)
def test_a_wrong_text_is_refused(text: str) -> None:
    refusal(lambda: json_text.check(text))


@pytest.mark.covers("DOC-5")
def test_an_object_may_be_demanded() -> None:
    assert json_text.check("{}", object_only=True) == {}
    for text in ("[]", "1", "null", '"{}"'):
        refusal(lambda text=text: json_text.check(text, object_only=True))


@pytest.mark.covers("CON-23")
def test_a_parsed_tree_is_made_exact() -> None:
    tree = {"a": [Decimal("1.0"), 10**40, True, None, "x", Decimal("0.50")]}
    assert json_text.canonical(json_text.exact(tree)) == b'{"a":[1,1e40,true,null,"x",0.5]}'
    refusal(lambda: json_text.exact([10**34 + 1]))
    assert not json_text.equal(True, 1)
