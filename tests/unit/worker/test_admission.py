"""The command gate of one worker: bounds by lane, tenant and principal (ADM-12..15)."""

from __future__ import annotations

import msgspec
import pytest

from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.link.launch import CommandLimits
from keyload.link.messages import Command
from keyload.worker.admission import CommandGate
from keyload.worker.calls import CommandCall


def call(principal: str = "p", *, payload: bytes = b"", control: bool = False) -> CommandCall:
    return CommandCall(
        Command(1, 1, "op", principal, 1, b"i" * 16, b"f" * 32, None, payload, control), 0, 1, 0.0
    )


def refused(gate: CommandGate, item: CommandCall, tenant: str = "t") -> bool:
    before = (gate.data.commands, gate.data.bytes, gate.control.commands, gate.control.bytes)
    with pytest.raises(KeyLoadError) as caught:
        gate.admit(item, tenant)
    assert (gate.data.commands, gate.data.bytes, gate.control.commands, gate.control.bytes) == before
    return caught.value.code is ErrorCode.RESOURCE_EXHAUSTED


@pytest.mark.covers("ADM-12", "ADM-15")
@pytest.mark.parametrize(
    ("limits", "tenants", "principals"),
    [
        (CommandLimits(max_commands=2), ["a", "b", "c"], ["x", "y", "z"]),
        (CommandLimits(max_tenant_commands=2), ["a", "a", "a"], ["x", "y", "z"]),
        (CommandLimits(max_principal_commands=2), ["a", "b", "c"], ["x", "x", "x"]),
        (CommandLimits(max_retained_bytes=2 * (4 * 10 + 4096)), ["a", "b", "c"], ["x", "y", "z"]),
    ],
)
def test_exactly_at_a_bound_passes_and_one_more_is_refused(
    limits: CommandLimits, tenants: list[str], principals: list[str]
) -> None:
    gate = CommandGate(limits)
    calls = [call(principal, payload=b"0123456789") for principal in principals]
    gate.admit(calls[0], tenants[0])
    gate.admit(calls[1], tenants[1])
    assert refused(gate, calls[2], tenants[2])
    gate.release(calls[0])
    gate.admit(calls[2], tenants[2])


@pytest.mark.covers("ADM-12")
def test_the_charge_is_four_times_the_payload_and_a_base() -> None:
    gate = CommandGate(CommandLimits())
    gate.admit(call(payload=b"x" * 100), "t")
    assert gate.data.bytes == 4 * 100 + 4096


@pytest.mark.covers("ADM-12", "ADM-13")
def test_a_full_data_lane_refuses_no_control_command() -> None:
    gate = CommandGate(CommandLimits(max_commands=1))
    gate.admit(call(), "t")
    assert refused(gate, call())
    gate.admit(call(control=True), "t")
    assert gate.control.commands == 1


@pytest.mark.covers("ADM-12")
def test_a_control_payload_at_its_bound_passes_and_one_byte_more_is_refused() -> None:
    gate = CommandGate(CommandLimits(max_control_payload_bytes=8))
    gate.admit(call(payload=b"12345678", control=True), "t")
    assert refused(gate, call(payload=b"123456789", control=True))


def test_release_is_exact_and_happens_once() -> None:
    gate = CommandGate(CommandLimits())
    item = call()
    gate.admit(item, "t")
    gate.release(item)
    gate.release(item)
    assert (gate.data.commands, gate.data.bytes) == (0, 0)
    assert not gate.data.tenants
    assert not gate.data.principals


@pytest.mark.covers("ADM-19")
def test_defaults_are_those_of_the_contract() -> None:
    defaults = msgspec.structs.asdict(CommandLimits())
    assert defaults["max_commands"] == 1024
    assert min(defaults.values()) > 0
