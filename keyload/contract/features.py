"""The feature names that operations, mutations and types are sorted under."""

from __future__ import annotations

FEATURES: tuple[str, ...] = (
    "documents",
    "relational",
    "streams",
    "topics",
    "queues",
    "scheduling",
    "transfers",
    "graph",
    "series",
    "search",
    "query",
    "changes",
    "projections",
    "blobs",
    "catalog",
    "security",
    "cluster",
    "admin",
)
"""In the order of the catalog."""
