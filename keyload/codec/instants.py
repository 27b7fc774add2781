"""Instants and durations: canonical text and ticks of 100 nanoseconds (CON-12, CON-13).

An instant is a signed count of ticks since 1970-01-01 UTC, from year 1 to 9999. A duration is a signed 64-bit
count.
"""

from __future__ import annotations

import re
from datetime import date

from keyload.contract.errors import ErrorCode, KeyLoadError

TICKS_PER_SECOND = 10_000_000
TICKS_PER_DAY = 86_400 * TICKS_PER_SECOND
_EPOCH_DAY = date(1970, 1, 1).toordinal()
MIN_INSTANT = (date.min.toordinal() - _EPOCH_DAY) * TICKS_PER_DAY
MAX_INSTANT = (date.max.toordinal() - _EPOCH_DAY + 1) * TICKS_PER_DAY - 1
MAX_DURATION = 2**63 - 1
MIN_DURATION = -(2**63)

_INSTANT = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})T([01]\d|2[0-3]):([0-5]\d):([0-5]\d)(?:\.(\d{1,7}))?"
    r"(?:Z|([+-])([01]\d|2[0-3]):([0-5]\d))",
    re.ASCII,
)
_DURATION = re.compile(r"(-?)(?:(\d{1,8})\.)?([01]\d|2[0-3]):([0-5]\d):([0-5]\d)(?:\.(\d{1,7}))?", re.ASCII)


def parse_instant(text: str) -> int:
    """Ticks of an ISO 8601 text with offset or Z. Validation for other texts and outside years 1..9999."""
    match = _INSTANT.fullmatch(text)
    if match is None:
        raise KeyLoadError(ErrorCode.VALIDATION, "The text is not a timestamp with offset.")
    year, month, day, hours, minutes, seconds, fraction, sign, off_hours, off_minutes = match.groups()
    try:
        days = date(int(year), int(month), int(day)).toordinal() - _EPOCH_DAY
    except ValueError as error:
        raise KeyLoadError(ErrorCode.VALIDATION, "The timestamp names no calendar day.") from error
    ticks = days * TICKS_PER_DAY + _clock(hours, minutes, seconds, fraction)
    if sign is not None:
        offset = (int(off_hours) * 60 + int(off_minutes)) * 60 * TICKS_PER_SECOND
        ticks += offset if sign == "-" else -offset
    if not MIN_INSTANT <= ticks <= MAX_INSTANT:
        raise KeyLoadError(ErrorCode.VALIDATION, "The timestamp lies outside the years 0001 to 9999 UTC.")
    return ticks


def instant_text(ticks: int) -> str:
    """Canonical text of an instant, in UTC, without trailing zeros in the fraction."""
    days, rest = divmod(ticks, TICKS_PER_DAY)
    return f"{date.fromordinal(days + _EPOCH_DAY).isoformat()}T{_clock_text(rest)}+00:00"


def parse_duration(text: str) -> int:
    """Ticks of `[-][d.]hh:mm:ss[.fffffff]`. Validation for any other text and beyond 64 bits."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise KeyLoadError(ErrorCode.VALIDATION, "The text is not a duration.")
    sign, days, hours, minutes, seconds, fraction = match.groups()
    ticks = int(days or 0) * TICKS_PER_DAY + _clock(hours, minutes, seconds, fraction)
    if sign:
        ticks = -ticks
    if not MIN_DURATION <= ticks <= MAX_DURATION:
        raise KeyLoadError(ErrorCode.VALIDATION, "The duration is too long.")
    return ticks


def duration_text(ticks: int) -> str:
    """Canonical text of a duration: days only when there are any, no trailing zeros in the fraction."""
    days, rest = divmod(abs(ticks), TICKS_PER_DAY)
    return f"{'-' if ticks < 0 else ''}{f'{days}.' if days else ''}{_clock_text(rest)}"


def _clock(hours: str, minutes: str, seconds: str, fraction: str | None) -> int:
    whole = (int(hours) * 60 + int(minutes)) * 60 + int(seconds)
    return whole * TICKS_PER_SECOND + (int(fraction.ljust(7, "0")) if fraction else 0)


def _clock_text(ticks: int) -> str:
    whole, fraction = divmod(ticks, TICKS_PER_SECOND)
    minutes, seconds = divmod(whole, 60)
    tail = f".{fraction:07d}".rstrip("0") if fraction else ""
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}{tail}"
