"""Options of the app host, and that nothing it starts outlives it (CLI-17, CLI-18, CLI-21, CLI-22)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from apphost.measuring import write_section
from apphost.options import MAX_TEXT, MEASUREMENTS, SUITES, OptionError, read


@pytest.mark.covers("TST-1", "CLI-17")
def test_there_are_four_suites_and_nine_measurements() -> None:
    assert SUITES == ("unit", "scalar", "recovery", "rf3")
    assert [read([f"--suite={name}"]).suite for name in SUITES] == list(SUITES)
    assert MEASUREMENTS == (
        "ram",
        "bench",
        "failover",
        "background",
        "catchup",
        "credentials",
        "leftovers",
        "hostile",
        "stages",
    )
    assert [read([f"--measure={name}"]).measure for name in MEASUREMENTS] == list(MEASUREMENTS)
    assert read([]).suite is None


@pytest.mark.covers("TST-1", "CLI-17", "CLI-18")
@pytest.mark.parametrize(
    "arguments",
    [
        ["--suite=all"],
        ["--suite="],
        ["--suite"],
        ["--measure=speed"],
        ["--measure="],
        ["--suite=unit", "--measure=ram"],
        ["--benchmark=smoke"],
        ["--filter=x"],
        ["--coverage"],
        ["--suite=unit", "--filter="],
        ["--suite=unit", "--results-directory="],
        ["--suite=unit", "--ephemeral"],
        ["--results-directory=x"],
        ["--write-document"],
        ["--suite=unit", "--trials=100"],
        ["--suite=recovery", "--trials=99"],
        ["--suite=recovery", "--trials=100001"],
        ["--suite=recovery", "--trials=many"],
        ["--suite=unit", "--filter=" + "x" * MAX_TEXT],
        ["--suite=unit", "--filter=a\0b"],
        ["unit"],
        ["--sui=unit"],
    ],
)
def test_options_that_do_not_fit_are_refused(arguments: list[str]) -> None:
    with pytest.raises(OptionError):
        read(arguments)


@pytest.mark.covers("CLI-18", "TST-5")
def test_a_text_of_exactly_the_longest_length_passes() -> None:
    text = "x" * (MAX_TEXT - len("--filter="))
    assert read(["--suite=unit", f"--filter={text}"]).filter == text


@pytest.mark.covers("STO-24", "TST-5")
@pytest.mark.parametrize("trials", [100, 1000, 100_000])
def test_the_recovery_suite_makes_as_many_kills_as_wanted(trials: int) -> None:
    assert read(["--suite=recovery", f"--trials={trials}"]).trials == trials


@pytest.mark.covers("CLI-17")
def test_a_refusal_starts_nothing_and_exits_with_2(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "apphost", "--suite=all"], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no suite of that name" in done.stderr


CHILD = """
import sys
from apphost.children import run
sys.exit(run([sys.executable, "-c", sys.argv[1]], float(sys.argv[2]), {}))
"""


def hosted(program: str, seconds: float) -> subprocess.CompletedProcess[str]:
    """A program run by the app host's means, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", CHILD, program, str(seconds)],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )


@pytest.mark.covers("CLI-22", "TST-21")
@pytest.mark.parametrize("status", [0, 1, 5])
def test_the_exit_status_is_the_runners_own(status: int) -> None:
    assert hosted(f"raise SystemExit({status})", 30).returncode == status


@pytest.mark.covers("CLI-21", "CLI-22", "TST-21", "TST-23")
def test_what_a_runner_leaves_behind_is_ended_and_a_failure() -> None:
    leaves = (
        "import subprocess\n"
        "left = subprocess.Popen(['sleep', '60'], start_new_session=True)\n"
        "left.returncode = 0\n"
        "print(left.pid, flush=True)\n"
    )
    done = hosted(leaves, 30)
    assert done.returncode == 1
    assert "left behind" in done.stderr
    assert not psutil.pid_exists(int(done.stdout))


@pytest.mark.covers("CLI-22", "TST-21")
def test_a_runner_that_takes_too_long_is_a_failure() -> None:
    done = hosted("import time\ntime.sleep(60)", 0.5)
    assert done.returncode == 1
    assert "not done after" in done.stderr


def test_a_table_replaces_its_former_self_in_the_document(tmp_path: Path) -> None:
    document = tmp_path / "performance.md"
    write_section(document, "ram", "one\n")
    write_section(document, "bench", "two\n")
    write_section(document, "ram", "three\n")
    text = document.read_text(encoding="utf-8")
    assert "one" not in text
    assert text.index("three") < text.index("two")
    write_section(document, "ram", "three\n")
    assert document.read_text(encoding="utf-8") == text
