"""The SDK's core by itself: what it sends, what it makes of answers, when it repeats."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyload.client import calls
from keyload.client.core import Again, Answer, Call, Done, Nodes, Progress, cap, identity
from keyload.client.errors import KeyLoadError
from keyload.contract import errors
from keyload.contract.errors import ERRORS, ErrorCode
from keyload.contract.shared import EntityRef, PartitionRef

ID = "0b1d3f5a-7c9e-4b2d-8f60-112233445566"
PARTITION = PartitionRef(tenant_id="t", database_id="d", transaction_domain_id="x", partition_key="p")
READ = calls.documents_get(EntityRef(partition=PARTITION, collection="c", id="1"))
WRITE = calls.admin_dispatch(True, ID)
ACTION = calls.admin_backup()


def progress(call: Call[Any], *, nodes: int = 1, **options: Any) -> Progress[Any]:
    addresses = [f"http://n{number}" for number in range(nodes)]
    return Progress(call, Nodes(addresses, "k.s"), 100.0, draw=lambda: 1.0, **options)


def answer(code: ErrorCode, **changes: Any) -> Answer:
    problem = msgspec.to_builtins(errors.KeyLoadError(code, "Said so.").problem)
    return Answer(ERRORS[code].http_status, msgspec.json.encode({**problem, **changes}), "r")


@pytest.mark.covers("HTTP-4", "HTTP-22")
def test_what_is_sent() -> None:
    request = progress(WRITE).request(100.0)
    assert (request.method, request.url) == ("POST", "http://n0/v1/admin/dispatch?paused=true")
    assert request.headers["authorization"] == "Bearer k.s"
    assert request.headers["x-keyload-command-id"] == ID
    assert request.body == b""
    request = progress(READ).request(100.0)
    assert "x-keyload-command-id" not in request.headers
    assert msgspec.json.decode(request.body)["reference"]["id"] == "1"


@pytest.mark.covers("HTTP-22", "CON-66")
def test_uncertain_calls_are_repeated_with_growing_pauses_and_then_given_up() -> None:
    call = progress(WRITE, retries=6, timeout=1000)
    pauses: list[float] = []
    for _ in range(6):
        assert call.request(100.0).headers["x-keyload-command-id"] == ID
        step = call.answered(answer(ErrorCode.UNKNOWN_WRITE_OUTCOME), 100.0)
        assert isinstance(step, Again)
        pauses.append(step.pause)
    with pytest.raises(KeyLoadError) as caught:
        call.answered(answer(ErrorCode.UNKNOWN_WRITE_OUTCOME), 100.0)
    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6]
    assert (caught.value.code, caught.value.command_id) == (ErrorCode.UNKNOWN_WRITE_OUTCOME, ID)
    assert caught.value.request_id == "r"


@pytest.mark.covers("HTTP-21", "CON-68")
def test_an_action_is_sent_once_because_a_repeat_would_be_another_one() -> None:
    request = progress(ACTION).request(100.0)
    assert (request.method, request.url, request.body) == ("POST", "http://n0/v1/admin/backup", b"")
    assert "x-keyload-command-id" not in request.headers
    for code in (ErrorCode.UNKNOWN_WRITE_OUTCOME, ErrorCode.OWNERSHIP_LOST, ErrorCode.PERMISSION_DENIED):
        with pytest.raises(KeyLoadError) as caught:
            progress(ACTION).answered(answer(code), 100.0)
        assert caught.value.code is code
    for failed in (
        lambda: progress(ACTION).broken(100.0),
        lambda: progress(ACTION, timeout=1).request(101.0),
    ):
        with pytest.raises(KeyLoadError) as caught:
            failed()
        assert (caught.value.code, caught.value.command_id) == (ErrorCode.UNKNOWN_WRITE_OUTCOME, None)
    assert isinstance(progress(ACTION, nodes=2).refused(100.0), Again)


@pytest.mark.covers("HTTP-22")
def test_retries_0_switches_repeats_off() -> None:
    for code in (ErrorCode.UNKNOWN_WRITE_OUTCOME, ErrorCode.OWNERSHIP_LOST):
        call = progress(WRITE, retries=0)
        with pytest.raises(KeyLoadError) as caught:
            call.answered(answer(code), 100.0)
        assert caught.value.code is code
    with pytest.raises(KeyLoadError):
        progress(READ, retries=0).refused(100.0)


@pytest.mark.covers("HTTP-22")
def test_a_repeat_goes_to_the_next_node_and_stays_there() -> None:
    nodes = Nodes(["http://a", "http://b", "http://c"], "k.s")
    call = Progress(READ, nodes, 0.0)
    urls = []
    for _ in range(4):
        urls.append(call.request(0.0).url.split("/")[2])
        assert isinstance(call.refused(0.0), Again)
    assert urls == ["a", "b", "c", "a"]
    assert nodes.address == "http://b"


@pytest.mark.covers("HTTP-22")
def test_two_calls_that_meet_the_same_dead_node_do_not_skip_a_live_one() -> None:
    nodes = Nodes(["http://a", "http://b", "http://c"], "k.s")
    first, second = Progress(READ, nodes, 0.0), Progress(READ, nodes, 0.0)
    first.request(0.0)
    second.request(0.0)
    first.refused(0.0)
    second.refused(0.0)
    assert nodes.address == "http://b"


@pytest.mark.covers("HTTP-22")
def test_repeats_stay_within_the_timeout() -> None:
    call = progress(READ, timeout=1.0)
    assert isinstance(call.refused(100.9), Again)
    with pytest.raises(KeyLoadError):
        call.refused(100.9)


@pytest.mark.covers("HTTP-25")
def test_a_call_out_of_time() -> None:
    for call, code in ((READ, ErrorCode.CANCELLED), (WRITE, ErrorCode.UNKNOWN_WRITE_OUTCOME)):
        with pytest.raises(KeyLoadError) as caught:
            progress(call, timeout=1.0).request(101.0)
        assert (caught.value.code, caught.value.command_id) == (code, call.command_id)


@pytest.mark.covers("HTTP-23")
@pytest.mark.parametrize("code", list(ErrorCode))
def test_a_valid_problem_is_raised(code: ErrorCode) -> None:
    with pytest.raises(KeyLoadError) as caught:
        progress(WRITE, retries=0).answered(answer(code, path="/x", expected="y"), 100.0)
    assert caught.value.code is code
    assert caught.value.problem.path == "/x"
    assert caught.value.command_id == ID


@pytest.mark.covers("HTTP-22", "HTTP-23")
def test_an_exception_tells_place_expectation_example_and_retry() -> None:
    with pytest.raises(KeyLoadError) as caught:
        progress(WRITE, retries=0).answered(
            answer(ErrorCode.VALIDATION, path="/a/0", expected="a text", example={"a": ["x"]}), 100.0
        )
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("Validation: ")
    assert lines[1:] == ["  at /a/0", "  expected a text", '  for example {"a":["x"]}', "  retry never"]
    with pytest.raises(KeyLoadError) as caught:
        progress(WRITE, retries=0).answered(answer(ErrorCode.RECOVERY_REQUIRED, path=""), 100.0)
    assert str(caught.value).splitlines()[1:] == ["  at the whole request", "  retry later"]


BROKEN = [
    Answer(429, None),
    Answer(400, b""),
    Answer(400, b"<html>"),
    Answer(400, b"{}"),
    Answer(404, b"\xff"),
    answer(ErrorCode.CONFLICT, errorCode="Nonsense"),
    answer(ErrorCode.CONFLICT, status=400),
    Answer(500, answer(ErrorCode.CONFLICT).body),
    Answer(302, b""),
    Answer(204, b""),
    Answer(200, None),
    Answer(200, b""),
    Answer(200, b"{"),
    Answer(200, b'{"surprise":1}'),
    Answer(200, b'"\xff"'),
]


@pytest.mark.covers("HTTP-24")
@pytest.mark.parametrize("broken", BROKEN)
def test_what_is_no_answer_leaves_a_write_unknown_and_a_read_lost(broken: Answer) -> None:
    for call, code in ((READ, ErrorCode.OWNERSHIP_LOST), (WRITE, ErrorCode.UNKNOWN_WRITE_OUTCOME)):
        with pytest.raises(KeyLoadError) as caught:
            progress(call, retries=0).answered(broken, 100.0)
        assert caught.value.code is code


@pytest.mark.covers("CON-66", "HTTP-19")
def test_a_doubt_is_ended_by_a_definite_answer_only() -> None:
    call = progress(WRITE, retries=2)
    assert isinstance(call.broken(100.0), Again)
    assert isinstance(call.answered(answer(ErrorCode.OWNERSHIP_LOST), 100.0), Again)
    with pytest.raises(KeyLoadError) as caught:
        call.refused(100.0)
    assert caught.value.code is ErrorCode.UNKNOWN_WRITE_OUTCOME
    call = progress(WRITE)
    assert isinstance(call.broken(100.0), Again)
    with pytest.raises(KeyLoadError) as caught:
        call.answered(answer(ErrorCode.CONFLICT), 100.0)
    assert caught.value.code is ErrorCode.CONFLICT
    call = progress(WRITE)
    assert isinstance(call.broken(100.0), Again)
    assert call.answered(Answer(200, b"true"), 100.0) == Done(True)
    call = progress(WRITE)
    assert isinstance(call.broken(100.0), Again)
    with pytest.raises(KeyLoadError) as caught:
        call.answered(answer(ErrorCode.RESOURCE_EXHAUSTED), 100.0)
    assert caught.value.code is ErrorCode.UNKNOWN_WRITE_OUTCOME


@pytest.mark.covers("HTTP-18", "HTTP-24")
def test_null_is_a_result_where_the_contract_says_so() -> None:
    assert progress(READ).answered(Answer(200, b"null"), 100.0) == Done(None)
    with pytest.raises(KeyLoadError):
        progress(calls.admin_status(), retries=0).answered(Answer(200, b"null"), 100.0)


@pytest.mark.covers("HTTP-27")
def test_numbers_keep_all_digits() -> None:
    text = '{"n":1.000000000000000000000000000000001e5,"big":123456789012345678901234567890}'
    result = {
        "reference": {
            "partition": msgspec.to_builtins(PARTITION),
            "collection": "c",
            "id": "1",
        },
        "revision": 9007199254740993,
        "json": text,
        "redacted": False,
        "redactedFields": [],
    }
    step = progress(READ).answered(Answer(200, msgspec.json.encode(result)), 100.0)
    assert isinstance(step, Done)
    assert (step.value.json, step.value.revision) == (text, 9007199254740993)
    anything: Call[Any] = msgspec.structs.replace(
        READ, decode=msgspec.json.Decoder(Any, float_hook=Decimal).decode
    )
    step = progress(anything).answered(Answer(200, b"[0.1000000000000000000000000000000001]"), 100.0)
    assert step == Done([Decimal("0.1000000000000000000000000000000001")])


@pytest.mark.covers("HTTP-12", "HTTP-22")
def test_write_identities() -> None:
    assert identity(ID.upper()) == ID
    assert identity(None) != identity(None)
    for wrong in ("", "x", "00000000-0000-0000-0000-000000000000"):
        with pytest.raises(ValueError):
            identity(wrong)


@pytest.mark.covers("HTTP-23")
def test_bounds_of_bodies() -> None:
    assert cap(200) == 16_777_216
    assert cap(503) == cap(500) == 65_536


def test_addresses_must_be_http() -> None:
    for wrong in ([], "localhost:5101", ["http://a", "ftp://b"]):
        with pytest.raises(ValueError):
            Nodes(wrong, "k.s")


@pytest.mark.parametrize("key", ["", "k.s\n", "k s", "k\u00e9y"])
def test_a_key_that_no_header_carries_is_refused_at_once(key: str) -> None:
    with pytest.raises(ValueError, match="a key"):
        Nodes("http://a", key)


DEFINITE = {str(code) for code in ErrorCode} - {
    "UnknownWriteOutcome",
    "OwnershipLost",
    "ResourceExhausted",
    "PermissionDenied",
    "Unauthenticated",
    "Corruption",
    "ClockUncertain",
    "RecoveryRequired",
    "Cancelled",
}
REPEATED = {"refused", "broken", "garbage", "UnknownWriteOutcome", "OwnershipLost"}
EVENTS = st.lists(
    st.sampled_from(["refused", "broken", "garbage", "done", *(str(code) for code in ErrorCode)]),
    min_size=1,
    max_size=12,
)


def feed(call: Progress[Any], event: str) -> Done[Any] | Again | KeyLoadError:
    """Tell the call what happened; gives what came of it."""
    try:
        match event:
            case "refused":
                return call.refused(100.0)
            case "broken":
                return call.broken(100.0)
            case "garbage":
                return call.answered(BROKEN[2], 100.0)
            case "done":
                return call.answered(Answer(200, b"true"), 100.0)
            case _:
                return call.answered(answer(ErrorCode(event)), 100.0)
    except KeyLoadError as error:
        return error


@pytest.mark.covers("HTTP-22", "HTTP-24", "CON-66")
@settings(derandomize=True, deadline=None, max_examples=300)
@given(EVENTS, st.integers(0, 5))
def test_every_story_of_a_write_ends_as_the_rules_say(events: list[str], retries: int) -> None:
    """A write whose fate is open is never reported as refused by an answer that does not know it."""
    call = progress(WRITE, retries=retries, timeout=1000)
    doubt = False
    for sent, event in enumerate(events, 1):
        doubt = doubt or event in ("broken", "garbage", "UnknownWriteOutcome")
        end = feed(call, event)
        if event in REPEATED and sent <= retries:
            assert isinstance(end, Again)
            continue
        if event == "done":
            assert end == Done(True)
        else:
            assert isinstance(end, KeyLoadError)
            assert end.command_id == ID
            if event in DEFINITE or not doubt:
                expected = "UnknownWriteOutcome" if event == "refused" else event
            else:
                expected = "UnknownWriteOutcome"
            assert end.code == expected
        return
