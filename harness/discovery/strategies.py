"""The whole gateway over a set by strategy: words, graph, vectors, a hook for the query (GTW-43)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from harness.discovery.figures import Figures, measure
from harness.discovery.sets import ToolSet
from keyload.gateway import Gateway, GatewayOptions, ToolHints, create_gateway
from keyload.gateway.documents import ToolDocument
from keyload.gateway.embeddings import EmbeddingGenerator
from keyload.gateway.errors import EmbeddingError
from keyload.gateway.lexical.analysis import is_cjk, runs
from keyload.gateway.lexical.translation import cut, is_foreign, translate
from keyload.gateway.packaged_model import PackagedModel

SOURCE = "s"
MOST = 15


def rows(tools: ToolSet, model: EmbeddingGenerator | None) -> Iterator[tuple[str, Figures]]:
    """Figures of all queries of a set for each strategy; with vectors only when there is a model."""
    yield "words", figures(tools, GatewayOptions(strategy="tokenizer"))
    yield "graph", figures(tools, GatewayOptions(strategy="graph"))
    yield "words, query rewritten", figures(tools, GatewayOptions(strategy="tokenizer", normalize=rewritten))
    if model is not None:
        options = GatewayOptions(strategy="embeddings", embedding_generator=lambda: model)
        yield f"vectors of {model.fingerprint}", figures(tools, options)


def packaged_model() -> EmbeddingGenerator | None:
    """The model of the extra `vectors`, None when that is not installed."""
    try:
        return PackagedModel()
    except EmbeddingError:
        return None


def figures(tools: ToolSet, options: GatewayOptions) -> Figures:
    """Figures of a gateway with these options that knows the tools of a set."""
    return asyncio.run(_figures(tools, options))


async def _figures(tools: ToolSet, options: GatewayOptions) -> Figures:
    gateway = _gateway(tools.documents, options)
    found: dict[str, tuple[Sequence[str], bool]] = {}
    for query in tools.queries:
        result = await gateway.search(query.text, max_results=MOST)
        found[query.text] = ([match.name for match in result.matches], result.low_confidence)
    await gateway.close()
    return measure(found.__getitem__, tools.queries)


def _gateway(documents: Sequence[ToolDocument], options: GatewayOptions) -> Gateway:
    gateway, registry, _ = create_gateway(options)
    for document in documents:
        registry.add_tool(
            SOURCE,
            _nothing,
            name=document.name,
            description=document.description,
            input_schema={
                "type": "object",
                "properties": {
                    argument.name: {
                        "description": argument.text,
                        **({"enum": list(argument.values)} if argument.values else {}),
                    }
                    for argument in document.arguments
                },
                "required": [argument.name for argument in document.arguments if argument.required],
            },
            hints=ToolHints(
                title=document.title,
                category=document.category,
                aliases=document.aliases,
                examples=document.examples,
            ),
        )
    return gateway


async def _nothing() -> None:
    """No tool is run here."""


def rewritten(text: str) -> str:
    """A query with its everyday words of other languages in English: a stand-in for a host's translator."""
    words = runs(text)
    foreign = is_foreign(words)
    found: list[str] = []
    for word in words:
        if is_cjk(word):
            found += [english[0] if english else part for part, english in cut(word)]
        else:
            found.append(next(iter(translate(word, foreign)), word))
    return " ".join(found) if foreign else text
