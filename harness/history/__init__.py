"""Histories of concurrent calls: recorded by clients, checked for linearizability and single effect."""
