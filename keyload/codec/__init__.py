"""What turns contract values into bytes and back: strict JSON, schemas, keys, fingerprints, tokens."""
