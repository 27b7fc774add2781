"""Slow, obviously right models the storage room is compared with, and the keys the comparisons are made
of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hypothesis import strategies as st

INCARNATION = "00000000000000000000000000000001"

_PREFIXES = (b"", b"a", b"a" * 478, b"a" * 479, b"a" * 480, b"a" * 478 + b"b", b"b" * 510)


class DictReader:
    """A `Reader` over a dict: sorts everything for each scan."""

    def __init__(self, data: Mapping[bytes, bytes]) -> None:
        self.data = dict(data)

    def get(self, key: bytes) -> bytes | None:
        return self.data.get(key)

    def scan(self, start: bytes, end: bytes, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        chosen = [(key, self.data[key]) for key in sorted(self.data) if start <= key < end]
        return iter(chosen[::-1] if reverse else chosen)


def keys() -> st.SearchStrategy[bytes]:
    """Short keys, keys at every border of the stored form, and long keys that share their first 479 bytes."""
    tails = st.one_of(
        st.binary(min_size=1, max_size=3),
        st.sampled_from(
            [b"c" * 30, b"c" * 31, b"c" * 32, b"c" * 33, b"c" * 31 + b"\xff", b"\xff" * 40, b"\0" * 40]
        ),
    )
    return st.builds(lambda prefix, tail: prefix + tail, st.sampled_from(_PREFIXES), tails)


def values() -> st.SearchStrategy[bytes]:
    """Values, the empty one included."""
    return st.binary(max_size=8)
