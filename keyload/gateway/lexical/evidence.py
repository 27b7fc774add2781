"""The second stage: what speaks for each of the best candidates, and how it is weighed (GTW-20)."""

from __future__ import annotations

import numpy as np

from keyload.gateway.lexical.postings import Floats

FIRST_PHRASE = 1.0
FEATURES = ("field", "phrase", "coverage", "name_share", "name_part", "intent", "name_both", "like", "many", "fuzzy")
WEIGHTS = np.array([0.35, 0.3, 0.15, 0.05, 0.05, 0.05, 0.05, 0.0, 0.0, 0.0], dtype=np.float64)


def combine(features: Floats) -> Floats:
    """Scores 0..1 of candidates from rows of evidence."""
    return np.clip(features @ WEIGHTS, 0.0, 1.0)


def agreement(asked: frozenset[str], offered: frozenset[str]) -> float:
    """Whether a tool does what the verbs of the query ask for: 1 yes, 0 no, in between when one says nothing."""
    if not offered:
        return 0.5
    if not asked:
        return 0.6 if "read" in offered else 0.5
    return 1.0 if asked & offered else 0.0
