"""Long texts are looked at in part, whatever the cut goes through."""

import json
import random

import pytest

from orchestrator.excerpt import EXCERPT_BYTES, GAP, characters, decoded, excerpt

ALPHABETS = ("ab ", "é漢 ", "😀", '"\\\n\t', "漢字かな", "é")


def test_short_texts_are_whole() -> None:
    assert excerpt(b'"a\\nb\\u00e9"') == "a\nbé"
    assert excerpt(b'"\xff"') == ""
    assert decoded(b"5") is None


@pytest.mark.parametrize("is_ascii", [True, False])
@pytest.mark.parametrize("alphabet", ALPHABETS)
def test_a_long_text_keeps_its_beginning_and_its_end(alphabet: str, is_ascii: bool) -> None:
    for seed in range(12):
        dice = random.Random(seed)
        text = "".join(dice.choices(alphabet, k=EXCERPT_BYTES + seed))
        found = excerpt(json.dumps(text, ensure_ascii=is_ascii).encode())
        if GAP not in found:
            assert found == text
            continue
        beginning, end = found.split(GAP)
        assert text.startswith(beginning)
        assert text.endswith(end[12:])  # a cut may leave some of an escape
        assert len(beginning) >= (EXCERPT_BYTES // 2 - 150) // 12


def test_words_are_not_cut() -> None:
    found = excerpt(json.dumps("prefix " * 3000).encode())
    assert set(found.replace(GAP, " ").split()) == {"prefix"}


@pytest.mark.parametrize("text", ["abc", 'a\nb"é漢😀', "plain words. " * 3000, "é漢 \n" * 9000])
@pytest.mark.parametrize("is_ascii", [True, False])
def test_characters_are_counted_or_estimated(text: str, is_ascii: bool) -> None:
    found = characters(json.dumps(text, ensure_ascii=is_ascii).encode())
    assert found == pytest.approx(len(text), rel=0 if len(text) < 100 else 0.02)
