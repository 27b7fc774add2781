"""What the index puts first, and why."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.discovery.sets import public
from keyload.gateway.documents import Argument, ToolDocument
from keyload.gateway.lexical import LexicalIndex

GATEWAY = public("gateway")
INDEX = LexicalIndex(GATEWAY.documents)


def tool(name: str, description: str = "", **more: object) -> ToolDocument:
    title = str(more.pop("title", name))
    return ToolDocument(id=f"s:{name}", name=name, title=title, description=description, **more)  # type: ignore[arg-type]


def names(index: LexicalIndex, text: str, limit: int = 15) -> list[str]:
    return [scored.tool_id.removeprefix("s:") for scored in index.rank(text, limit).scored]


@pytest.mark.covers("GTW-24", "GTW-20")
@pytest.mark.parametrize("name", ["weather_current_conditions", "github_code_search", "crm_contact_search"])
def test_an_exact_name_comes_first_in_every_spelling(name: str) -> None:
    head, *rest = name.split("_")
    camel = head + "".join(part.capitalize() for part in rest)
    dashed = name.replace("_", "-")
    for spelling in (name, name.upper(), camel, dashed, f"first call {name}, then find files", f"`{name}`?"):
        ranked = INDEX.rank(spelling)
        assert ranked.scored[0].tool_id == name
        assert ranked.scored[0].score == 1.0
        assert not ranked.low


def test_a_name_of_one_word_counts_alone_but_not_in_a_sentence() -> None:
    index = LexicalIndex([tool("search", "Finds web pages."), tool("Chess", "Plays chess against you.")])
    assert names(index, "chess")[0] == "Chess"
    assert index.rank("chess").scored[0].score == 1.0
    assert index.rank("search a good opening for chess").scored[0].score < 1.0


@pytest.mark.covers("GTW-20")
def test_a_prefix_that_all_tools_share_weighs_nothing() -> None:
    index = LexicalIndex([tool(f"acme_{word}") for word in ("invoice", "weather", "file", "queue", "user")])
    scores = {scored.tool_id: scored.score for scored in index.rank("acme weather").scored}
    assert scores.pop("s:acme_weather") > 4 * max(scores.values(), default=0.0)


@pytest.mark.covers("GTW-19")
def test_fields_weigh_separately() -> None:
    filler = [tool(f"other{number}", f"Does thing number {number}.") for number in range(8)]
    index = LexicalIndex(
        [
            tool("zebra_tool", "Something."),
            tool("described", "Something about a zebra."),
            tool("required", "Something.", arguments=(Argument("zebra", required=True),)),
            tool("explained", "Something.", arguments=(Argument("x", "Maybe a zebra."),)),
            tool("valued", "Something.", arguments=(Argument("x", "", ("horse", "zebra")),)),
            *filler,
        ]
    )
    assert names(index, "zebra")[0] == "zebra_tool"
    assert set(names(index, "zebra")) == {"zebra_tool", "described", "required", "explained", "valued"}
    assert names(index, "zebra").index("described") < names(index, "zebra").index("explained")


def test_what_a_description_excludes_is_not_found() -> None:
    index = LexicalIndex(
        [tool("files", "Finds files. Not for invoices or refunds."), tool("other", "Adds numbers.")]
    )
    assert names(index, "refund an invoice") == []
    assert names(index, "find a file") == ["files"]


@pytest.mark.covers("GTW-20")
def test_one_near_example_counts_more_than_its_words_in_many() -> None:
    index = LexicalIndex(
        [
            tool(
                "one", "Tool.", examples=("throw the red ball over the fence", "sing a song", "paint a house")
            ),
            tool(
                "two",
                "Tool.",
                examples=("a red house", "the ball of kings", "over and out", "jump the fence"),
            ),
            tool("three", "Tool.", examples=("write a letter", "bake bread")),
        ]
    )
    assert names(index, "throw a red ball over that fence")[0] == "one"
    assert index.rank("sing a song").scored[0].score >= 0.99


@pytest.mark.covers("GTW-20")
def test_misspelt_words_and_beginnings_find_the_tool() -> None:
    assert names(INDEX, "shipmnt trakcing")[0] == "commerce_shipping_tracking"
    assert names(INDEX, "vulnerab in an image")[0] == "security_vulnerability_search"


@pytest.mark.covers("GTW-20")
def test_verbs_decide_between_tools_for_the_same_thing() -> None:
    index = LexicalIndex(
        [
            tool("file_read", "Read a file."),
            tool("file_delete", "Delete a file."),
            tool("file_move", "Move a file."),
            tool("mail_send", "Send a mail."),
        ]
    )
    assert names(index, "erase the file")[0] == "file_delete"
    assert names(index, "show me the file")[0] == "file_read"
    assert names(index, "borrar el archivo")[0] == "file_delete"
    assert names(index, "删除文件")[0] == "file_delete"


@pytest.mark.covers("GTW-20")
@pytest.mark.parametrize(
    ("query", "tool_name"),
    [
        ("anna@example.com", "crm_contact_search"),
        ("where is AddMcpGateway defined", "github_code_search"),
        ("rename report.pdf", "filesystem_move_file"),
    ],
)
def test_the_shape_of_a_word_says_what_it_names(query: str, tool_name: str) -> None:
    assert names(INDEX, query)[0] == tool_name


@pytest.mark.covers("GTW-15", "GTW-24")
def test_equal_scores_stand_in_the_order_of_ids() -> None:
    index = LexicalIndex([tool(name, "Reads the weather.", title="Same") for name in ("b", "c", "a")])
    assert [scored.tool_id for scored in index.rank("weather").scored] == ["s:a", "s:b", "s:c"]
    assert names(index, "weather", 2) == ["a", "b"]
    assert names(index, "weather", 0) == []


@pytest.mark.covers("GTW-22")
def test_nothing_is_found_for_nothing() -> None:
    for index, text in ((INDEX, ""), (INDEX, "  \n"), (INDEX, "???"), (LexicalIndex([]), "weather")):
        ranked = index.rank(text)
        assert (ranked.scored, ranked.confidence, ranked.low) == ((), 0.0, True)


def test_only_the_first_words_of_a_long_query_count() -> None:
    words = " ".join(f"unknown{chr(97 + number % 26)}{number // 26}" for number in range(60))
    assert names(INDEX, f"invoice {words}")[0] == "finance_invoice_search"
    assert "finance_invoice_search" not in names(INDEX, f"{words.replace('unknown', 'ticket ')} invoice")[:1]


@pytest.mark.covers("GTW-2")
def test_threads_share_an_index_and_order_of_documents_is_nothing() -> None:
    queries = [query.text for query in GATEWAY.queries]
    alone = [INDEX.rank(query) for query in queries]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(INDEX.rank, queries)) == alone
    turned = LexicalIndex(GATEWAY.documents[::-1])
    assert [[s.tool_id for s in turned.rank(query).scored] for query in queries] == [
        [s.tool_id for s in ranked.scored] for ranked in alone
    ]


TEXTS = st.one_of(
    st.text(max_size=120),
    st.lists(
        st.sampled_from(
            ["read", "файл", "删除", "ファイル", "weather_forecast_lookup", "a@b.cd", "qeue", "'", "_"]
        )
    ).map(" ".join),
)


@pytest.mark.covers("GTW-15", "GTW-24")
@settings(derandomize=True, deadline=None, max_examples=200)
@given(TEXTS)
def test_any_text_gives_finite_ordered_scores_once_for_each_tool(text: str) -> None:
    ranked = INDEX.rank(text)
    assert ranked == INDEX.rank(text)
    assert len({scored.tool_id for scored in ranked.scored}) == len(ranked.scored) <= 15
    assert all(math.isfinite(scored.score) and 0 < scored.score <= 1 for scored in ranked.scored)
    assert list(ranked.scored) == sorted(ranked.scored, key=lambda scored: (-scored.score, scored.tool_id))
    assert 0 <= ranked.confidence <= 1
    assert ranked.low == (ranked.confidence < 0.25)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.lists(st.text(max_size=20), max_size=6, unique=True), st.text(max_size=30))
def test_tools_of_any_text_can_be_indexed(texts: list[str], query: str) -> None:
    documents = [
        ToolDocument(
            id=text,
            name=text,
            title=text,
            description=text,
            aliases=(text,),
            examples=(text, query),
            arguments=(Argument(text, text, (text,), True),),
        )
        for text in texts
    ]
    for scored in LexicalIndex(documents).rank(query).scored:
        assert scored.tool_id in texts
        assert math.isfinite(scored.score)
