"""`--measure=NAME`: print a table, keep it, on request put it into the documentation."""

from __future__ import annotations

import sys

import msgspec

from apphost.children import adopt_orphans, end_descendants
from apphost.options import Options
from apphost.suites import FAILED, RESULTS
from harness import background, bench, catchup, credentials, failover, hostile, leftovers, memory, stages
from harness.evidence import ROOT, run_directory
from harness.measured import markdown, write_section

DOCUMENT = ROOT / "docs/performance.md"
_MEASUREMENTS = {
    "ram": memory.measure,
    "bench": bench.measure,
    "failover": failover.measure,
    "background": background.measure,
    "catchup": catchup.measure,
    "credentials": credentials.measure,
    "leftovers": leftovers.measure,
    "hostile": hostile.measure,
    "stages": stages.measure,
}


def run(name: str, options: Options) -> int:
    """Measure; 0 when it was measured and nothing was left behind, whether or not a target was met."""
    adopt_orphans()
    table = _MEASUREMENTS[name]()
    left = end_descendants()
    text = markdown(table)
    directory = run_directory((options.results_directory or RESULTS / name).absolute())
    (directory / "table.md").write_text(text, encoding="utf-8")
    (directory / "table.json").write_bytes(msgspec.json.format(msgspec.json.encode(table)))
    if options.write_document:
        write_section(DOCUMENT, name, text)
    sys.stdout.write(text)
    if left:
        sys.stderr.write(f"apphost: ended what was left behind: {', '.join(left)}\n")
    return FAILED if left else 0
