"""Instructions are known by their verbs, near either end of a message."""

import json
from typing import get_args

import pytest

from orchestrator.intent import INTENTS, LOOKED_AT, intents
from orchestrator.shipped import shipped
from orchestrator.type_rule import Intent

TEXT = "It rained on Monday and the river rose. Nobody was surprised. " * 40


@pytest.mark.parametrize(
    ("text", "intent"),
    [
        ("Fix the bug in this function.", "edit"),
        ("Korrigiere die Rechtschreibung.", "edit"),
        ("Исправь ошибки в тексте", "edit"),
        ("请修改下面的代码", "edit"),
        ("Überarbeite den Absatz", "edit"),
        ("Extract all dates.", "extract"),
        ("提取所有日期", "extract"),
        ("Summarize this in two sentences.", "summarize"),
        ("TL;DR", "summarize"),
        ("Fass das bitte kurz zusammen", "summarize"),
        ("Résume ce texte", "summarize"),
        ("次の文章を要約してください", "summarize"),
        ("이 글을 요약해 주세요", "summarize"),
        ("لخص النص", "summarize"),
        ("Translate German to English", "translate"),
        ("Übersetze das ins Englische", "translate"),
        ("把这句话翻译成英文", "translate"),
    ],
)
@pytest.mark.parametrize("place", ["alone", "before", "behind"])
def test_an_instruction_is_told(text: str, intent: str, place: str) -> None:
    asked = {"alone": text, "before": f"{text}\n{TEXT}", "behind": f"{TEXT}\n{text}"}[place]
    assert intents(asked) == {intent}


@pytest.mark.parametrize("text", ["", "What is the capital of France?", "a prefix, a suffix", TEXT])
def test_other_messages_have_none(text: str) -> None:
    assert intents(text) == frozenset()


def test_the_middle_of_a_long_text_does_not_count() -> None:
    filler = "x" * LOOKED_AT
    assert intents(f"{filler} Fix the bug. {filler}") == frozenset()


def test_the_schema_names_them_all() -> None:
    assert get_args(Intent) == INTENTS


def test_shipped_prompts_are_told() -> None:
    """Every edit, most summaries, hardly anything else."""
    found = {}
    for kind in ("code_edit", "summarize", "chat", "creative"):
        lines = (shipped("prompts") / f"{kind}.jsonl").read_text(encoding="utf-8").splitlines()
        asked = [json.loads(line) for line in lines]
        texts = [a.get("prompt") or a["messages"][-1]["content"] for a in asked]
        wanted = "edit" if kind == "code_edit" else "summarize"
        found[kind] = sum(wanted in intents(text) for text in texts) / len(texts)
    assert found["code_edit"] == 1
    assert found["summarize"] >= 0.9
    assert found["chat"] == found["creative"] == 0
