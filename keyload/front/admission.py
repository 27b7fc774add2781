"""The HTTP gate: which requests a node takes on at once, by count and by bytes (ADM-1..11, ADM-28..30).

A request reserves before its credential is looked up; a full lane says no at once. Data and control are two
pools, so that saturated data traffic never stops an ack.
"""

from __future__ import annotations

import msgspec

from keyload.contract.admin import CommandAdmissionSnapshot, HttpAdmissionLimits, HttpAdmissionStatus
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.contract.limits import whole
from keyload.contract.operation import AdmissionClass
from keyload.contract.security import PrincipalRecord

BODY_FACTOR = 4
FIXED_BYTES = 4_096
UNKNOWN_INGRESS_BYTES = 16_384
"""What an MCP frame of unknown length reserves before its first byte (ADM-28)."""

DEFAULT_LIMITS = HttpAdmissionLimits(
    max_requests=whole("admission.http.maxRequests"),
    max_reserved_bytes=whole("admission.http.maxReservedBytes"),
    max_tenant_requests=whole("admission.http.maxTenantRequests"),
    max_principal_requests=whole("admission.http.maxPrincipalRequests"),
    reserved_control_requests=whole("admission.http.reservedControlRequests"),
    reserved_control_bytes=whole("admission.http.reservedControlBytes"),
    max_tenant_control_requests=whole("admission.http.maxTenantControlRequests"),
    max_principal_control_requests=whole("admission.http.maxPrincipalControlRequests"),
    max_body_bytes=whole("http.maxBodyBytes"),
    max_control_body_bytes=whole("http.maxControlBodyBytes"),
    heavy_read_reserved_bytes=whole("admission.http.heavyReadReservedBytes"),
    other_reserved_bytes=whole("admission.http.otherReservedBytes"),
)


class McpLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes that MCP frames may hold: while they are received, and decoded in each lane (ADM-28, ADM-30)."""

    max_ingress_bytes: int = whole("mcp.maxIngressBytes")
    max_data_bytes: int = whole("mcp.maxDataBytes")
    max_control_bytes: int = whole("mcp.maxControlBytes")


class LaneFull(KeyLoadError):
    """A lane, tenant or principal has no room now; the answer says when to come again (ADM-9)."""

    def __init__(self, detail: str) -> None:
        super().__init__(ErrorCode.RESOURCE_EXHAUSTED, detail)


class Lease:
    """What one request holds. It is given back exactly once, however often `HttpGate.release` is called."""

    __slots__ = ("charge", "control", "mcp_bytes", "principal", "released", "tenant")

    def __init__(self, control: bool, charge: int, mcp_bytes: int) -> None:
        self.control = control
        self.charge = charge
        self.mcp_bytes = mcp_bytes
        self.tenant: str | None = None
        self.principal: str | None = None
        self.released = False


class Ingress:
    """Bytes reserved for an MCP frame that is being received."""

    __slots__ = ("charge",)

    def __init__(self, charge: int) -> None:
        self.charge = charge


class _Lane:
    """One pool with its limits and what is held of it."""

    def __init__(self, requests: int, space: int, tenant: int, principal: int, mcp_bytes: int) -> None:
        self.max_requests = requests
        self.max_bytes = space
        self.max_tenant = tenant
        self.max_principal = principal
        self.max_mcp_bytes = mcp_bytes
        self.requests = 0
        self.bytes = 0
        self.mcp_bytes = 0
        self.verified_requests = 0
        self.verified_bytes = 0
        self.tenants: dict[str, int] = {}
        self.principals: dict[str, int] = {}


class HttpGate:
    """The gate of one front process; `limits` are its share of the node's (ADM-8)."""

    def __init__(self, limits: HttpAdmissionLimits = DEFAULT_LIMITS, mcp: McpLimits | None = None) -> None:
        mcp = mcp or McpLimits()
        self.limits = limits
        self._max_ingress = mcp.max_ingress_bytes
        self._ingress = 0
        self._data = _Lane(
            limits.max_requests,
            limits.max_reserved_bytes,
            limits.max_tenant_requests,
            limits.max_principal_requests,
            mcp.max_data_bytes,
        )
        self._control = _Lane(
            limits.reserved_control_requests,
            limits.reserved_control_bytes,
            limits.max_tenant_control_requests,
            limits.max_principal_control_requests,
            mcp.max_control_bytes,
        )

    def body_cap(self, admission_class: AdmissionClass) -> int:
        """Largest body of the class, in bytes."""
        control = admission_class == "control"
        return self.limits.max_control_body_bytes if control else self.limits.max_body_bytes

    def reserve(self, admission_class: AdmissionClass, body: int | None, *, mcp: bool = False) -> Lease:
        """Take a place for a request whose body is `body` bytes long, None when that is unknown.

        Raises ResourceExhausted for a body above the cap, and LaneFull. `mcp` also takes the memory of a
        decoded frame (ADM-30).
        """
        cap = self.body_cap(admission_class)
        if body is not None and body > cap:
            raise body_too_large(cap)
        length = cap if body is None else body
        charge = BODY_FACTOR * length + self._working_set(admission_class) + FIXED_BYTES
        lease = Lease(admission_class == "control", charge, BODY_FACTOR * length if mcp else 0)
        lane = self._lane(lease)
        if lane.requests >= lane.max_requests or lane.bytes + charge > lane.max_bytes:
            raise LaneFull("The node holds as many requests of this lane as it can.")
        if lane.mcp_bytes + lease.mcp_bytes > lane.max_mcp_bytes:
            raise LaneFull("The node holds as many tool calls of this lane as it can.")
        lane.requests += 1
        lane.bytes += charge
        lane.mcp_bytes += lease.mcp_bytes
        return lease

    def verify(self, lease: Lease, principal: PrincipalRecord) -> None:
        """Count the request for its tenant and principal, once, after its credential was verified (ADM-5)."""
        lane = self._lane(lease)
        if lane.tenants.get(principal.tenant_id, 0) >= lane.max_tenant:
            raise LaneFull("The tenant has as many requests in this lane as it may.")
        if lane.principals.get(principal.id, 0) >= lane.max_principal:
            raise LaneFull("The principal has as many requests in this lane as it may.")
        lease.tenant = principal.tenant_id
        lease.principal = principal.id
        lane.tenants[principal.tenant_id] = lane.tenants.get(principal.tenant_id, 0) + 1
        lane.principals[principal.id] = lane.principals.get(principal.id, 0) + 1
        lane.verified_requests += 1
        lane.verified_bytes += lease.charge

    def release(self, lease: Lease) -> None:
        """Give everything back (ADM-7); a second time changes nothing."""
        if lease.released:
            return
        lease.released = True
        lane = self._lane(lease)
        lane.requests -= 1
        lane.bytes -= lease.charge
        lane.mcp_bytes -= lease.mcp_bytes
        if lease.tenant is not None and lease.principal is not None:
            _decrement(lane.tenants, lease.tenant)
            _decrement(lane.principals, lease.principal)
            lane.verified_requests -= 1
            lane.verified_bytes -= lease.charge

    def enter(self, body: int | None) -> Ingress:
        """Reserve room to receive an MCP frame (ADM-28); LaneFull when there is none."""
        if body is not None and body > self.limits.max_body_bytes:
            raise body_too_large(self.limits.max_body_bytes)
        ingress = Ingress(0)
        self._charge_ingress(ingress, UNKNOWN_INGRESS_BYTES if body is None else BODY_FACTOR * body)
        return ingress

    def grow(self, ingress: Ingress, received: int) -> None:
        """Have room for `received` bytes of a frame; LaneFull when there is none."""
        self._charge_ingress(ingress, max(ingress.charge, BODY_FACTOR * received))

    def leave(self, ingress: Ingress) -> None:
        """Give the ingress part back; a second time changes nothing."""
        self._charge_ingress(ingress, 0)

    def status(self) -> HttpAdmissionStatus:
        """Limits and counts, without names (ADM-31)."""
        data, control = self._data, self._control
        tenants = len(data.tenants.keys() | control.tenants.keys())
        principals = len(data.principals.keys() | control.principals.keys())
        return HttpAdmissionStatus(
            limits=self.limits,
            node=CommandAdmissionSnapshot(
                commands=data.requests,
                retained_bytes=data.bytes,
                control_commands=control.requests,
                control_retained_bytes=control.bytes,
                active_tenant_scopes=tenants,
                active_principal_scopes=principals,
            ),
            verified_scopes=CommandAdmissionSnapshot(
                commands=data.verified_requests,
                retained_bytes=data.verified_bytes,
                control_commands=control.verified_requests,
                control_retained_bytes=control.verified_bytes,
                active_tenant_scopes=tenants,
                active_principal_scopes=principals,
            ),
        )

    @property
    def idle(self) -> bool:
        """Whether nothing at all is held."""
        lanes = (self._data, self._control)
        held = sum(
            lane.requests + lane.bytes + lane.mcp_bytes + lane.verified_requests + lane.verified_bytes
            for lane in lanes
        )
        return held == 0 and self._ingress == 0 and not any(lane.tenants or lane.principals for lane in lanes)

    def _lane(self, lease: Lease) -> _Lane:
        return self._control if lease.control else self._data

    def _working_set(self, admission_class: AdmissionClass) -> int:
        if admission_class == "control":
            return 0
        heavy = admission_class == "data-heavy"
        return self.limits.heavy_read_reserved_bytes if heavy else self.limits.other_reserved_bytes

    def _charge_ingress(self, ingress: Ingress, charge: int) -> None:
        if self._ingress + charge - ingress.charge > self._max_ingress and charge > ingress.charge:
            raise LaneFull("The node receives as many tool calls as it can.")
        self._ingress += charge - ingress.charge
        ingress.charge = charge


def body_too_large(cap: int) -> KeyLoadError:
    """The refusal of a body above its lane's cap (ADM-10)."""
    return KeyLoadError(ErrorCode.RESOURCE_EXHAUSTED, f"The body is larger than {cap} bytes.")


def _decrement(counts: dict[str, int], name: str) -> None:
    counts[name] -= 1
    if counts[name] == 0:
        del counts[name]
