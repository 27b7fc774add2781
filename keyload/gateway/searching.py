"""Ranking a search text over one generation by the chosen strategy (GTW-16..18)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from keyload.gateway.builds import resolved_generator
from keyload.gateway.diagnostics import LEXICAL_FALLBACK, VECTOR_SEARCH_FAILED, Diagnostic
from keyload.gateway.errors import EmbeddingError, GraphError
from keyload.gateway.generation import Generation
from keyload.gateway.links import RELATED, THEN
from keyload.gateway.options import GatewayOptions
from keyload.gateway.results import Match, RankingMode

NAMED_BOOST = 0.3  # the text holds the tool's very name or is one of its aliases
LEXICAL_BOOST = 0.5  # times the score by words; with less the packaged model finds less than words
BOOSTED = 256  # best tools by words whose score lifts the similarity
SURE_SIMILARITY = 0.5  # a cosine from which a tool fits although no word is shared
NAME_SCORE = 1.0
LINKED_SHARE = 0.5  # of the score of the tool that leads there
LINKED_FROM = 3  # so many of the best tools are followed


class Ranking(msgspec.Struct, frozen=True, kw_only=True):
    """Tools with scores 0..1, best first, equal scores by tool id."""

    mode: RankingMode
    matches: tuple[Match, ...] = ()
    confidence: float = 0.0
    low: bool = False
    diagnostics: tuple[Diagnostic, ...] = ()


async def rank(generation: Generation, options: GatewayOptions, text: str, limit: int) -> Ranking:
    """The best tools for a text, at most `limit`. Raises GraphError (GTW-18)."""
    if not generation.tools:
        return Ranking(mode="empty")
    if not text:
        tools = list(generation.tools.values())[:limit]
        return Ranking(mode="browse", matches=tuple(Match(tool, 0.0) for tool in tools))
    if options.strategy == "graph":
        return _by_graph(generation, text, limit)
    if options.strategy == "tokenizer":
        return _by_words(generation, text, limit, ())
    return await _by_vectors(generation, options, text, limit)


def _by_words(generation: Generation, text: str, limit: int, diagnostics: tuple[Diagnostic, ...]) -> Ranking:
    ranked = generation.index.rank(text, max(1, limit))
    return Ranking(
        mode="lexical",
        matches=_matches(generation, {scored.tool_id: scored.score for scored in ranked.scored}, limit),
        confidence=ranked.confidence,
        low=ranked.low,
        diagnostics=diagnostics,
    )


async def _by_vectors(generation: Generation, options: GatewayOptions, text: str, limit: int) -> Ranking:
    generator, problems = resolved_generator(options)
    vectors = generation.vectors
    if generator is None or vectors is None:
        missing = "there is no embedding generator" if generator is None else "the tools have no vectors"
        return _by_words(generation, text, limit, (*problems, _fallback(missing)))
    from keyload.gateway.vectors import embedded

    try:
        if generator.fingerprint != vectors.fingerprint:
            raise EmbeddingError("The vectors of the tools come from another generator.")
        similarities = vectors.similarities((await embedded(generator, [text]))[0])
    except Exception as error:
        why = str(error) if isinstance(error, EmbeddingError) else type(error).__name__
        failed = Diagnostic(VECTOR_SEARCH_FAILED, f"The search text could not be compared: {why}")
        return _by_words(generation, text, limit, (failed, _fallback("vectors failed for this search")))
    ranked = generation.index.rank(text, BOOSTED)
    scores = dict(similarities)
    for scored in ranked.scored:
        scores[scored.tool_id] += LEXICAL_BOOST * scored.score
    named = generation.links.named(text)
    for tool_id in named:
        scores[tool_id] += NAMED_BOOST
    most = 1.0 + LEXICAL_BOOST + NAMED_BOOST  # divided by, so that order survives and 1 is never passed
    return Ranking(
        mode="vector",
        matches=_matches(generation, {tool: score / most for tool, score in scores.items()}, limit),
        confidence=ranked.confidence,
        low=ranked.low and not named and max(similarities.values()) < SURE_SIMILARITY,
    )


def _by_graph(generation: Generation, text: str, limit: int) -> Ranking:
    """Order comes from the words; names and aliases lead straight to their tools, and links of the best
    tools to further candidates behind them (GTW-24)."""
    try:
        ranked = generation.index.rank(text, max(limit, BOOSTED))
        scores = {scored.tool_id: scored.score for scored in ranked.scored}
        named = generation.links.named(text)
        scores.update(dict.fromkeys(named, NAME_SCORE))
        best = sorted(scores, key=lambda tool_id: (-scores[tool_id], tool_id))[:LINKED_FROM]
        for tool_id in best:
            for relation in (THEN, RELATED):
                for other in generation.links.leads_to(tool_id, relation):
                    scores[other] = max(scores.get(other, 0.0), LINKED_SHARE * scores[tool_id])
    except Exception as error:
        raise GraphError(f"The graph could not answer: {type(error).__name__}.") from error
    return Ranking(
        mode="graph",
        matches=_matches(generation, scores, limit),
        confidence=1.0 if named else ranked.confidence,
        low=ranked.low and not named,
    )


def _matches(generation: Generation, scores: Mapping[str, float], limit: int) -> tuple[Match, ...]:
    order = sorted(scores, key=lambda tool_id: (-scores[tool_id], tool_id))[:limit]
    return tuple(Match(generation.tools[tool_id], scores[tool_id]) for tool_id in order)


def _fallback(why: str) -> Diagnostic:
    return Diagnostic(LEXICAL_FALLBACK, f"Tools are ranked by their words: {why}.")
