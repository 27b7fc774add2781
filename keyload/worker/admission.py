"""The second admission gate: what one worker holds of commands, by lane, tenant and principal
(ADM-12..ADM-15).

A command is charged when it enters the queue of the shard's leader and released when it is answered.
"""

from __future__ import annotations

from collections import Counter

from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.link.launch import CommandLimits
from keyload.worker.calls import CommandCall

CHARGE_FACTOR = 4
CHARGE_BASE = 4096


class _Lane:
    """Counts of one lane against its bounds."""

    def __init__(
        self, name: str, commands: int, total_bytes: int, per_tenant: int, per_principal: int
    ) -> None:
        self.name = name
        self.limit_commands = commands
        self.limit_bytes = total_bytes
        self.limit_tenant = per_tenant
        self.limit_principal = per_principal
        self.commands = 0
        self.bytes = 0
        self.tenants: Counter[str] = Counter()
        self.principals: Counter[str] = Counter()

    def full(self, charge: int, tenant: str, principal: str) -> str | None:
        """The bound that one more command would pass, None when it fits."""
        if self.commands >= self.limit_commands:
            return "commands"
        if self.bytes + charge > self.limit_bytes:
            return "command bytes"
        if self.tenants[tenant] >= self.limit_tenant:
            return "commands of one tenant"
        if self.principals[principal] >= self.limit_principal:
            return "commands of one principal"
        return None

    def add(self, charge: int, tenant: str, principal: str) -> None:
        self.commands += 1
        self.bytes += charge
        self.tenants[tenant] += 1
        self.principals[principal] += 1

    def remove(self, charge: int, tenant: str, principal: str) -> None:
        self.commands -= 1
        self.bytes -= charge
        for counter, key in ((self.tenants, tenant), (self.principals, principal)):
            counter[key] -= 1
            if not counter[key]:
                del counter[key]


class CommandGate:
    """Admits commands into this worker and lets them go again."""

    def __init__(self, limits: CommandLimits) -> None:
        self.limits = limits
        self.data = _Lane(
            "data",
            limits.max_commands,
            limits.max_retained_bytes,
            limits.max_tenant_commands,
            limits.max_principal_commands,
        )
        self.control = _Lane(
            "control",
            limits.reserved_control_commands,
            limits.reserved_control_bytes,
            limits.max_tenant_control_commands,
            limits.max_principal_control_commands,
        )

    def admit(self, call: CommandCall, tenant: str) -> None:
        """Charge one command; raises ResourceExhausted when a bound is reached, with nothing changed."""
        command = call.command
        lane = self.control if command.control else self.data
        if command.control and len(command.payload) > self.limits.max_control_payload_bytes:
            raise KeyLoadError(ErrorCode.RESOURCE_EXHAUSTED, "The payload is too large for the control lane.")
        charge = CHARGE_FACTOR * len(command.payload) + CHARGE_BASE
        reason = lane.full(charge, tenant, command.principal)
        if reason is not None:
            raise KeyLoadError(
                ErrorCode.RESOURCE_EXHAUSTED,
                f"The {lane.name} lane of the shard's leader holds as many {reason} as it may; repeat later.",
            )
        lane.add(charge, tenant, command.principal)
        call.held = charge
        call.tenant = tenant

    def release(self, call: CommandCall) -> None:
        """Give back what `admit` charged; a call that was not charged changes nothing."""
        if call.held:
            command = call.command
            lane = self.control if command.control else self.data
            lane.remove(call.held, call.tenant, command.principal)
            call.held = 0
