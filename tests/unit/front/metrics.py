"""A strict reader of the text form of metrics, version 0.0.4: it refuses what it does not know."""

from __future__ import annotations

import re
from typing import NamedTuple

Labels = frozenset[tuple[str, str]]

_HELP = re.compile(r"# HELP (keyload_[a-z_]+) ([ -~]+)")
_TYPE = re.compile(r"# TYPE (keyload_[a-z_]+) (gauge|counter|histogram)")
_SAMPLE = re.compile(r"(keyload_[a-z_]+)(?:\{([^{}]*)\})? (-?[0-9.e+-]+)")
_LABEL = re.compile(r'([a-z_]+)="([^"\\\n]*)"')
_PARTS = ("_bucket", "_sum", "_count")


class Family(NamedTuple):
    """One metric: its kind and its samples by full name and labels."""

    kind: str
    samples: dict[tuple[str, Labels], float]


def parse(text: bytes) -> dict[str, Family]:
    """All families; AssertionError for anything that is not exactly the format."""
    assert text.endswith(b"\n")
    families: dict[str, Family] = {}
    name, helped = "", ""
    for line in text.decode("ascii").split("\n")[:-1]:
        if found := _HELP.fullmatch(line):
            helped = found[1]
        elif found := _TYPE.fullmatch(line):
            name, kind = found.groups()
            assert helped == name, "a family begins with its help"
            assert name not in families, "a family stands in one place"
            assert (kind == "counter") == name.endswith("_total")
            families[name] = Family(kind, {})
        else:
            found = _SAMPLE.fullmatch(line)
            assert found, line
            _take(name, families[name], found[1], _labels(found[2]), float(found[3]))
    for name, family in families.items():
        if family.kind == "histogram":
            _check_histogram(name, family)
    return families


def _take(name: str, family: Family, sample: str, labels: Labels, value: float) -> None:
    allowed = {name + part for part in _PARTS} if family.kind == "histogram" else {name}
    assert sample in allowed, sample
    assert (sample, labels) not in family.samples, "a sample stands once"
    assert family.kind == "gauge" or value >= 0
    family.samples[sample, labels] = value


def _labels(text: str | None) -> Labels:
    if text is None:
        return frozenset()
    pairs: list[tuple[str, str]] = []
    for part in text.split(","):
        found = _LABEL.fullmatch(part)
        assert found, part
        pairs.append((found[1], found[2]))
    assert len({label for label, _ in pairs}) == len(pairs)
    return frozenset(pairs)


def _check_histogram(name: str, family: Family) -> None:
    """Buckets grow with their bounds up to the one without bound, which equals the count."""
    buckets: dict[Labels, list[tuple[float, float]]] = {}
    for (sample, labels), value in family.samples.items():
        if sample == f"{name}_bucket":
            bound = next(content for label, content in labels if label == "le")
            rest = frozenset(pair for pair in labels if pair[0] != "le")
            buckets.setdefault(rest, []).append((float(bound), value))
    for rest, points in buckets.items():
        assert points == sorted(points), "bounds in order, counts that only grow"
        assert [count for _, count in points] == sorted(count for _, count in points)
        assert points[-1][0] == float("inf")
        assert points[-1][1] == family.samples[f"{name}_count", rest]
        assert (f"{name}_sum", rest) in family.samples
