"""Raft without I/O, clock or threads: events in, instructions out (CLU-7, CLU-11, CLU-14, CLU-24).

One `Raft` is one replica of one shard. The worker feeds it ticks, messages and proposals, and does what each
`Ready` says. Snapshots and membership change have their places: `Progress.needs_snapshot` marks a follower
whose entries are no longer kept, `Config.voters` is the membership.
"""

from keyload.consensus.config import Config
from keyload.consensus.core import Role
from keyload.consensus.errors import ConsensusError, MalformedMessage
from keyload.consensus.log import LogStorage
from keyload.consensus.messages import (
    Entry,
    HardState,
    Message,
    MessageKind,
    Ready,
    decode_messages,
    encode_messages,
)
from keyload.consensus.raft import Raft

__all__ = [
    "Config",
    "ConsensusError",
    "Entry",
    "HardState",
    "LogStorage",
    "MalformedMessage",
    "Message",
    "MessageKind",
    "Raft",
    "Ready",
    "Role",
    "decode_messages",
    "encode_messages",
]
