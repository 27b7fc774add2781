"""Answers as bytes: results as JSON text, failures as `Problem` in MessagePack."""

from __future__ import annotations

from typing import Any

import msgspec

from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.link.messages import Refusal, Reply
from keyload.worker.batch import Answer

_json = msgspec.json.Encoder()
_packed = msgspec.msgpack.Encoder()


def success(result: Any) -> Answer:
    """The answer that carries a result."""
    return Answer(False, _json.encode(result))


def refusal(error: KeyLoadError) -> Answer:
    """The answer that carries a failure."""
    return Answer(True, _packed.encode(error.problem))


def again(failure: KeyLoadError) -> Answer:
    """The answer that asks the front to send the call again; `failure` is told when time is over."""
    return Answer(True, refusal(failure).payload, again=True)


def message(call: int, answer: Answer) -> Reply | Refusal:
    """An answer as the message that carries it to the front."""
    return Refusal(call, answer.payload, answer.again) if answer.refused else Reply(call, answer.payload)


def refused(code: ErrorCode, detail: str) -> Answer:
    """The answer that carries a failure of one code and sentence."""
    return refusal(KeyLoadError(code, detail))
