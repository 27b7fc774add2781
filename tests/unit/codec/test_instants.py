"""Instants and durations as text and ticks (CON-12, CON-13)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyload.codec import instants
from tests.unit.codec.support import bounded, refusal


@pytest.mark.covers("CON-12")
@bounded
@given(st.integers(instants.MIN_INSTANT, instants.MAX_INSTANT))
def test_text_and_ticks_of_an_instant_are_inverses(ticks: int) -> None:
    assert instants.parse_instant(instants.instant_text(ticks)) == ticks


@pytest.mark.covers("CON-12")
@bounded
@given(st.datetimes(timezones=st.just(UTC)), st.integers(-1439, 1439))
def test_instants_agree_with_the_calendar_of_python(moment: datetime, offset: int) -> None:
    ticks = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 10
    assert instants.parse_instant(moment.isoformat()) == ticks
    sign, minutes = "-" if offset < 0 else "+", abs(offset)
    text = f"{moment.replace(tzinfo=None).isoformat()}{sign}{minutes // 60:02d}:{minutes % 60:02d}"
    local = ticks - offset * 60 * instants.TICKS_PER_SECOND
    if instants.MIN_INSTANT <= local <= instants.MAX_INSTANT:
        assert instants.parse_instant(text) == local
    else:
        refusal(lambda: instants.parse_instant(text))


@pytest.mark.covers("CON-12")
@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("2026-10-05T12:00:00.2500000Z", "2026-10-05T12:00:00.25+00:00"),
        ("2026-10-05T14:00:00+02:00", "2026-10-05T12:00:00+00:00"),
        ("2026-10-05T12:00:00.0000001-00:00", "2026-10-05T12:00:00.0000001+00:00"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00+00:00"),
        ("9999-12-31T23:59:59.9999999Z", "9999-12-31T23:59:59.9999999+00:00"),
    ],
)
def test_an_instant_is_written_in_utc_without_surplus_zeros(text: str, canonical: str) -> None:
    assert instants.instant_text(instants.parse_instant(text)) == canonical


@pytest.mark.covers("CON-12")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-10-05",
        "2026-10-05T12:00:00",
        "2026-10-05 12:00:00Z",
        "2026-10-05T12:00:00z",
        "2026-10-05T12:00:00.12345678Z",
        "2026-10-05T12:00:00.Z",
        "2026-02-29T12:00:00Z",
        "2026-10-05T24:00:00Z",
        "2026-10-05T12:00:60Z",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
        "2026-10-05T12:00:00+24:00",
        "2026-10-05T12:00:00Z\n",
        "\u0662026-10-05T12:00:00Z",
    ],
)
def test_another_text_is_no_instant(text: str) -> None:
    refusal(lambda: instants.parse_instant(text))


@pytest.mark.covers("CON-13")
@bounded
@given(st.integers(instants.MIN_DURATION, instants.MAX_DURATION))
def test_text_and_ticks_of_a_duration_are_inverses(ticks: int) -> None:
    assert instants.parse_duration(instants.duration_text(ticks)) == ticks


@pytest.mark.covers("CON-13")
@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("00:00:01", "00:00:01"),
        ("0.01:02:03.5000000", "01:02:03.5"),
        ("-1.00:00:00", "-1.00:00:00"),
        ("-00:00:00", "00:00:00"),
        ("365.23:59:59.9999999", "365.23:59:59.9999999"),
    ],
)
def test_a_duration_is_normalised(text: str, canonical: str) -> None:
    assert instants.duration_text(instants.parse_duration(text)) == canonical


@pytest.mark.covers("CON-13")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "24:00:00",
        "00:60:00",
        "00:00:60",
        "1:00:00",
        "+00:00:01",
        "00:00:00.12345678",
        "99999999.00:00:00",
    ],
)
def test_another_text_is_no_duration(text: str) -> None:
    refusal(lambda: instants.parse_duration(text))
