"""KeyLoad: one replicated database server for AI agents."""
