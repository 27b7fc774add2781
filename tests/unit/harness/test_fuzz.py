"""Every target over what is kept for it, over its seeds, and over changed ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.fuzz.corpus import FOLDER, Corpus, arcs_of, corpus_of
from harness.fuzz.targets import TARGETS
from keyload.codec import strict_json

CHANGES = st.lists(
    st.tuples(st.integers(0, 400), st.integers(0, 3), st.binary(max_size=4)), min_size=1, max_size=3
)


@pytest.mark.covers("MCP-7", "HTTP-7", "CON-3", "CON-4", "STO-4", "STO-21", "SEC-33")
@pytest.mark.parametrize("name", TARGETS)
def test_what_is_kept_breaks_no_target(name: str) -> None:
    inputs = corpus_of(name).inputs
    assert inputs
    for data in [*inputs, *TARGETS[name].seeds()]:
        TARGETS[name].check(data)


@pytest.mark.parametrize("name", TARGETS)
def test_changed_inputs_break_no_target(name: str) -> None:
    inputs = [*corpus_of(name).inputs, *TARGETS[name].seeds()]

    @given(st.sampled_from(inputs), CHANGES)
    @settings(derandomize=True, deadline=None, max_examples=100)
    def changed(data: bytes, changes: list[tuple[int, int, bytes]]) -> None:
        for place, removed, added in changes:
            at = place % (len(data) + 1)
            data = data[:at] + added + data[at + removed :]
        TARGETS[name].check(data)

    changed()


def test_there_is_no_file_without_a_target() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(TARGETS)


def test_a_corpus_keeps_findings_and_the_smallest_inputs_that_reach_something(tmp_path: Path) -> None:
    path = tmp_path / "json.txt"
    corpus = Corpus(path)
    assert corpus.inputs == []
    corpus.add_finding(b"[")
    corpus.add_finding(b"[")
    check = TARGETS["json"].check
    corpus.choose(check, [b'"longer"', b'"a"', b'{"a":1,"a":2}'])
    corpus.write()
    again = Corpus(path)
    assert again.findings == [b"["]
    assert again.others == [b'"a"', b'{"a":1,"a":2}']


def test_arcs_are_those_of_the_product() -> None:
    arcs = arcs_of(lambda data: strict_json.parse(data), b"1")
    assert {code.co_filename for code, _, _ in arcs} <= {strict_json.__file__}
    assert arcs
