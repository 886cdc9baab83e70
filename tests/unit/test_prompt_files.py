"""The typed prompt sets hold what the gate and the demo expect of them."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

PROMPTS = Path(__file__).parents[2] / "prompts"
TYPES = ("chat", "code_edit", "creative", "json", "maths", "rag", "summarize")
FIELDS = {"id", "type", "prompt", "messages", "max_tokens"}
ROLES = {"system", "user", "assistant"}
LEAST_LINES = 8
# Characters stand in for 60-450 tokens: about two of them make a token in CJK text, three in code.
SHORTEST, LONGEST = 100, 1700
SOURCE_ROW = re.compile(
    r"^\| `(\w+)-(\d\d)`(?: to `(\w+)-(\d\d)`)? \|([^|]+)\|([^|]+)\|", re.MULTILINE
)


def lines_of(request_type: str) -> list[dict[str, Any]]:
    text = (PROMPTS / f"{request_type}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def all_lines() -> list[dict[str, Any]]:
    return [line for request_type in TYPES for line in lines_of(request_type)]


def text_of(line: dict[str, Any]) -> str:
    if "prompt" in line:
        return str(line["prompt"])
    return "\n".join(message["content"] for message in line["messages"])


def ids_in_readme() -> list[str]:
    rows = SOURCE_ROW.findall((PROMPTS / "README.md").read_text(encoding="utf-8"))
    ids = []
    for name, first, last_name, last, source, licence in rows:
        assert last_name in ("", name)
        assert source.strip()
        assert licence.strip()
        numbers = range(int(first), int(last or first) + 1)
        ids += [f"{name}-{number:02d}" for number in numbers]
    return ids


def test_there_is_one_file_per_type() -> None:
    assert sorted(path.stem for path in PROMPTS.glob("*.jsonl")) == sorted(TYPES)


@pytest.mark.parametrize("request_type", TYPES)
def test_lines_have_the_type_of_their_file(request_type: str) -> None:
    lines = lines_of(request_type)
    assert len(lines) >= LEAST_LINES
    assert {line["type"] for line in lines} == {request_type}
    assert all(line["id"].startswith(f"{request_type}-") for line in lines)


def test_ids_and_texts_are_unique() -> None:
    lines = all_lines()
    assert [key for key, count in Counter(line["id"] for line in lines).items() if count > 1] == []
    assert len({text_of(line) for line in lines}) == len(lines)


@pytest.mark.parametrize("line", all_lines(), ids=lambda line: line["id"])
def test_line_has_only_the_allowed_fields(line: dict[str, Any]) -> None:
    assert set(line) <= FIELDS
    assert ("prompt" in line) != ("messages" in line)
    assert type(line["max_tokens"]) is int
    assert 1 <= line["max_tokens"] <= 128
    assert SHORTEST <= len(text_of(line)) <= LONGEST


@pytest.mark.parametrize("request_type", TYPES)
def test_last_two_lines_take_the_chat_path(request_type: str) -> None:
    lines = lines_of(request_type)
    assert all("prompt" in line for line in lines[:-2])
    for line in lines[-2:]:
        assert {message["role"] for message in line["messages"]} <= ROLES
        assert all(set(message) == {"role", "content"} for message in line["messages"])
        assert line["messages"][-1]["role"] == "user"


def test_readme_names_the_source_of_every_line() -> None:
    assert Counter(ids_in_readme()) == Counter(line["id"] for line in all_lines())
