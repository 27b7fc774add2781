"""What consensus raises. Neither is part of the public contract: the worker maps them at its border."""

from __future__ import annotations


class ConsensusError(Exception):
    """A state that Raft excludes: the replica must stop and keep its files (CLU-17)."""


class MalformedMessage(ValueError):
    """Bytes from a peer that are not a list of consensus messages; nothing of them was used."""
