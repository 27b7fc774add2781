"""Targets for a fuzzer led by coverage, and the inputs worth keeping, which the unit suite replays."""
