"""Two lanes of commands, control first but never alone (ADM-14)."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyload.link.messages import Command
from keyload.worker.calls import CommandCall
from keyload.worker.queue import CONTROL_RUN, CommandQueue


def call(number: int, *, control: bool = False, deadline: float = 10.0) -> CommandCall:
    command = Command(number, 1, "op", "p", 1, b"i" * 16, b"f" * 32, None, b"", control)
    return CommandCall(command, 0, number, deadline)


def numbers(calls: list[CommandCall]) -> list[int]:
    return [item.call for item in calls]


@pytest.mark.covers("ADM-14")
def test_control_runs_first_but_at_most_eight_in_a_row() -> None:
    queue = CommandQueue()
    for number in range(3):
        queue.add(call(number))
    for number in range(100, 120):
        queue.add(call(number, control=True))
    order = numbers(queue.take(100))
    assert order == [*range(100, 108), 0, *range(108, 116), 1, *range(116, 120), 2]


@pytest.mark.covers("ADM-14")
def test_the_run_of_control_commands_counts_across_batches() -> None:
    queue = CommandQueue()
    queue.add(call(0))
    for number in range(100, 110):
        queue.add(call(number, control=True))
    assert numbers(queue.take(5)) == [100, 101, 102, 103, 104]
    assert numbers(queue.take(4)) == [105, 106, 107, 0]


@pytest.mark.covers("ADM-14")
@settings(derandomize=True, deadline=None, max_examples=200)
@given(st.lists(st.tuples(st.sampled_from(["data", "control", "take"]), st.integers(1, 9)), max_size=60))
def test_each_lane_is_first_in_first_out(steps: list[tuple[str, int]]) -> None:
    queue, expected = CommandQueue(), {"data": deque[int](), "control": deque[int]()}
    counter, run = 0, 0
    for kind, count in steps:
        if kind != "take":
            counter += 1
            queue.add(call(counter, control=kind == "control"))
            expected[kind].append(counter)
            continue
        for item in queue.take(count):
            lane = "control" if item.command.control else "data"
            assert expected[lane].popleft() == item.call
            run = run + 1 if lane == "control" and expected["data"] else 0
            assert run <= CONTROL_RUN
    assert len(queue) == sum(len(lane) for lane in expected.values())


def test_put_back_keeps_the_order_at_the_head() -> None:
    queue = CommandQueue()
    queue.add(call(3))
    queue.put_back([call(1), call(2)])
    assert numbers(queue.take(9)) == [1, 2, 3]


def test_a_sweep_removes_exactly_what_is_due() -> None:
    queue = CommandQueue()
    for number, deadline in ((1, 5.0), (2, 7.0), (3, 5.0)):
        queue.add(call(number, deadline=deadline))
    assert numbers(queue.sweep(5.0)) == [1, 3]
    assert numbers(queue.take(9)) == [2]
