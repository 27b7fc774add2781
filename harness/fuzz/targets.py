"""All targets by name. A target takes any bytes and raises for none: what it raises is a finding."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from harness.fuzz import frames, keys, stored, texts


class Target(msgspec.Struct, frozen=True):
    """`check` states an invariant for one input; `seeds` are inputs to begin with."""

    check: Callable[[bytes], None]
    seeds: Callable[[], Iterator[bytes]]


TARGETS = {
    "json": Target(texts.json, texts.json_seeds),
    "mcp": Target(texts.mcp, texts.mcp_seeds),
    "requests": Target(texts.requests, texts.requests_seeds),
    "http1": Target(frames.http1, frames.http1_seeds),
    "tokens": Target(texts.token, texts.token_seeds),
    "keys": Target(keys.keys, keys.keys_seeds),
    "frames": Target(frames.frames, frames.frames_seeds),
    "turns": Target(stored.turns, stored.turns_seeds),
    "replay": Target(stored.replay, stored.replay_seeds),
    "manifests": Target(stored.manifests, stored.manifests_seeds),
    "checkpoints": Target(stored.checkpoints, stored.checkpoints_seeds),
}
