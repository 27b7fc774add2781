"""Signed tokens (SEC-33, CON-82)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyload.codec import tokens
from keyload.contract.errors import ErrorCode
from tests.unit.codec.support import bounded, refusal

KEY = b"k" * 32


@pytest.mark.covers("SEC-33")
@bounded
@given(st.binary(max_size=60))
def test_a_token_gives_its_content_back(content: bytes) -> None:
    token = tokens.sign(KEY, "cursor", content)
    assert set(token) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
    assert tokens.verify(KEY, "cursor", token) == content


@pytest.mark.covers("SEC-33", "CON-84")
def test_every_change_voids_a_token() -> None:
    token = tokens.sign(KEY, "cursor", b"content")
    for place in range(len(token)):
        for letter in ("A", "B", "-"):
            if letter != token[place]:
                wrong = token[:place] + letter + token[place + 1 :]
                refusal(lambda wrong=wrong: tokens.verify(KEY, "cursor", wrong), ErrorCode.TOKEN_INVALIDATED)


@pytest.mark.covers("SEC-33", "CON-84")
def test_another_purpose_key_or_text_is_invalid() -> None:
    token = tokens.sign(KEY, "cursor", b"content")
    for key, purpose, text in (
        (KEY, "curso", token),
        (b"j" * 32, "cursor", token),
        (KEY, "cursor", ""),
        (KEY, "cursor", token + "="),
        (KEY, "cursor", token + "\u00e9"),
        (KEY, "cursor", " " + token),
        (KEY, "cursor", "A" * 43),
    ):
        refusal(lambda k=key, p=purpose, t=text: tokens.verify(k, p, t), ErrorCode.TOKEN_INVALIDATED)


@pytest.mark.covers("SEC-33", "TST-5")
def test_length_of_a_token() -> None:
    longest = tokens.sign(KEY, "cursor", b"x" * (16384 * 3 // 4 - 32))
    assert len(longest) == 16384
    assert len(tokens.verify(KEY, "cursor", longest)) == 12256
    longer = tokens.sign(KEY, "cursor", b"x" * 12257)
    refusal(lambda: tokens.verify(KEY, "cursor", longer), ErrorCode.TOKEN_INVALIDATED)
    assert tokens.verify(KEY, "cursor", longer, max_chars=20_000) == b"x" * 12257
