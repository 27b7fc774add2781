"""The head of an answer. Nothing that an application passes on can add a field or a line to it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from http import HTTPStatus
from time import time
from wsgiref.handlers import format_date_time

import msgspec

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"
_CLOSE = b"connection: close\r\n"
_CHUNKED = b"transfer-encoding: chunked\r\n"
_FIELDS = re.compile(rb"(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+: [\t\x20-\x7e\x80-\xff]*\r\n)*")
_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}


class Framing(msgspec.Struct, frozen=True):
    """How an answer ends: after `length` bytes, with its last chunk, or (neither) with the connection."""

    length: int | None
    chunked: bool
    closes: bool


def head(
    status: int, fields: Iterable[tuple[bytes, bytes]], version: str, bodiless: bool, closes: bool
) -> tuple[bytes, Framing]:
    """The bytes of the head and the framing it announces, for a request of HTTP `version`.

    `bodiless`: no body follows, whatever the fields say. Raises ValueError for fields that are none.
    """
    lines: list[bytes] = []
    length: int | None = None
    for name, value in fields:
        lowered = name.lower()
        if lowered == b"transfer-encoding":
            continue  # framing is this module's
        if lowered == b"connection":
            closes = closes or value.strip().lower() == b"close"
            continue
        if lowered == b"content-length":
            if length is not None or not value.isdigit():
                raise ValueError("An answer has one length.")
            length = int(value)
        lines.append(b"%b: %b\r\n" % (name, value))
    text = b"".join(lines)
    if _FIELDS.fullmatch(text) is None or text.count(b"\n") != len(lines):
        raise ValueError("A field of the answer is malformed.")
    chunked = length is None and not bodiless and version == "1.1"
    closes = closes or version != "1.1" or (length is None and not bodiless and not chunked)
    ending = b"%b%b\r\n" % (_CHUNKED if chunked else b"", _CLOSE if closes else b"")
    line = _LINES.get(status) or f"HTTP/1.1 {status} \r\n".encode()
    return line + text + _date(int(time())) + ending, Framing(length, chunked, closes)


def empty(status: int) -> bytes:
    """A whole answer without a body, after which the connection ends."""
    return head(status, ((b"content-length", b"0"),), "1.1", False, True)[0]


@lru_cache(maxsize=1)
def _date(second: int) -> bytes:
    return b"date: %b\r\n" % format_date_time(second).encode()
