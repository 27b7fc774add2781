"""JSON documents with revisions, tombstones, indexes and typed rows (spec documents.md, relational.md)."""
