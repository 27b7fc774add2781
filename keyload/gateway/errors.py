"""What the library raises; every text is safe to show: it holds no secret and no argument of a call."""

from __future__ import annotations


class GatewayError(Exception):
    """Base of the failures of this library."""


class RegistrationError(GatewayError):
    """A tool or a source breaks a bound, repeats a name, or is not complete (GTW-6, GTW-39)."""


class SourceFailed(GatewayError):
    """With `strict_sources`: the source `source_id` could not be loaded (GTW-8)."""

    def __init__(self, message: str, source_id: str) -> None:
        super().__init__(message)
        self.source_id = source_id


class ToolNotFound(GatewayError):
    """There is no such tool (GTW-33)."""


class ToolNameAmbiguous(GatewayError):
    """Several sources have a tool of this name and none was chosen (GTW-33)."""


class SearchTextTooLong(GatewayError):
    """The search text passes `max_search_chars` (GTW-39)."""


class GraphError(GatewayError):
    """The graph could not answer; nothing else answers in its place (GTW-18)."""


class EmbeddingError(GatewayError):
    """An embedding generator or a store gave something that is not a list of usable vectors (GTW-27)."""


class GatewayClosed(GatewayError):
    """The gateway was closed, or is being closed (GTW-9)."""
