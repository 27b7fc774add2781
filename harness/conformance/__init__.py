"""The conformance suite of MCP against a node: installation, runs, and what does not apply."""
