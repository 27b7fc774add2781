"""Marked secrets, and the search for them in whatever others can see (SEC-40, TST-14).

A marker is random text that stands for one kind of secret. It is looked for as it is, in hexadecimal digits,
percent-encoded, with JSON escapes, and in base64 at any of its three places in a group.
"""

from __future__ import annotations

import base64
import secrets
import string
from collections.abc import Iterable, Mapping
from itertools import product

_ALPHABET = string.ascii_lowercase + string.digits
_RANDOM_CHARS = 20
_BASE64_LOST = (0, 2, 3)
"""Characters of base64 that depend on what stands before, for 0, 1 and 2 bytes of it."""


def marker(kind: str) -> str:
    """A fresh marker; it begins with a letter and is a good identifier."""
    return f"{kind}{''.join(secrets.choice(_ALPHABET) for _ in range(_RANDOM_CHARS))}"


def forms(text: str) -> dict[str, bytes]:
    """How a marker may be spelled. Only base64 tells letters of either case apart."""
    data = text.encode()
    spelled = {
        "plain": data,
        "hexadecimal": data.hex().encode(),
        "percent-encoded": "".join(f"%{byte:02x}" for byte in data).encode(),
        "escaped in JSON": "".join(f"\\u{ord(char):04x}" for char in text).encode(),
    }
    for before, alphabet in product(range(3), (b"+/", b"-_")):
        whole = base64.b64encode(bytes(before) + data, alphabet)
        certain = (before + len(data)) // 3 * 4
        spelled[f"base64 {before} {alphabet.decode()}"] = whole[_BASE64_LOST[before] : certain]
    return spelled


class Search:
    """Looks for markers, given by kind."""

    def __init__(self, markers: Mapping[str, str]) -> None:
        self._forms = [
            (kind, name, spelled, name.startswith("base64"))
            for kind, text in markers.items()
            for name, spelled in forms(text).items()
        ]

    def leaks(self, place: str, seen: bytes, allowed: Iterable[str] = ()) -> list[str]:
        """What is found in `seen`, as a sentence for each; kinds that are `allowed` there are passed over."""
        passed = frozenset(allowed)
        lowered = seen.lower()
        return [
            f"{place} shows {kind} ({name}): {_around(seen, lowered, spelled, exact)}"
            for kind, name, spelled, exact in self._forms
            if kind not in passed and spelled in (seen if exact else lowered)
        ]


def _around(seen: bytes, lowered: bytes, spelled: bytes, exact: bool) -> str:
    at = (seen if exact else lowered).index(spelled)
    return repr(seen[max(0, at - 80) : at + len(spelled) + 40])
