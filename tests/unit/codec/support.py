"""What the tests of this room share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st

from keyload.contract.errors import ErrorCode, KeyLoadError

bounded = settings(derandomize=True, deadline=None, max_examples=120)
"""The same examples in every run."""

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
"""Texts of whole characters."""


def refusal(call: Callable[[], Any], code: ErrorCode = ErrorCode.VALIDATION) -> KeyLoadError:
    """The failure that `call` must end in, with this code."""
    with pytest.raises(KeyLoadError) as failure:
        call()
    assert failure.value.code is code
    assert failure.value.detail.isascii()
    return failure.value


def refused(call: Callable[[], Any]) -> ErrorCode | None:
    """The code of the failure that `call` ends in, None when it succeeds; no other exception may come out."""
    try:
        call()
    except KeyLoadError as failure:
        return failure.code
    return None


def trees(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Small JSON trees over these leaves."""
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
        max_leaves=12,
    )
