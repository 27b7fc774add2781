"""Vectors: generators, stores, failures, and the search over them (GTW-17, GTW-18, GTW-26..30)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, cast

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyload.gateway import (
    EmbeddingError,
    EmbeddingKey,
    Gateway,
    GatewayOptions,
    GatewayRegistry,
    InMemoryEmbeddingStore,
    create_gateway,
)
from keyload.gateway.lmdb_store import LmdbEmbeddingStore
from keyload.gateway.vectors import normalised
from tests.unit.gateway.support import ids

SUBJECTS = ("tree", "water", "money")
TEXTS = {"plant": "Plants a tree.", "pour": "Pours water.", "pay": "Pays money.", "idle": "Does nothing."}


class Subjects:
    """A generator that counts subjects, in English and in Latin, and remembers what it was asked."""

    def __init__(self, fingerprint: str = "subjects-1") -> None:
        self.fingerprint = fingerprint
        self.asked: list[str] = []

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.asked += texts
        latin = {"arbor": "tree", "aqua": "water", "pecunia": "money"}
        found: list[list[float]] = []
        for text in texts:
            words = [latin.get(word.strip("."), word.strip(".")) for word in text.lower().split()]
            found.append([float(words.count(subject)) for subject in SUBJECTS])
        return found


class Giving(Subjects):
    """Gives what it was made with, for as many texts as it is asked."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.answer = answer

    async def embed(self, texts: Sequence[str]) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer(len(texts))


class BrokenStore:
    async def get(self, keys: Sequence[EmbeddingKey]) -> Mapping[EmbeddingKey, Sequence[float]]:
        raise OSError("secret path")

    async def put(self, items: Mapping[EmbeddingKey, Sequence[float]]) -> None:
        raise OSError("secret path")


def garden(generator: Any, **options: Any) -> tuple[Gateway, GatewayRegistry]:
    gateway, registry, _ = create_gateway(GatewayOptions(embedding_generator=(lambda: generator), **options))
    for name, text in TEXTS.items():
        registry.add_tool("garden", lambda: None, name=name, description=text)
    return gateway, registry


def seen(result: Any) -> list[str]:
    return [diagnostic.code for diagnostic in result.diagnostics]


@pytest.mark.covers("GTW-16", "GTW-17", "GTW-26", "GTW-27")
def test_auto_ranks_by_vectors_when_there_is_a_generator() -> None:
    async def main() -> None:
        gateway, _ = garden(Subjects())
        built = await gateway.initialize()
        assert (built.tool_count, built.vector_count) == (4, 4)
        found = await gateway.search("arbor")
        assert found.ranking_mode == "vector"
        assert seen(found) == []
        assert ids(found)[0] == "garden:plant"
        assert not found.low_confidence
        assert [match.score for match in found.matches[1:]] == [0.0, 0.0, 0.0]
        assert ids(found)[1:] == ["garden:idle", "garden:pay", "garden:pour"]
        named = await gateway.search("idle")
        assert ids(named)[0] == "garden:idle"
        off = await gateway.search("zzz qqq")
        assert off.low_confidence

    asyncio.run(main())


@pytest.mark.covers("GTW-17", "GTW-18")
def test_without_a_generator_words_answer_and_say_so() -> None:
    async def main() -> None:
        for strategy in ("auto", "embeddings"):
            gateway, _ = garden(None, strategy=strategy)
            found = await gateway.search("plant a tree")
            assert (found.ranking_mode, seen(found)) == ("lexical", ["lexical_fallback"])
            assert ids(found)[0] == "garden:plant"

    asyncio.run(main())


@pytest.mark.covers("GTW-17")
def test_the_strategies_without_vectors_ask_no_generator() -> None:
    def never() -> Any:
        raise AssertionError

    async def main() -> None:
        for strategy, mode in (("tokenizer", "lexical"), ("graph", "graph")):
            options: Any = {"strategy": strategy}
            gateway, registry, _ = create_gateway(GatewayOptions(embedding_generator=never, **options))
            registry.add_tool("garden", lambda: None, name="plant", description="Plants a tree.")
            found = await gateway.search("plant a tree")
            assert (found.ranking_mode, seen(found)) == (mode, [])
            assert found == await gateway.search("plant a tree")

    asyncio.run(main())


@pytest.mark.covers("GTW-26")
def test_the_dedicated_generator_wins_and_both_are_resolved_anew() -> None:
    async def main() -> None:
        dedicated, general = Subjects("dedicated"), Subjects("general")
        present: list[Any] = [dedicated]
        asked: list[str] = []

        def resolve() -> Any:
            asked.append("dedicated")
            return present[0]

        gateway, registry, _ = create_gateway(
            GatewayOptions(embedding_generator=resolve, general_embedding_generator=lambda: general)
        )
        registry.add_tool("garden", lambda: None, name="plant", description="Plants a tree.")
        await gateway.search("tree")
        assert (len(dedicated.asked), general.asked) == (2, [])
        before = len(asked)
        await gateway.search("tree")
        assert len(asked) > before
        assert len(dedicated.asked) == 3
        present[0] = None
        found = await gateway.search("tree")
        assert found.ranking_mode == "vector"
        assert len(general.asked) == 2

    asyncio.run(main())


@pytest.mark.covers("GTW-27", "GTW-18", "GTW-38")
@pytest.mark.parametrize(
    "answer",
    [
        RuntimeError("secret key"),
        asyncio.CancelledError(),
        lambda count: [[1.0, 2.0]] * (count + 1),
        lambda count: [[1.0] * (number + 1) for number in range(count)],
        lambda count: [[math.nan, 1.0]] * count,
        lambda count: [[math.inf, 1.0]] * count,
        lambda count: [[]] * count,
        lambda count: [["a", "b"]] * count,
        lambda count: [3.0] * count,
        lambda count: None,
    ],
)
def test_a_generator_that_fails_gives_way_to_words(answer: Any) -> None:
    async def main() -> None:
        generator = Giving(answer)
        gateway, _ = garden(generator)
        built = await gateway.initialize()
        assert (built.vector_count, seen(built)) == (0, ["embedding_failed"])
        assert "secret" not in str(built)
        found = await gateway.search("plant a tree")
        assert found.ranking_mode == "lexical"
        assert seen(found)[0] == "lexical_fallback"
        assert ids(found)[0] == "garden:plant"
        generator.answer = lambda count: [[1.0, 2.0]] * count
        again = await gateway.initialize()
        assert (again.vector_count, seen(again)) == (4, [])

    asyncio.run(main())


@pytest.mark.covers("GTW-18", "GTW-27", "GTW-30")
def test_a_query_that_cannot_be_embedded_is_ranked_by_words() -> None:
    async def main() -> None:
        generator = Subjects()
        store = InMemoryEmbeddingStore()
        gateway, _ = garden(generator, embedding_store=store)
        assert (await gateway.search("arbor")).ranking_mode == "vector"
        assert len(store) == 4
        for answer in ([[1.0, 2.0]], [], [[math.nan] * 3]):

            async def give(texts: Sequence[str], answer: Any = answer) -> Any:
                return answer

            generator.embed = give  # pyright: ignore[reportAttributeAccessIssue]
            found = await gateway.search("plant a tree")
            assert found.ranking_mode == "lexical"
            assert seen(found) == ["vector_search_failed", "lexical_fallback"]
        assert len(store) == 4

    asyncio.run(main())


@pytest.mark.covers("GTW-28", "GTW-29")
@pytest.mark.parametrize("kind", ["memory", "lmdb"])
def test_only_what_changed_is_embedded_again(kind: str, tmp_path: Path) -> None:
    async def main(store: Any) -> None:
        first = Subjects()
        gateway, registry = garden(first, embedding_store=store)
        assert (await gateway.initialize()).vector_count == 4
        assert len(first.asked) == 4
        registry.add_tool("garden", lambda: None, name="dig", description="Digs for water.")
        assert (await gateway.initialize()).vector_count == 5
        assert len(first.asked) == 5
        again = Subjects()
        other, _ = garden(again, embedding_store=store)
        assert (await other.initialize()).vector_count == 4
        assert again.asked == []
        assert ids(await other.search("aqua"))[0] == "garden:pour"
        newer = Subjects("subjects-2")
        third, _ = garden(newer, embedding_store=store)
        assert (await third.initialize()).vector_count == 4
        assert len(newer.asked) == 4

    if kind == "memory":
        asyncio.run(main(InMemoryEmbeddingStore()))
    else:
        with LmdbEmbeddingStore(tmp_path / "vectors") as store:
            asyncio.run(main(store))


@pytest.mark.covers("GTW-29", "GTW-38")
def test_a_store_that_fails_costs_only_time() -> None:
    async def main() -> None:
        gateway, _ = garden(Subjects(), embedding_store=BrokenStore())
        built = await gateway.initialize()
        assert built.vector_count == 4
        assert seen(built) == ["embedding_store_failed", "embedding_store_failed"]
        assert "secret" not in str(built)
        assert (await gateway.search("arbor")).ranking_mode == "vector"

    asyncio.run(main())


@pytest.mark.covers("GTW-29", "GTW-27")
def test_kept_vectors_of_another_length_are_made_anew() -> None:
    async def main() -> None:
        store = InMemoryEmbeddingStore()
        narrow = Giving(lambda count: [[1.0, 0.0]] * count)
        gateway, _ = garden(narrow, embedding_store=store)
        await gateway.initialize()
        other, registry = garden(Subjects(), embedding_store=store)
        registry.add_tool("garden", lambda: None, name="dig", description="Digs for water.")
        built = await other.initialize()
        assert (built.vector_count, seen(built)) == (5, [])
        assert ids(await other.search("arbor"))[0] == "garden:plant"

    asyncio.run(main())


@pytest.mark.covers("GTW-28")
def test_vectors_on_disk_survive_and_damaged_ones_are_left_out(tmp_path: Path) -> None:
    good, bad = EmbeddingKey("aa", "model"), EmbeddingKey("bb", "model")

    async def main() -> None:
        with LmdbEmbeddingStore(tmp_path) as store:
            assert await store.get([good]) == {}
            await store.put({good: [0.5, -0.25], bad: [1.0]})
            await store.put({good: [0.25, -0.5]})
            store.close()
        with LmdbEmbeddingStore(tmp_path) as store:
            assert await store.get([good, bad, EmbeddingKey("aa", "other")]) == {
                good: [0.25, -0.5],
                bad: [1.0],
            }
        data = (tmp_path / "data.mdb").read_bytes()
        one = numpy.asarray([1.0], dtype="<f4").tobytes()
        (tmp_path / "data.mdb").write_bytes(data.replace(one, b"\x01\x02\x03\x04"))
        with LmdbEmbeddingStore(tmp_path) as store:
            assert list(await store.get([good, bad])) == [good]

    asyncio.run(main())


@pytest.mark.covers("GTW-27")
@settings(deadline=None, max_examples=60)
@given(st.lists(st.lists(st.floats(width=32), max_size=4), min_size=1, max_size=5))
def test_vectors_are_refused_or_of_length_one(rows: list[list[float]]) -> None:
    usable = len({len(row) for row in rows}) == 1 and rows[0] and all(map(math.isfinite, chain(*rows)))
    if not usable:
        with pytest.raises(EmbeddingError):
            normalised(rows)
        return
    for row, vector in zip(rows, normalised(rows), strict=True):
        expected = 1.0 if any(row) else 0.0
        assert math.isclose(float(numpy.linalg.norm(vector)), expected, abs_tol=1e-3)


class Nameless(Subjects):
    """Has no fingerprint to tell."""

    @property
    def fingerprint(self) -> str:
        raise RuntimeError("secret")

    @fingerprint.setter
    def fingerprint(self, value: str) -> None:
        pass


@pytest.mark.covers("GTW-26", "GTW-18", "GTW-38")
def test_a_generator_that_cannot_be_had_or_named_gives_way_to_words() -> None:
    def refuse() -> Any:
        raise RuntimeError("secret")

    async def main() -> None:
        for resolve in (refuse, lambda: Nameless(), lambda: Subjects(cast("Any", ["no", "text"]))):
            gateway, registry, _ = create_gateway(GatewayOptions(embedding_generator=resolve))
            registry.add_tool("garden", lambda: None, name="plant", description="Plants a tree.")
            found = await gateway.search("plant a tree")
            assert found.ranking_mode == "lexical"
            assert set(seen(found)) == {"embedding_failed", "lexical_fallback"}
            assert "secret" not in str(found.diagnostics)

    asyncio.run(main())


class Leaving:
    """A store whose own work has been cancelled."""

    async def get(self, keys: Sequence[EmbeddingKey]) -> Mapping[EmbeddingKey, Sequence[float]]:
        raise asyncio.CancelledError

    async def put(self, items: Mapping[EmbeddingKey, Sequence[float]]) -> None:
        raise asyncio.CancelledError


@pytest.mark.covers("GTW-29", "GTW-18")
def test_a_store_or_a_query_that_is_cancelled_by_itself_has_failed() -> None:
    async def main() -> None:
        generator = Giving(lambda count: [[1.0, 2.0]] * count)
        gateway, _ = garden(generator, embedding_store=Leaving())
        built = await gateway.initialize()
        assert (built.vector_count, seen(built)) == (4, ["embedding_store_failed"] * 2)
        generator.answer = asyncio.CancelledError()
        found = await gateway.search("plant a tree")
        assert found.ranking_mode == "lexical"
        assert "vector_search_failed" in seen(found)

    asyncio.run(main())


@pytest.mark.covers("GTW-18", "GTW-29")
def test_vectors_come_back_when_the_generator_does() -> None:
    class Recovering(Subjects):
        well = False

        async def embed(self, texts: Sequence[str]) -> list[list[float]]:
            if not self.well:
                raise OSError
            return await super().embed(texts)

    async def main() -> None:
        generator = Recovering()
        gateway, _ = garden(generator, retry_seconds=0.01)
        async with gateway:
            assert (await gateway.search("arbor")).ranking_mode == "lexical"
            generator.well = True
            while (await gateway.search("arbor")).ranking_mode != "vector":
                await asyncio.sleep(0)
            assert not (await gateway.search("arbor")).diagnostics

    asyncio.run(main())


@pytest.mark.covers("GTW-9", "GTW-28")
def test_a_store_is_closed_after_the_write_that_its_caller_has_left(tmp_path: Path) -> None:
    items = {EmbeddingKey(f"{number:064}", "f"): [0.5] * 512 for number in range(2_000)}

    async def main() -> None:
        store = LmdbEmbeddingStore(str(tmp_path))
        writing = asyncio.create_task(store.put(items))
        await asyncio.sleep(0)
        writing.cancel()
        await asyncio.wait([writing])
        store.close()
        store.close()
        with pytest.raises(RuntimeError, match="closed"):
            await store.get(list(items))

    asyncio.run(main())


@pytest.mark.covers("GTW-18", "GTW-32")
def test_a_generator_a_store_and_a_hook_that_hang_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(*given: object) -> Any:
        await asyncio.Event().wait()

    class Hanging(Subjects):
        embed = hang

    class HangingStore:
        get = put = hang

    monkeypatch.setattr("keyload.gateway.failures.ANSWER_SECONDS", 0.01)

    async def main() -> None:
        gateway, _ = garden(Hanging(), normalize=hang)
        async with gateway:
            found = await gateway.search("plants a tree")
            assert found.ranking_mode == "lexical"
            assert {"embedding_failed", "query_normalization_failed"} <= set(seen(found))
        gateway, _ = garden(Subjects(), embedding_store=HangingStore())
        async with gateway:
            found = await gateway.search("arbor")
            assert found.ranking_mode == "vector"
            assert "embedding_store_failed" in seen(found)

    asyncio.run(main())
