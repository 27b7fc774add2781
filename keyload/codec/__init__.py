"""What turns contract values into bytes and back: strict JSON, decoding, schemas, keys, fingerprints, tokens."""
