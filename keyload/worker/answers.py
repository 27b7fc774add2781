"""Answers as bytes: results as JSON text, failures as `Problem` in MessagePack."""

from __future__ import annotations

from typing import Any

import msgspec

from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.worker.batch import Answer

_json = msgspec.json.Encoder()
_packed = msgspec.msgpack.Encoder()


def success(result: Any) -> Answer:
    """The answer that carries a result."""
    return Answer(False, _json.encode(result))


def refusal(error: KeyLoadError) -> Answer:
    """The answer that carries a failure."""
    return Answer(True, _packed.encode(error.problem))


def refused(code: ErrorCode, detail: str) -> Answer:
    """The answer that carries a failure of one code and sentence."""
    return refusal(KeyLoadError(code, detail))
