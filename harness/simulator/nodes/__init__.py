"""Whole nodes in one process and in virtual time (TST-12).

Consensus, shard, executor, document model, command desk, read desk and the duties of leaders are the real
ones. The log and the state are models that keep and lose exactly what the real ones promise to keep and may
lose; network, clocks and clients are models too. Every choice comes from one seed.
"""
