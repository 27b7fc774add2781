"""Words and terms of texts, and their English in the glossary."""

from __future__ import annotations

import pytest

from keyload.gateway.lexical.analysis import fold, is_function_word, pairs, runs, split, stem, terms_of
from keyload.gateway.lexical.translation import cut, is_foreign, translate


@pytest.mark.covers("GTW-20")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Read_the file-name", ["read", "the", "file", "name"]),
        ("getWeatherNow", ["get", "weather", "now", "getweathernow"]),
        ("HTTPServer v2", ["http", "server", "httpserver", "v2"]),
        ("what's the user's café?", ["whats", "the", "users", "cafe"]),
        ("Größe und Straße", ["grosse", "und", "strasse"]),
        ("", []),
        ("?!", []),
    ],
)
def test_names_and_sentences_become_the_same_words(text: str, words: list[str]) -> None:
    assert runs(text) == words


def test_a_word_beyond_every_language_is_left_out() -> None:
    assert runs("x" * 65 + " short") == ["short"]
    assert runs("é" * 65 + " short") == ["short"]


def test_chinese_and_japanese_become_pairs_without_particles() -> None:
    assert list(pairs("删除文件")) == ["删除", "除文", "文件"]
    assert list(pairs("ファイルを削除")) == ["ファイル", "削除"]
    assert split(runs("删除文件 now")) == ["删除", "除文", "文件", "now"]


def test_forms_of_a_word_have_one_stem() -> None:
    assert stem("deleted") == stem("deleting") == stem("deletes")
    assert stem("kept") == stem("keeping")
    assert stem("документи") == stem("документів") == stem("документа")
    assert stem("削除") == "削除"


def test_a_word_stands_for_itself_its_stem_and_its_concepts() -> None:
    assert terms_of("removed")[:2] == ("remov", "=removed")
    assert "#delete" in terms_of("removed")
    assert "#delete" in terms_of("erase")
    assert terms_of("the") == ()


@pytest.mark.covers("GTW-21")
@pytest.mark.parametrize("word", ["the", "quiero", "für", "avec", "щоб", "x"])
def test_function_words_of_several_languages_carry_no_task(word: str) -> None:
    assert is_function_word(fold(word))


@pytest.mark.covers("GTW-21")
@pytest.mark.parametrize(
    ("word", "english"),
    [
        ("eliminar", "delete"),
        ("archivos", "file"),
        ("löschen", "delete"),
        ("Warteschlange", "queue"),
        ("fichiers", "file"),
        ("черга", "queue"),
    ],
)
def test_everyday_words_are_translated(word: str, english: str) -> None:
    assert english in translate(fold(word), foreign=True)


def test_other_forms_are_translated_in_a_foreign_text_only() -> None:
    assert "save" in translate("guardamos", foreign=True)
    assert translate("guardamos", foreign=False) == ()
    assert translate("the", foreign=True) == ()
    assert is_foreign(["quiero", "zzz"])
    assert not is_foreign(["delete", "the", "file"])


def test_a_chinese_run_is_cut_at_known_words() -> None:
    parts = list(cut("删除大文件"))
    assert [part for part, _ in parts] == ["删除", "大", "文件"]
    assert "delete" in parts[0][1]
    assert "file" in parts[2][1]
    assert list(cut("甲乙文件丙")) == [("甲乙", ()), ("文件", ("file",)), ("丙", ())]
