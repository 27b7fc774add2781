"""Runs `harness.simulator.main`."""

from harness.simulator.main import run

raise SystemExit(run())
