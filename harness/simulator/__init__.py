"""Whole clusters in one process, in virtual time, through every fault we can think of.

Network, disks and clocks are models driven by one seed; a failing seed is a one-line replay. It is evidence
for consensus, and for the worker above it as far as it depends on nothing but time and messages (TST-3).
`nodes` simulates whole nodes, `consensus` replicas alone; `python -m harness simulate --minutes 10` looks for
failing seeds.
"""
