"""MCP host: three meta tools and a guide over the official SDK, and the checks the edge makes before it."""

from keyload.front.mcp.host import McpHost
from keyload.front.mcp.preflight import FrameError, inspect
from keyload.front.mcp.replies import early_error

__all__ = ["FrameError", "McpHost", "early_error", "inspect"]
