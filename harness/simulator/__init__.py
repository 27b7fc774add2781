"""Whole clusters of `keyload.consensus` in one process, in virtual time, through every fault we can think of.

Network, disks and clocks are models driven by one seed; a failing seed is a one-line replay. It is evidence
for consensus only (TST-3); `python -m harness.simulator --seconds 60` looks for failing seeds.
"""

from harness.simulator.simulation import Report, Simulation, simulate

__all__ = ["Report", "Simulation", "simulate"]
