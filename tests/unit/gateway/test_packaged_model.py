"""The model that comes with a wheel: nothing is downloaded, and it finds what words alone do not."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import numpy
import pytest

from keyload.gateway import EmbeddingError, GatewayOptions, create_gateway, packaged_model
from keyload.gateway.packaged_model import PackagedModel
from tests.unit.gateway.support import ids


def test_it_embeds_without_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("the model asks the network")

    async def main() -> Any:
        monkeypatch.setattr(socket.socket, "connect", refuse)
        monkeypatch.setattr(socket, "getaddrinfo", refuse)
        return await PackagedModel().embed(["a physician", "a doctor", "a bicycle", ""])

    vectors = numpy.stack(asyncio.run(main()))
    assert vectors.shape == (4, 256)
    assert not vectors[3].any()
    doctor, bicycle = (vectors[0] @ vectors[n] for n in (1, 2))
    assert doctor > 2 * bicycle


@pytest.mark.covers("GTW-26", "GTW-27", "GTW-17")
def test_it_finds_a_tool_that_shares_no_word_with_the_question() -> None:
    async def main() -> None:
        model = PackagedModel()
        gateway, registry, _ = create_gateway(GatewayOptions(embedding_generator=lambda: model))
        texts = {
            "book_appointment": "Books an appointment with a doctor.",
            "rent_vehicle": "Rents a vehicle for a journey.",
            "cook_meal": "Cooks a meal.",
        }
        for name, text in texts.items():
            registry.add_tool("town", lambda: None, name=name, description=text)
        assert (await gateway.initialize()).vector_count == 3
        found = await gateway.search("physician visit")
        assert (found.ranking_mode, found.diagnostics) == ("vector", ())
        assert ids(found)[0] == "town:book_appointment"

    asyncio.run(main())


def test_without_the_extra_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packaged_model, "PACKAGE", "no-such-package-here")
    with pytest.raises(EmbeddingError, match="vectors"):
        PackagedModel()
