"""Flag sets as text (CON-10)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyload.contract import capabilities
from keyload.contract.errors import ErrorCode, KeyLoadError


@pytest.mark.covers("CON-10")
def test_any_order_repeats_and_spaces_give_one_canonical_text() -> None:
    assert capabilities.canonical("Query ,DocumentsRead,  Query") == "DocumentsRead, Query"
    assert capabilities.canonical(" None ") == "None"
    assert capabilities.canonical("None,Query") == "Query"
    assert capabilities.canonical("All") == "All"
    assert capabilities.canonical("Query, All") == "All"


@pytest.mark.covers("CON-10")
def test_all_names_together_are_all() -> None:
    names = ", ".join(flag.name for flag in reversed(capabilities.CAPABILITIES))
    assert capabilities.canonical(names) == "All"
    assert capabilities.mask("All") == (1 << 38) - 1


@pytest.mark.covers("CON-10")
@pytest.mark.parametrize(
    "text", ["", " ", "query", "Query,", ",", "Query;DocumentsRead", "1", "\tQuery", "Q" * 5000]
)
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(KeyLoadError) as failure:
        capabilities.mask(text)
    assert failure.value.code is ErrorCode.VALIDATION


@pytest.mark.covers("CON-10")
@settings(derandomize=True, deadline=None)
@given(st.integers(min_value=0, max_value=capabilities.ALL_MASK))
def test_text_and_mask_are_inverses(bits: int) -> None:
    assert capabilities.mask(capabilities.text_of(bits)) == bits
