"""What a run of a simulator found."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Report:
    """One run. `violation` None means that every promise held."""

    form: str
    """Which simulator: `nodes` or `consensus`."""
    seed: int
    steps: int
    options: object
    violation: str | None
    digest: int
    """Of the whole course of events: equal for equal runs."""
    events: int
    virtual_ms: int
    counts: Counter[str] = field(default_factory=Counter)
    story: tuple[str, ...] = ()
    """The last faults and elections."""

    @property
    def replay(self) -> str:
        """The command line that repeats this run."""
        form = "" if self.form == "nodes" else f" --form {self.form}"
        return f"python -m harness simulate{form} --seed {self.seed} --steps {self.steps}"

    def lines(self) -> list[str]:
        """Everything there is to say, for people."""
        counts = ", ".join(f"{name} {count}" for name, count in sorted(self.counts.items()))
        digest = f"{self.digest & (1 << 64) - 1:016x}"
        return [
            str(self.options),
            *(f"  {line}" for line in self.story),
            counts,
            f"{self.events} events, {self.virtual_ms} virtual ms, digest {digest}",
            f"FAILED {self.violation}" if self.violation else "held",
        ]
