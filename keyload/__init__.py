"""KeyLoad: one replicated database server for AI agents.

`Client`, `AsyncClient` and `KeyLoadError` are the SDK; they are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keyload.client import AsyncClient, Client, KeyLoadError

__all__ = ["AsyncClient", "Client", "KeyLoadError"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("keyload.client"), name)
    raise AttributeError(name)
