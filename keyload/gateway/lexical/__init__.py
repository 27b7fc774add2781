"""Ranking without a model: fields, phrases, repaired spellings, a small thesaurus (GTW-19..22)."""

from keyload.gateway.lexical.index import LexicalIndex
from keyload.gateway.lexical.results import Ranked, Scored

__all__ = ["LexicalIndex", "Ranked", "Scored"]
