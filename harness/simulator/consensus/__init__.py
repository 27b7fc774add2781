"""Clusters of `keyload.consensus` alone, with registers for a state machine.

Cheaper than whole nodes, and closer to what consensus may meet: no turn of a worker, no frames, links and
disks that lose and reorder single records.
"""
