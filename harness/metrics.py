"""What the nodes tell at /metrics about their shards: who leads, how far each replica is (CLU-29)."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterable

import msgspec

SCRAPE_SECONDS = 5.0
_SAMPLE = re.compile(r"^(?P<name>\w+)(?:\{(?P<labels>[^}]*)\})? (?P<value>\S+)$")
_LABEL = re.compile(r'(\w+)="([^"]*)"')


class Replica(msgspec.Struct):
    """One node's replica of a shard."""

    role: str = ""
    term: int = 0
    leader: int = 0
    commit: int = 0
    applied: int = 0


def replicas(url: str, key: str) -> dict[int, Replica]:
    """The replicas of one node by shard; empty when the node does not answer."""
    request = urllib.request.Request(f"{url}/metrics", headers={"Authorization": f"Bearer {key}"})
    try:
        with urllib.request.urlopen(request, timeout=SCRAPE_SECONDS) as answer:
            return read_replicas(answer.read().decode())
    except OSError:
        return {}


def read_replicas(text: str) -> dict[int, Replica]:
    """The replicas by shard, from the samples of one node."""
    found: dict[int, Replica] = {}
    for line in text.splitlines():
        match = _SAMPLE.match(line)
        labels = dict(_LABEL.findall(match["labels"] or "")) if match else {}
        if match is None or "shard" not in labels:
            continue
        replica = found.setdefault(int(labels["shard"]), Replica())
        value = int(float(match["value"]))
        match match["name"]:
            case "keyload_shard_role" if value:
                replica.role = labels["role"]
            case "keyload_shard_term":
                replica.term = value
            case "keyload_shard_leader":
                replica.leader = value
            case "keyload_shard_commit_index":
                replica.commit = value
            case "keyload_shard_applied_index":
                replica.applied = value
            case _:
                pass
    return found


def leaders(urls: Iterable[str], key: str) -> dict[int, int]:
    """The number of the node that leads each shard, as the leader of the highest term itself says."""
    found: dict[int, tuple[int, int]] = {}
    for number, url in enumerate(urls, 1):
        for shard, replica in replicas(url, key).items():
            if replica.role == "leader":
                found[shard] = max(found.get(shard, (0, 0)), (replica.term, number))
    return {shard: number for shard, (_, number) in found.items()}
