"""Every scalar, container and text format of the contract, by a record made for the purpose."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Annotated, Any

import pytest

from keyload.codec import decoding, scalar_readers
from keyload.codec.faults import Fault
from keyload.contract import formats
from keyload.contract.base import Choice, Member, Record
from keyload.contract.errors import ErrorCode
from tests.unit.codec.support import refusal

BUDGET, CURSOR = "BudgetExceeded", "CursorExpired"


class Color(Choice):
    """A colour."""

    RED = "Red", "Like blood."


class Sample(Record, frozen=True, kw_only=True):
    """All kinds of members."""

    small: Annotated[int, Member(scalar="int32")] = 0
    large: Annotated[int, Member(scalar="int64")] = 0
    bounded: Annotated[int, Member(scalar="int32", min=1, max=16, error_below=BUDGET, error_above=BUDGET)] = 1
    fixed: Annotated[int, Member(scalar="int32", const=1)] = 1
    zone: Annotated[str, Member(one_of=("UTC",), error_other="UnsupportedCapability")] = "UTC"
    single: Annotated[float, Member(scalar="float")] = 0.0
    double: Annotated[float, Member(scalar="double")] = 0.0
    share: Annotated[float, Member(scalar="double", min=0, max=1, error_above=BUDGET)] = 0.0
    instant: Annotated[str | None, Member(scalar="timestamp")] = None
    span: Annotated[
        str, Member(scalar="duration", min_duration="00:00:01", max_duration="1.00:00:00", error_above=BUDGET)
    ] = "00:00:01"
    data: Annotated[bytes, Member(scalar="base64", min_items=1, max_items=4, error_above=BUDGET)] = b"x"
    value: Annotated[Any, Member(scalar="json")] = 0
    values: Annotated[tuple[Any, ...], Member(scalar="json")] = ()
    names: Annotated[tuple[str, ...], Member(item_format="identifier", unique_items=True, max_items=3)] = ()
    colors: Annotated[tuple[Color, ...], Member()] = ()
    bound: Annotated[
        dict[str, Any], Member(scalar="json", key_format="parameterName", max_items=2, error_above=BUDGET)
    ] = {}  # noqa: RUF012 - msgspec copies an empty default
    cursor: Annotated[str | None, Member(format="opaqueToken", error_other=CURSOR)] = None


def read(name: str, value: Any) -> Any:
    """The member `name` of a sample decoded with this value."""
    return getattr(decoding.decode(Sample, {name: value}), name)


@pytest.mark.covers("CON-7", "TST-5")
@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("small", -(2**31), -(2**31)),
        ("small", "2147483647", 2**31 - 1),
        ("large", "-9223372036854775808", -(2**63)),
        ("large", 2**63 - 1, 2**63 - 1),
        ("large", "0", 0),
        ("large", "-0", 0),
        ("bounded", 16, 16),
    ],
)
def test_integers_in_range(name: str, value: Any, found: int) -> None:
    assert read(name, value) == found


@pytest.mark.covers("CON-7", "TST-5")
@pytest.mark.parametrize("name", ["small", "large"])
@pytest.mark.parametrize(
    "value",
    [
        2**63,
        -(2**63) - 1,
        "9223372036854775808",
        "1" * 10_000,
        Decimal("1.0"),
        Decimal("1e400"),
        *("1.0", "1e0", "+1", "01", "", " 1", "\u0661", "1\n"),
        *(True, None, [], {}),
    ],
)
def test_other_values_are_no_integers(name: str, value: Any) -> None:
    assert refusal(lambda: read(name, value)).path == f"/{name}"


@pytest.mark.covers("CON-54", "CON-7")
def test_a_bound_may_have_its_own_code() -> None:
    for value in (0, 17, "17"):
        refusal(lambda value=value: read("bounded", value), ErrorCode.BUDGET_EXCEEDED)
    refusal(lambda: read("bounded", 2**31))
    refusal(lambda: read("bounded", "x"))
    refusal(lambda: read("fixed", 2))
    refusal(lambda: read("zone", "CET"), ErrorCode.UNSUPPORTED_CAPABILITY)
    refusal(lambda: read("share", Decimal("1.5")), ErrorCode.BUDGET_EXCEEDED)
    refusal(lambda: read("share", -1))


@pytest.mark.covers("CON-8", "HTTP-9")
def test_floating_point_numbers() -> None:
    assert read("double", Decimal("0.1")) == 0.1
    assert read("double", 3) == 3.0
    assert read("single", Decimal("0.1")) == 0.10000000149011612
    assert read("single", Decimal("3.4028235e38")) == pytest.approx(3.4028235e38)
    assert math.isclose(read("double", Decimal("1e308")), 1e308)
    for name, value in (
        ("double", Decimal("1e400")),
        ("double", 10**400),
        ("single", Decimal("1e39")),
        ("double", Decimal("NaN")),
        ("double", "1"),
        ("double", True),
        ("double", None),
    ):
        refusal(lambda name=name, value=value: read(name, value))


@pytest.mark.covers("CON-12", "CON-13", "HTTP-13")
def test_instants_and_durations_become_canonical() -> None:
    assert read("instant", "2026-10-05T14:00:00.50+02:00") == "2026-10-05T12:00:00.5+00:00"
    assert read("instant", None) is None
    assert read("span", "0.00:00:01.000") == "00:00:01"
    refusal(lambda: read("instant", "2026-10-05T14:00:00"))
    refusal(lambda: read("instant", 1))
    refusal(lambda: read("span", "00:00:00.9999999"))
    refusal(lambda: read("span", "1.00:00:00.0000001"), ErrorCode.BUDGET_EXCEEDED)
    refusal(lambda: read("span", "PT1S"))


@pytest.mark.covers("CON-14", "HTTP-12")
def test_bytes_are_exact_base64() -> None:
    assert read("data", "AAECAw==") == b"\x00\x01\x02\x03"
    for text in ("AAECAw", "AAEC Aw==", "AAECAx==", "A-_=", "AAECAw==\n", "=", 1, "\u00e9"):
        refusal(lambda text=text: read("data", text))
    refusal(lambda: read("data", ""))
    refusal(lambda: read("data", "AAECAwQ="), ErrorCode.BUDGET_EXCEEDED)


@pytest.mark.covers("CON-23", "CON-2")
def test_json_values_are_exact_and_nulls_stand_inside_only() -> None:
    assert read("value", {"a": [Decimal("1.0"), None]}) == {"a": [1, None]}
    assert read("values", [None, 1]) == (None, 1)
    assert read("bound", {"a": None, "b_1": Decimal("2.50")}) == {"a": None, "b_1": Decimal("2.5")}
    for value in (Decimal("1e7000"), [10**34 + 1], {"a": Decimal("NaN")}):
        refusal(lambda value=value: read("value", value))


@pytest.mark.covers("CON-2")
def test_containers() -> None:
    assert read("names", ["a", "b"]) == ("a", "b")
    assert read("colors", ["Red"]) == (Color.RED,)
    for name, value, path in (
        ("names", ["a", "b", "a"], "/names/2"),
        ("names", ["a", None], "/names/1"),
        ("names", ["a"] * 4, "/names"),
        ("names", "a", "/names"),
        ("colors", ["Red", "red"], "/colors/1"),
        ("bound", [], "/bound"),
        ("bound", {"1a": 1}, "/bound/1a"),
    ):
        assert refusal(lambda name=name, value=value: read(name, value)).path == path
    refusal(lambda: read("bound", {"a": 1, "b": 1, "c": 1}), ErrorCode.BUDGET_EXCEEDED)


@pytest.mark.covers("CON-84")
def test_a_cursor_member_has_its_own_code() -> None:
    assert read("cursor", "A" * 16_384) == "A" * 16_384
    for text in ("", "a=", "A" * 16_385, "\ud800"):
        refusal(lambda text=text: read("cursor", text), ErrorCode.CURSOR_EXPIRED)
    refusal(lambda: read("cursor", 1))


VALIDATION, TOKEN = ErrorCode.VALIDATION, ErrorCode.TOKEN_INVALIDATED
FORMATS: list[tuple[str, list[str], list[tuple[str, ErrorCode]]]] = [
    (
        "identifier",
        ["a", " a ", "\u00e9" * 128, "x" * 256, "\U0001f600"],
        [
            (text, VALIDATION)
            for text in ("", "  ", "\u3000", "a\n", "\x7f", "\x85", "x" * 257, "\u00e9" * 129)
        ]
        + [("\ud800", VALIDATION)],
    ),
    ("keyId", ["a", "A-_9", "x" * 64], [("", VALIDATION), ("a.b", VALIDATION), ("x" * 65, VALIDATION)]),
    (
        "jsonPointer",
        ["", "/", "/a/b", "/~0~1", "/*", "/" + "x" * 1023],
        [("a", VALIDATION), ("/~2", VALIDATION), ("/" + "x" * 1024, VALIDATION)],
    ),
    (
        "fieldPointer",
        ["/", "/a/*b", "/" + "x" * 1023],
        [("", VALIDATION), ("/*", VALIDATION), ("/a/*/b", VALIDATION), ("/" + "x" * 1024, VALIDATION)],
    ),
    ("policyPointer", ["/*", "/a/*/b"], [("", VALIDATION), ("a", VALIDATION)]),
    ("queryPath", ["*", "/@id", "/a"], [("", VALIDATION), ("/*", VALIDATION), ("id", VALIDATION)]),
    ("jsonObject", ["{}", ' {"a":1} '], [("[]", VALIDATION), ("", VALIDATION)]),
    ("jsonText", ["1", "null"], [("nul", VALIDATION), (" " * 1_048_577, ErrorCode.RESOURCE_EXHAUSTED)]),
    ("opaqueToken", ["A-_0"], [("", TOKEN), ("a+", TOKEN), ("A" * 16_385, TOKEN)]),
    ("transferToken", ["A" * 20_000], [("", TOKEN), ("a\n", TOKEN)]),
    ("sha256Hex", ["0f" * 32], [("0F" * 32, VALIDATION), ("0f" * 31, VALIDATION), ("0f" * 33, VALIDATION)]),
    ("sqlText", ["x" * 65_536], [("", VALIDATION), ("x" * 65_537, ErrorCode.BUDGET_EXCEEDED)]),
    ("searchText", ["", "x\ny"], [("\u00e9" * 32_769, ErrorCode.BUDGET_EXCEEDED)]),
    ("failureCode", ["a", "A.b-c_9"], [("", VALIDATION), ("9", VALIDATION), ("a" * 65, VALIDATION)]),
    ("idPrefix", ["", "a", "x" * 128], [("\x00", VALIDATION), ("x" * 129, VALIDATION)]),
    (
        "parameterName",
        ["_a9"],
        [("", VALIDATION), ("9a", VALIDATION), ("a-b", VALIDATION), ("\u00e9", VALIDATION)],
    ),
    ("mutationKind", ["putDocument"], [("PutDocument", VALIDATION), ("", VALIDATION)]),
    ("gatewayQuery", ["x" * 2048], [("", VALIDATION), (" \n", VALIDATION), ("x" * 2049, VALIDATION)]),
]


@pytest.mark.covers("CON-20", "CON-22", "CMD-4")
@pytest.mark.parametrize(("form", "good", "bad"), FORMATS, ids=[entry[0] for entry in FORMATS])
def test_text_formats(form: str, good: list[str], bad: list[tuple[str, ErrorCode]]) -> None:
    reader = scalar_readers.text(Member(format=form), form)
    assert [reader(text, None) for text in good] == good
    for text, code in bad:
        with pytest.raises(Fault) as fault:
            reader(text, None)
        assert fault.value.code == code


def test_all_formats_are_tried() -> None:
    assert [entry[0] for entry in FORMATS] == list(formats.FORMATS)
