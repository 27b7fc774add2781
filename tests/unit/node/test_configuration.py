"""Settings: file, environment, secrets, and what they must agree on."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import zmq

from keyload.contract.limits import LIMITS
from keyload.node.configuration import SettingsError, load, settings_of
from keyload.node.launching import guard_digest, identity, worker_launch
from keyload.node.settings import NodeSettings

WITHOUT_MODEL = ("read.maxConcurrentAnalytical", "outbox.reservedRecords", "outbox.reservedBytes")
"""Settings of models that this version does not have: queries, searches, projections."""
INCARNATION = "0d9c4b0a-8f0e-4c55-9b42-5f4a6f1c1f00"
SIGNING_KEY = base64.b64encode(bytes(range(32))).decode()
ADMIN_KEY = "root." + "s" * 32


def alone(**changes: Any) -> dict[str, Any]:
    """The settings of a node alone, in the form of the file."""
    tree: dict[str, Any] = {
        "dataDirectory": "data",
        "nodeId": "node1",
        "publicEndpoint": "http://127.0.0.1:5101",
        "allowLoopbackHttp": True,
        "incarnation": INCARNATION,
        "signingKey": SIGNING_KEY,
        "adminKey": ADMIN_KEY,
    }
    return tree | changes


def voters(count: int = 3, **changes: Any) -> dict[str, Any]:
    """The settings of the first of several voters."""
    pairs = [zmq.curve_keypair() for _ in range(count)]
    peers = [
        {
            "id": f"node{number}",
            "publicEndpoint": f"http://127.0.0.1:{5100 + number}",
            "peerAddress": f"127.0.0.1:{5190 + 10 * number}",
            "publicKey": public.decode(),
        }
        for number, (public, _) in enumerate(pairs, 1)
    ]
    return alone(peers=peers, peerSecretKey=pairs[0][1].decode()) | changes


def written(directory: Path, tree: Any) -> Path:
    path = directory / "settings.json"
    path.write_text(tree if isinstance(tree, str) else json.dumps(tree), encoding="utf-8")
    return path


def fault(tree: dict[str, Any]) -> str:
    with pytest.raises(SettingsError) as caught:
        settings_of(tree)
    return str(caught.value)


@pytest.mark.covers("CLI-8", "CLI-9", "CLU-1", "ADM-21")
def test_a_node_alone_needs_five_settings_and_has_the_documented_defaults(tmp_path: Path) -> None:
    settings = load(written(tmp_path, alone()), {})
    assert settings.peers == ()
    assert settings.number == 1
    assert (settings.workers, settings.data_shards) == (1, 3)
    assert settings.admission.http.max_requests == 512
    assert settings.admission.command.max_retained_bytes == 134_217_728
    assert settings.timings.election_ms_max == 2000
    assert settings.maximum_bytes == 64 << 30


@pytest.mark.covers("CLI-9")
@pytest.mark.parametrize("name", ["dataDirectory", "nodeId", "publicEndpoint", "incarnation", "signingKey"])
def test_a_needed_setting_that_is_missing_is_named(name: str) -> None:
    tree = alone()
    del tree[name]
    assert fault(tree) == f"Setting {name}: is needed."


@pytest.mark.covers("CLU-29", "CLI-11")
def test_the_scrape_token_is_a_secret_of_visible_characters(tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("t" * 32 + "\n", encoding="ascii")
    secret.chmod(0o600)
    assert load(written(tmp_path, alone(scrapeTokenFile=str(secret))), {}).scrape_token == "t" * 32
    environment = {"KEYLOAD__SCRAPE_TOKEN_FILE": str(secret)}
    assert load(written(tmp_path, alone()), environment).scrape_token == "t" * 32
    secret.chmod(0o640)
    with pytest.raises(SettingsError, match="scrapeTokenFile: others may read"):
        load(written(tmp_path, alone(scrapeTokenFile=str(secret))), {})
    for token in ("t" * 31, "t" * 513, "t" * 31 + " ", "t" * 32 + "\u00e9"):
        assert fault(alone(scrapeToken=token)) == (
            "Setting scrapeToken: expected 32 to 512 visible ASCII characters."
        )


@pytest.mark.covers("CLI-8")
def test_environment_wins_over_the_file(tmp_path: Path) -> None:
    path = written(
        tmp_path, alone(workers=1, admission={"http": {"maxRequests": 10, "reservedControlRequests": 2}})
    )
    environment = {
        "KEYLOAD__ADMISSION__HTTP__MAX_REQUESTS": "99",
        "KEYLOAD__WORKERS": "2",
        "KEYLOAD__ALLOW_PRIVATE_NETWORK_HTTP": "true",
        "KEYLOAD_SCALAR": "1",
    }
    settings = load(path, environment)
    assert settings.admission.http.max_requests == 99
    assert settings.admission.http.reserved_control_requests == 2
    assert (settings.workers, settings.data_shards) == (2, 6)
    assert settings.allow_private_network_http is True


@pytest.mark.covers("CLI-8")
def test_peers_come_from_the_environment_as_json(tmp_path: Path) -> None:
    cluster = voters()
    environment = {
        "KEYLOAD__PEERS": json.dumps(cluster["peers"]),
        "KEYLOAD__PEER_SECRET_KEY": cluster["peerSecretKey"],
    }
    assert len(load(written(tmp_path, alone()), environment).peers) == 3


@pytest.mark.covers("CLI-8", "CLI-10")
@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("KEYLOAD__WORKERS", ""),
        ("KEYLOAD__WORKERS", "two"),
        ("KEYLOAD__WORKERS", "0"),
        ("KEYLOAD__NOTHING", "1"),
        ("KEYLOAD__ADMISSION", "1"),
        ("KEYLOAD__ADMISSION__HTTP__NOTHING", "1"),
        ("KEYLOAD__NODE_ID", ""),
        ("KEYLOAD__", ""),
        ("KEYLOAD__PEERS", "[{"),
        ("KEYLOAD__NODE_ID_FILE", "name"),
    ],
)
def test_a_wrong_environment_variable_is_refused(tmp_path: Path, variable: str, value: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(written(tmp_path, alone()), {variable: value})
    message = str(caught.value)
    assert variable in message or "nodeId" in message
    assert SIGNING_KEY not in message


@pytest.mark.covers("CLI-10", "CLU-5")
@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"unknown": 1}, "unknown"),
        ({"admission": {"http": {"unknown": 1}}}, "admission.http.unknown"),
        ({"workers": "3"}, "workers"),
        ({"workers": 0}, "workers"),
        ({"workers": 65}, "workers"),
        ({"workers": True}, "workers"),
        ({"shards": 1025}, "shards"),
        ({"admission": {"command": {"maxCommands": 0}}}, "admission.command.maxCommands"),
        ({"http": {"maxBodyBytes": 33_554_433}}, "http.maxBodyBytes"),
        ({"http": {"maxBodyBytes": 100}}, "http.maxControlBodyBytes"),
        ({"outbox": {"whenFull": "explode"}}, "outbox.whenFull"),
        ({"nodeId": " "}, "nodeId"),
        ({"nodeId": "a" * 257}, "nodeId"),
        ({"incarnation": "00000000-0000-0000-0000-000000000000"}, "incarnation"),
        ({"incarnation": "nothing"}, "incarnation"),
        ({"signingKey": base64.b64encode(bytes(31)).decode()}, "signingKey"),
        ({"signingKey": "not base64"}, "signingKey"),
        ({"adminKey": "root." + "s" * 31}, "adminKey"),
        ({"adminKey": "user." + "s" * 32}, "adminKey"),
        ({"adminKey": "root." + "s" * 31 + "\n"}, "adminKey"),
        ({"peerSecretKey": "x"}, "peerSecretKey"),
        ({"listen": "nothing"}, "listen"),
    ],
)
def test_one_message_names_the_wrong_setting(change: dict[str, Any], name: str) -> None:
    assert fault(alone(**change)).startswith(f"Setting {name}: ")


@pytest.mark.covers("CLI-10", "CLU-3", "TST-5")
@pytest.mark.parametrize(
    "change",
    [
        {"nodeId": "a" * 256},
        {"workers": 64},
        {"shards": 1024},
        {"http": {"maxBodyBytes": 33_554_432}},
        {"http": {"maxBodyBytes": 65_536}},
        {"adminKey": "root." + "s" * 507},
    ],
)
def test_a_value_exactly_at_its_bound_passes(change: dict[str, Any]) -> None:
    assert isinstance(settings_of(alone(**change)), NodeSettings)


@pytest.mark.covers("CLU-4")
@pytest.mark.parametrize(
    ("timings", "name"),
    [
        ({"heartbeatMs": 201}, "timings.electionMsMin"),
        ({"electionMsMin": 2000}, "timings.electionMsMax"),
        ({"tickMs": 101}, "timings.tickMs"),
    ],
)
def test_timings_fit_each_other(timings: dict[str, int], name: str) -> None:
    assert fault(alone(timings=timings)).startswith(f"Setting {name}: ")
    assert settings_of(alone(timings={"heartbeatMs": 200})).timings.heartbeat_ms == 200


@pytest.mark.covers("CLU-2")
@pytest.mark.parametrize(
    ("endpoint", "changes", "accepted"),
    [
        ("https://db.example:443", {"listen": "0.0.0.0:8080"}, True),
        ("https://db.example:443", {}, False),
        ("http://127.0.0.1:5101", {}, True),
        ("http://[::1]:5101", {}, True),
        ("http://127.0.0.1:5101", {"allowLoopbackHttp": False}, False),
        ("http://10.1.2.3:80", {}, False),
        ("http://10.1.2.3:80", {"allowPrivateNetworkHttp": True}, True),
        ("http://93.184.216.34:80", {"allowPrivateNetworkHttp": True}, False),
        ("http://127.0.0.1:5101/", {}, False),
        ("http://user@127.0.0.1:5101", {}, False),
        ("http://127.0.0.1:5101?a=b", {}, False),
        ("http://127.0.0.1:5101#a", {}, False),
        ("ftp://127.0.0.1:5101", {}, False),
        ("http://127.0.0.1:99999", {}, False),
        ("127.0.0.1:5101", {}, False),
    ],
)
def test_public_origins(endpoint: str, changes: dict[str, Any], accepted: bool) -> None:
    tree = alone(publicEndpoint=endpoint, **changes)
    if accepted:
        assert settings_of(tree).public_endpoint == endpoint
    else:
        assert fault(tree).startswith(("Setting publicEndpoint: ", "Setting listen: "))


@pytest.mark.covers("CLU-1")
def test_voters_are_odd_in_number_and_contain_the_node() -> None:
    assert settings_of(voters(3)).number == 1
    assert settings_of(voters(5)).number == 1
    assert "odd number" in fault(voters(1))
    assert "odd number" in fault(voters(2))
    assert "odd number" in fault(voters(4))
    assert "not among" in fault(voters(nodeId="node9"))


@pytest.mark.covers("CLU-1", "CLU-3", "CLU-5")
@pytest.mark.parametrize("member", ["id", "publicEndpoint", "peerAddress", "publicKey"])
def test_voters_are_distinct(member: str) -> None:
    tree = voters()
    tree["peers"][2][member] = tree["peers"][1][member]
    assert fault(tree) == f"Setting peers: {member} must differ between all voters."


@pytest.mark.covers("CLU-1", "CLU-3")
def test_the_own_entry_fits_the_node() -> None:
    other = zmq.curve_keypair()[1].decode()
    assert fault(voters(peerSecretKey=other)).startswith("Setting peerSecretKey: does not belong")
    assert fault(voters(publicEndpoint="http://127.0.0.1:9")).startswith("Setting publicEndpoint: differs")
    tree = voters()
    del tree["peerSecretKey"]
    assert fault(tree) == "Setting peerSecretKey: is needed in a cluster."


@pytest.mark.covers("CLU-1")
def test_peer_ports_of_one_host_leave_room_for_every_worker() -> None:
    assert settings_of(voters(workers=10)).workers == 10
    assert "as far apart" in fault(voters(workers=11))


@pytest.mark.covers("CLI-11")
def test_secrets_come_from_private_files(tmp_path: Path) -> None:
    secret = tmp_path / "signing"
    secret.write_text(SIGNING_KEY + "\n", encoding="utf-8")
    secret.chmod(0o600)
    tree = alone(signingKeyFile=str(secret))
    del tree["signingKey"]
    path = written(tmp_path, tree)
    assert load(path, {}).signing_key == SIGNING_KEY
    for mode in (0o640, 0o604, 0o620):
        secret.chmod(mode)
        with pytest.raises(SettingsError, match="signingKeyFile: others may read"):
            load(path, {})


@pytest.mark.covers("CLI-11", "CLI-8")
def test_a_secret_is_given_once_but_the_environment_wins(tmp_path: Path) -> None:
    secret = tmp_path / "signing"
    secret.write_text(SIGNING_KEY, encoding="utf-8")
    secret.chmod(0o600)
    with pytest.raises(SettingsError, match="given twice"):
        load(written(tmp_path, alone(signingKeyFile=str(secret))), {})
    other = base64.b64encode(bytes(32)).decode()
    assert load(written(tmp_path, alone()), {"KEYLOAD__SIGNING_KEY": other}).signing_key == other
    assert load(
        written(tmp_path, alone(signingKey="x")), {"KEYLOAD__SIGNING_KEY_FILE": str(secret)}
    ).signing_key


@pytest.mark.covers("CLI-11")
@pytest.mark.parametrize("kind", ["missing", "directory", "huge", "binary"])
def test_a_secret_file_that_is_none_is_refused(tmp_path: Path, kind: str) -> None:
    secret = tmp_path / "secret"
    if kind == "directory":
        secret.mkdir(mode=0o700)
    elif kind != "missing":
        secret.write_bytes(b"x" * 4097 if kind == "huge" else b"\xff\xfe")
        secret.chmod(0o600)
    with pytest.raises(SettingsError, match="signingKeyFile"):
        load(written(tmp_path, alone()), {"KEYLOAD__SIGNING_KEY_FILE": str(secret)})


@pytest.mark.covers("CLI-10")
@pytest.mark.parametrize("text", ["", "{", "[]", '{"workers":1,"workers":2}', '{"workers":NaN}', "\ufeff{}"])
def test_a_file_that_is_not_one_strict_object_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError, match="Settings file"):
        load(written(tmp_path, text), {})


@pytest.mark.covers("CLI-10")
def test_a_missing_and_an_oversized_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="No such file"):
        load(tmp_path / "nothing", {})
    with pytest.raises(SettingsError, match="larger than"):
        load(written(tmp_path, " " * (1 << 20) + "{}"), {})


@pytest.mark.covers("ADM-20", "ADM-21")
def test_a_limit_is_settable_exactly_when_the_contract_says_so() -> None:
    """Client-side limits of the contract are settings of clients, not of a node."""
    for key, limit in LIMITS.items():
        if key.startswith("replayWorker."):
            continue
        tree: Any = limit.value
        for name in reversed(key.split(".")):
            tree = {name: tree}
        if limit.configurable and key not in WITHOUT_MODEL:
            settings_of(alone(**tree))
        else:
            assert "no such setting" in fault(alone(**tree)), key


@pytest.mark.covers("SEC-6")
def test_the_bootstrap_key_may_come_from_the_environment(tmp_path: Path) -> None:
    tree = alone()
    del tree["adminKey"]
    assert load(written(tmp_path, tree), {"KEYLOAD_ADMIN_KEY": ADMIN_KEY}).admin_key == ADMIN_KEY
    assert load(written(tmp_path, tree), {}).admin_key is None


@pytest.mark.covers("CLU-1", "CLU-19")
def test_a_voter_may_have_a_number_that_is_not_its_place() -> None:
    tree = voters()
    assert settings_of(tree).numbers == (1, 2, 3)
    tree["peers"][1]["number"] = 4
    settings = settings_of(tree)
    assert (settings.numbers, settings.number) == ((1, 4, 3), 1)
    assert worker_launch(settings, 0, "ipc://x").first_voters == (1, 2, 3)
    assert [peer.number for peer in worker_launch(settings, 0, "ipc://x").peers] == [1, 4, 3]
    assert identity(settings).guard.numbers == (1, 4, 3)
    assert guard_digest(settings) == guard_digest(settings_of(voters()))
    for number in (3, 0, 70_000):
        tree["peers"][1]["number"] = number
        assert fault(tree).startswith("Setting peers")
