"""The strict pass over JSON from outside, compared with the standard library."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyload.codec import strict_json
from keyload.contract.errors import ErrorCode, KeyLoadError
from tests.unit.codec.support import bounded, refusal, refused, texts, trees

LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts


def _outcome(scanner: strict_json.Scan, text: str) -> Any:
    """The tree, or the failure's words, as one comparable value."""
    try:
        return strict_json.scan(text, scanner, scanner)
    except KeyLoadError as error:
        return (error.code, error.detail, error.expected)


FAST = strict_json.make_scanner(int, Decimal, fast=True)
REFERENCE = strict_json.make_scanner(int, Decimal, fast=False)


@pytest.mark.covers("HTTP-7")
@bounded
@given(trees(LEAVES))
def test_what_the_standard_library_writes_is_read_back(tree: Any) -> None:
    found = strict_json.parse(json.dumps(tree).encode())
    assert json.loads(json.dumps(tree)) == json.loads(json.dumps(found, default=float))


@pytest.mark.covers("TST-6", "TST-8")
@bounded
@given(st.text(st.sampled_from('{}[]:,"\\ \t\n0123456789.-+eEtruefalsn\u0662\u00e9/ud8')))
def test_both_scanners_agree_on_any_text(text: str) -> None:
    assert _outcome(FAST, text) == _outcome(REFERENCE, text)


@pytest.mark.covers("HTTP-7")
@bounded
@given(st.text(st.sampled_from('{}[]:,"\\ 01.-eEtruefalsn')))
def test_what_the_standard_library_refuses_is_refused(text: str) -> None:
    try:
        json.loads(text)
    except ValueError:
        refusal(lambda: strict_json.parse(text.encode()))


@bounded
@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    assert refused(lambda: strict_json.parse(data, 8, 20)) in (None, ErrorCode.VALIDATION)


def test_numbers_keep_their_written_form() -> None:
    tree = strict_json.parse(b" [1, -0, 1.0, 1e2, 0.50] ")
    assert [type(number) for number in tree] == [int, int, Decimal, Decimal, Decimal]
    assert [str(number) for number in tree[2:]] == ["1.0", "1E+2", "0.50"]


@pytest.mark.covers("CON-7")
def test_an_integer_longer_than_python_converts_is_a_decimal() -> None:
    assert strict_json.parse(b"1" * 5000) == Decimal("1" * 5000)
    assert strict_json.parse(b"[1e400]") == [Decimal("1e400")]
    others = strict_json.parse(b"[" + b"1" * 5000 + b",7,7.0]")[1:]
    assert [type(number) for number in others] == [int, Decimal]


@pytest.mark.covers("HTTP-7")
@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not JSON at byte 0"),
        (b'"\xc3\xa9" x', "not JSON at byte 5"),
        (b"[1,]", "not JSON at byte 3"),
        (b"[1] 2", "not JSON at byte 4"),
        (b"01", "not JSON at byte 1"),
        (b'"\x01"', "not JSON at byte 1"),
        (b"NaN", "NaN is not"),
        (b"[-Infinity]", "-Infinity is not"),
        (b"1e99999999999999999999", "exponent"),
        (b'"' + b"\xff" + b'"', "not UTF-8 at byte 1"),
        (b"\xed\xa0\x80", "not UTF-8"),
        (b"\xef\xbb\xbf{}", "byte order mark"),
    ],
)
def test_a_wrong_form_is_named_with_its_place(data: bytes, words: str) -> None:
    assert words in refusal(lambda: strict_json.parse(data)).detail


@pytest.mark.covers("CON-3", "HTTP-7")
def test_a_repeated_member_is_named() -> None:
    assert '"a"' in refusal(lambda: strict_json.parse(b'[{"b":{"a":1,"c":2,"a":1}}]')).detail
    assert strict_json.parse(b'{"a":{"a":1},"b":{"a":1}}') == {"a": {"a": 1}, "b": {"a": 1}}
    assert refusal(lambda: strict_json.parse('{"\\u0061\u00e9":1,"a\u00e9":2}'.encode()))


@pytest.mark.covers("CON-4")
@pytest.mark.parametrize(
    "text", [r"\ud800", r"\udc00", r"\ud800\u0041", r"\ud800x\udc00", r"\ud83d\ud83d\ude00"]
)
def test_half_a_surrogate_pair_is_refused(text: str) -> None:
    refusal(lambda: strict_json.parse(f'["{text}"]'.encode()))
    refusal(lambda: strict_json.parse(f'{{"{text}":1}}'.encode()))


@pytest.mark.covers("CON-4")
def test_whole_surrogate_pairs_and_escaped_backslashes_pass() -> None:
    assert strict_json.parse(rb'"\ud83d\ude00\ud83d\ude00"') == "\U0001f600" * 2
    assert strict_json.parse(rb'"\\ud800"') == r"\ud800"


@pytest.mark.covers("CON-5", "TST-5")
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_exactly_the_depth_passes_and_one_more_fails(opening: bytes, closing: bytes) -> None:
    strict_json.parse(opening * 64 + b"1" + closing * 64)
    assert "deep" in refusal(lambda: strict_json.parse(opening * 65 + b"1" + closing * 65)).detail


@pytest.mark.covers("CON-5")
def test_brackets_in_strings_and_beside_each_other_are_not_depth() -> None:
    strict_json.parse(b'["' + b"[{" * 100 + b'\\"[[[["]')
    strict_json.parse(b"[" + b"[]," * 1000 + b"[]]")


@pytest.mark.covers("CON-5")
@pytest.mark.parametrize(
    "data", [b"[" * 1_000_000, b'{"a":' * 300_000, b"[" * 70 + b'"', b'"' + b'\\"[' * 100_000]
)
def test_hostile_depth_ends_in_a_refusal(data: bytes) -> None:
    refusal(lambda: strict_json.parse(data))


def _token_count(tree: Any) -> int:
    match tree:
        case dict():
            return 2 + max(0, len(tree) - 1) + sum(2 + _token_count(value) for value in tree.values())
        case list():
            return 2 + max(0, len(tree) - 1) + sum(map(_token_count, tree))
        case _:
            return 1


@pytest.mark.covers("MCP-7")
@bounded
@given(trees(LEAVES))
def test_tokens_are_counted_exactly(tree: Any) -> None:
    data = json.dumps(tree, ensure_ascii=False, indent=1).encode()
    count = _token_count(tree)
    strict_json.parse(data, 64, count)
    if len(data) > count - 1:
        refusal(lambda: strict_json.parse(data, 64, count - 1))


def test_a_long_name_is_shortened_in_the_detail() -> None:
    assert len(strict_json.shown("\u00e9" * 500)) < 400
    assert strict_json.shown("a") == '"a"'
