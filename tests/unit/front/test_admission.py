"""The gate by itself, against a slow model, and the numbers of the specification."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.contract.operations import OPERATIONS
from keyload.contract.security import PrincipalRecord
from keyload.front.admission import DEFAULT_LIMITS, HttpGate, LaneFull, Lease, McpLimits
from keyload.front.routes import admission_class, find, normal_path

Kind = Literal["control", "data-heavy", "data-other"]


def caller(name: str, tenant: str = "t") -> PrincipalRecord:
    return PrincipalRecord(id=name, tenant_id=tenant, grants=(), field_grants=())


@pytest.mark.covers("ADM-6", "ADM-8", "ADM-9", "CON-178")
def test_31_heavy_reads_fit_and_the_32nd_is_refused_at_once() -> None:
    gate = HttpGate()
    leases = [gate.reserve("data-heavy", 0) for _ in range(31)]
    with pytest.raises(LaneFull):
        gate.reserve("data-heavy", 0)
    assert gate.status().node.retained_bytes == 31 * (67_108_864 + 4_096)
    gate.reserve("data-other", 0)  # smaller ones still fit
    gate.reserve("control", 0)
    gate.release(leases[0])
    gate.reserve("data-heavy", 0)


@pytest.mark.covers("ADM-8", "ADM-5")
def test_a_principal_is_refused_at_its_129th_request() -> None:
    gate = HttpGate()
    for _ in range(128):
        gate.verify(gate.reserve("data-other", 0), caller("a"))
    lease = gate.reserve("data-other", 0)
    with pytest.raises(LaneFull):
        gate.verify(lease, caller("a"))
    gate.verify(lease, caller("b"))


@pytest.mark.covers("ADM-5", "ADM-9")
def test_a_tenant_is_refused_at_its_257th_request_and_its_33rd_control_request() -> None:
    gate = HttpGate()
    for number in range(256):
        gate.verify(gate.reserve("data-other", 0), caller(f"p{number}"))
    with pytest.raises(LaneFull):
        gate.verify(gate.reserve("data-other", 0), caller("another"))
    gate.verify(gate.reserve("data-other", 0), caller("another", "u"))
    for number in range(32):
        gate.verify(gate.reserve("control", 0), caller(f"p{number}"))
    with pytest.raises(LaneFull):
        gate.verify(gate.reserve("control", 0), caller("another"))


@pytest.mark.covers("ADM-9", "CON-177")
def test_full_data_lanes_leave_the_control_lane_open() -> None:
    gate = HttpGate()
    for _ in range(512):
        gate.reserve("data-other", 0)
    with pytest.raises(LaneFull):
        gate.reserve("data-other", 0)
    for _ in range(64):
        gate.reserve("control", 0)
    with pytest.raises(LaneFull):
        gate.reserve("control", 0)


@pytest.mark.covers("ADM-6", "ADM-10", "CON-178")
def test_the_charge_follows_the_declared_length_or_the_cap() -> None:
    def charge(kind: Kind, body: int | None) -> int:
        return HttpGate().reserve(kind, body).charge

    assert charge("data-other", 100) == 4 * 100 + 1_048_576 + 4_096
    assert charge("data-heavy", None) == 4 * 8_388_608 + 67_108_864 + 4_096
    assert charge("control", None) == 4 * 65_536 + 4_096
    assert charge("control", 65_536) == 4 * 65_536 + 4_096
    for kind, body in (("control", 65_537), ("data-other", 8_388_609)):
        with pytest.raises(KeyLoadError) as caught:
            charge(kind, body)  # type: ignore[arg-type]
        assert caught.value.code is ErrorCode.RESOURCE_EXHAUSTED
        assert not isinstance(caught.value, LaneFull)


@pytest.mark.covers("ADM-7", "ADM-11")
def test_a_lease_is_given_back_once_and_leaves_nothing_behind() -> None:
    gate = HttpGate()
    first, second = gate.reserve("data-other", 5), gate.reserve("control", 5)
    gate.verify(first, caller("a"))
    gate.verify(second, caller("b", "u"))
    assert gate.status().node.active_tenant_scopes == 2
    for _ in range(2):
        gate.release(first)
        gate.release(second)
    assert gate.idle
    assert gate.status().node == gate.status().verified_scopes
    assert gate.status().node.active_principal_scopes == 0


@pytest.mark.covers("ADM-31")
def test_verified_scopes_are_the_share_of_verified_callers() -> None:
    gate = HttpGate()
    gate.reserve("data-other", 0)
    gate.verify(gate.reserve("data-other", 0), caller("a"))
    status = gate.status()
    assert (status.node.commands, status.verified_scopes.commands) == (2, 1)
    assert status.node.retained_bytes == 2 * status.verified_scopes.retained_bytes
    assert status.limits == DEFAULT_LIMITS


@pytest.mark.covers("ADM-28")
def test_ingress_starts_small_grows_with_the_bytes_and_is_bounded() -> None:
    gate = HttpGate(mcp=McpLimits(max_ingress_bytes=100_000))
    ingress = gate.enter(None)
    assert ingress.charge == 16_384
    gate.grow(ingress, 1_000)
    assert ingress.charge == 16_384
    gate.grow(ingress, 20_000)
    assert ingress.charge == 80_000
    with pytest.raises(LaneFull):
        gate.enter(5_001)
    with pytest.raises(LaneFull):
        gate.grow(ingress, 25_001)
    gate.leave(ingress)
    gate.leave(ingress)
    assert gate.idle
    with pytest.raises(KeyLoadError):
        gate.enter(8_388_609)


@pytest.mark.covers("ADM-30")
def test_decoded_frames_are_bounded_apart() -> None:
    gate = HttpGate(mcp=McpLimits(max_control_bytes=1_000))
    lease = gate.reserve("control", 200, mcp=True)
    with pytest.raises(LaneFull):
        gate.reserve("control", 51, mcp=True)
    gate.reserve("control", 51)
    gate.release(lease)
    gate.reserve("control", 51, mcp=True)


CONTROL = {
    "/v1/queues/delivery",
    "/v1/subscriptions/delivery",
    "/v1/admin/dispatch",
    "/v1/blobs/uploads/abort",
    "/v1/blobs/reclaim",
}


@pytest.mark.covers("ADM-1", "ADM-2", "ADM-3", "CON-177")
def test_lanes_of_paths() -> None:
    def of(path: str) -> str:
        normal = normal_path(path)
        return admission_class(normal, find(normal))

    assert of("/v1/admin/dispatch") == of("/V1/Admin/Dispatch/") == "control"
    assert of("/v1/commands") == of("/v1/status") == of("/v1/nothing") == "data-other"
    assert of("/v1/query") == of("/v1/QUERY/anything") == "data-heavy"
    classes = {"control": "control", "delivery": "control", "heavy-read": "data-heavy", "data": "data-other"}
    for operation in OPERATIONS.values():
        assert of(operation.http_route) == operation.admission_class == classes[operation.lane]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["control", "data-heavy", "data-other"]),
        st.one_of(st.none(), st.integers(0, 40)),
        st.sampled_from("ab"),
        st.sampled_from("tu"),
        st.integers(0, 3),
    ),
    max_size=60,
)
SMALL = msgspec.structs.replace(
    DEFAULT_LIMITS,
    max_requests=6,
    max_reserved_bytes=60_000,
    max_tenant_requests=4,
    max_principal_requests=3,
    reserved_control_requests=4,
    reserved_control_bytes=18_000,
    max_tenant_control_requests=3,
    max_principal_control_requests=2,
    max_body_bytes=30,
    max_control_body_bytes=20,
    heavy_read_reserved_bytes=10_000,
    other_reserved_bytes=100,
)


class Model:
    """Keeps a list of what is held and adds it up anew for every question."""

    def __init__(self) -> None:
        self.held: list[dict[str, Any]] = []

    def lane(self, control: bool) -> list[dict[str, Any]]:
        return [entry for entry in self.held if entry["control"] == control]

    def admits(self, kind: str, body: int | None) -> bool:
        control = kind == "control"
        cap = 20 if control else 30
        if body is not None and body > cap:
            return False
        held = self.lane(control)
        space = sum(entry["charge"] for entry in held) + self.charge(kind, body)
        return len(held) < (4 if control else 6) and space <= (18_000 if control else 60_000)

    def charge(self, kind: str, body: int | None) -> int:
        cap = 20 if kind == "control" else 30
        working = {"control": 0, "data-heavy": 10_000, "data-other": 100}[kind]
        return 4 * (cap if body is None else body) + working + 4_096

    def verifies(self, control: bool, name: str, tenant: str) -> bool:
        held = [entry for entry in self.lane(control) if entry["verified"]]
        tenants = sum(entry["tenant"] == tenant for entry in held)
        principals = sum(entry["name"] == name for entry in held)
        return tenants < (3 if control else 4) and principals < (2 if control else 3)


@pytest.mark.covers("ADM-5", "ADM-6", "ADM-7", "ADM-9", "ADM-11")
@settings(derandomize=True, deadline=None, max_examples=200)
@given(STEPS)
def test_the_gate_behaves_like_the_model(steps: list[tuple[Any, int | None, str, str, int]]) -> None:
    gate, model = HttpGate(SMALL), Model()
    leases: list[tuple[Lease, dict[str, Any]]] = []
    for kind, body, name, tenant, releases in steps:
        principal = f"{name}@{tenant}"
        admitted = model.admits(kind, body)
        if not admitted:
            with pytest.raises(KeyLoadError):
                gate.reserve(kind, body)
        else:
            lease = gate.reserve(kind, body)
            entry = {"control": kind == "control", "charge": model.charge(kind, body), "verified": False}
            model.held.append(entry)
            leases.append((lease, entry))
            if model.verifies(entry["control"], principal, tenant):
                gate.verify(lease, caller(principal, tenant))
                entry.update(verified=True, name=principal, tenant=tenant)
            else:
                with pytest.raises(LaneFull):
                    gate.verify(lease, caller(principal, tenant))
        for _ in range(min(releases, len(leases))):
            lease, entry = leases.pop(0)
            gate.release(lease)
            gate.release(lease)
            model.held.remove(entry)
        status = gate.status().node
        assert status.commands == len(model.lane(False))
        assert status.control_retained_bytes == sum(entry["charge"] for entry in model.lane(True))
        verified = [entry for entry in model.held if entry["verified"]]
        assert status.active_principal_scopes == len({entry["name"] for entry in verified})
        assert gate.idle == (not model.held)
