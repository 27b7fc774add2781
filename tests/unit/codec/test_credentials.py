"""Credentials: what headers say, and whom they stand for."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from keyload.codec.credentials import Credential, credential_of, principal_of
from keyload.codec.instants import instant_text
from keyload.contract.security import ApiKeyRecord

NOW = 1_800_000_000 * 10_000_000
TEXT = "key.secret"
LONGEST = "key." + "x" * 508


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def record(**members: Any) -> ApiKeyRecord:
    return ApiKeyRecord(**({"id": "key", "principal_id": "ann", "verifier": digest(TEXT)} | members))


@pytest.mark.covers("SEC-1", "SEC-2", "CON-32")
@pytest.mark.parametrize("text", [TEXT, "key.a.b.c", "key..", LONGEST, "k.ä"])
@pytest.mark.parametrize("scheme", ["Bearer ", "bearer ", "BEARER "])
def test_the_id_ends_at_the_first_dot_and_the_digest_is_of_the_whole_text(text: str, scheme: str) -> None:
    found = credential_of([scheme.encode() + text.encode()])
    assert found == Credential(text.split(".")[0], digest(text))


@pytest.mark.covers("SEC-1")
@pytest.mark.parametrize(
    "headers",
    [
        [],
        [b""],
        [b"Bearer"],
        [b"Bearer "],
        [b"Bearer key"],
        [b"Bearer key."],
        [b"Bearer .secret"],
        [b"Bearer\tkey.secret"],
        [b"Basic key.secret"],
        [b"key.secret"],
        [b"Bearer " + LONGEST.encode() + b"x"],
        [b"Bearer key.secret", b"Bearer key.secret"],
        [b"Bearer key.secret", b""],
    ],
)
def test_other_headers_name_no_key(headers: list[bytes]) -> None:
    assert credential_of(headers).key_id == ""


@pytest.mark.covers("SEC-2", "SEC-3", "SEC-4", "CON-31")
@pytest.mark.parametrize(
    ("key", "stands"),
    [
        (record(), True),
        (None, False),
        (record(verifier=digest("key.other")), False),
        (record(verifier="0" * 64), False),
        (record(revoked=True), False),
        (record(expires_at=instant_text(NOW + 1)), True),
        (record(expires_at=instant_text(NOW)), False),
    ],
)
def test_whom_a_credential_stands_for(key: ApiKeyRecord | None, stands: bool) -> None:
    assert principal_of(Credential("key", digest(TEXT)), key, NOW) == ("ann" if stands else None)
