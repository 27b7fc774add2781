"""The search for markers finds every spelling, and nothing else."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest

from harness.canaries import Search, forms, marker

TEXT = marker("payload")
SEARCH = Search({"payload": TEXT})


@pytest.mark.parametrize("before", range(7))
@pytest.mark.parametrize("after", range(4))
def test_base64_is_found_wherever_it_begins(before: int, after: int) -> None:
    data = b"\xfb" * before + TEXT.encode() + b"\xff" * after
    for encoded in (base64.b64encode(data), base64.urlsafe_b64encode(data).rstrip(b"=")):
        assert SEARCH.leaks("here", b'{"a":"' + encoded + b'"}')


def test_other_spellings_are_found() -> None:
    data = TEXT.encode()
    escaped = "".join(f"\\u{ord(char):04X}" for char in TEXT)
    assert json.loads(f'"{escaped}"') == TEXT
    for seen in (data, data.upper(), data.hex().upper().encode(), escaped.encode(), quote(TEXT).encode()):
        assert SEARCH.leaks("here", b"x" + seen + b"x")
    assert SEARCH.leaks("here", "".join(f"%{byte:02X}" for byte in data).encode())


def test_what_is_allowed_or_another_text_is_not_found() -> None:
    assert SEARCH.leaks("here", TEXT.encode(), ("payload",)) == []
    assert SEARCH.leaks("here", marker("payload").encode()) == []
    assert SEARCH.leaks("here", TEXT[:-1].encode()) == []
    assert len(set(forms(TEXT).values())) >= 7
