"""The command `keyload`: run a node or a local cluster, look at a node, make and revoke keys (cli.md)."""
