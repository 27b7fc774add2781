"""Raft without I/O, clock or threads: events in, instructions out (CLU-7, CLU-11, CLU-14, CLU-24).

One `Raft` is one replica of one shard. The worker feeds it ticks, messages and proposals, and does what each
`Ready` says. The membership is part of the log (CLU-19); a leader says who needs a snapshot, the caller
carries it and tells `restore` (CLU-15); a replica whose disk may have been erased has to join (CLU-18).
"""

from keyload.consensus.config import Config
from keyload.consensus.core import Role
from keyload.consensus.errors import ConsensusError, MalformedMessage
from keyload.consensus.log import LogStorage
from keyload.consensus.membership import Membership
from keyload.consensus.messages import (
    Entry,
    HardState,
    Message,
    MessageKind,
    Ready,
    decode_messages,
    encode_messages,
)
from keyload.consensus.progress import PeerStatus
from keyload.consensus.raft import Raft

__all__ = [
    "Config",
    "ConsensusError",
    "Entry",
    "HardState",
    "LogStorage",
    "MalformedMessage",
    "Membership",
    "Message",
    "MessageKind",
    "PeerStatus",
    "Raft",
    "Ready",
    "Role",
    "decode_messages",
    "encode_messages",
]
