"""Prompt files: every bad line is listed, and what is asked has a digest."""

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import InputError
from orchestrator.gate.prompt import (
    DEFAULT_MAX_TOKENS,
    Prompt,
    prompts_digest,
    read_prompts,
    require_fitting,
    told_prompt,
    unknown_types,
)

CHAT = [{"role": "user", "content": "hi"}]


def write(folder: Path, *lines: Any, name: str = "p.jsonl") -> Path:
    file = folder / name
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    file.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return file


def complaints(file: Path) -> list[str]:
    with pytest.raises(InputError) as caught:
        read_prompts(file)
    return [str(p).removeprefix(f"{file}:") for p in caught.value.problems]


def test_lines_become_prompts(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        {"id": "a", "type": "chat", "prompt": "x", "max_tokens": 4, "temperature": 0, "stop": "."},
        "",
        {"messages": CHAT},
    )
    assert read_prompts(file) == [
        Prompt("a", "chat", {"prompt": "x", "max_tokens": 4, "stop": "."}),
        Prompt("p:3", "default", {"messages": CHAT, "max_tokens": DEFAULT_MAX_TOKENS}),
    ]


def test_structured_requests_are_kept_as_they_are(tmp_path: Path) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}
    tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    fields = {"messages": CHAT, "response_format": form, "tools": tools, "tool_choice": "required"}
    (prompt,) = read_prompts(write(tmp_path, fields))
    assert prompt.request == {**fields, "max_tokens": DEFAULT_MAX_TOKENS}


def test_a_folder_is_all_its_files_in_order(tmp_path: Path) -> None:
    write(tmp_path, {"prompt": "2"}, name="b.jsonl")
    write(tmp_path, {"prompt": "1"}, name="a.jsonl")
    write(tmp_path, {"prompt": "3"}, name="c.json")
    assert [p.request["prompt"] for p in read_prompts(tmp_path)] == ["1", "2"]


def test_so_many_of_each_type(tmp_path: Path) -> None:
    rows = [{"prompt": str(n), "type": "even" if n % 2 == 0 else "odd"} for n in range(1, 7)]
    kept = read_prompts(write(tmp_path, *rows), per_type=2)
    assert [p.request["prompt"] for p in kept] == ["1", "2", "3", "4"]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        ({}, "prompt: neither prompt nor messages"),
        ({"prompt": "a", "messages": CHAT}, "prompt: both prompt and messages"),
        ({"prompt": ""}, "prompt: must be text, and not empty"),
        ({"prompt": ["a"]}, "prompt: must be text, and not empty"),
        ({"messages": []}, "messages: must be a list of messages"),
        ({"messages": "hi"}, "messages: must be a list of messages"),
        ({"messages": ["hi"]}, "messages: must be a list of messages"),
        ({"prompt": "a", "temperature": 0.7}, "temperature: is 0.7, but greedy answers"),
        ({"prompt": "a", "type": ""}, "type: must be a name without white space around it"),
        ({"prompt": "a", "type": "chat "}, "type: must be a name without white space around it"),
        ({"prompt": "a", "type": "a\x07"}, "type: must be a name without white space around it"),
        ({"prompt": "a", "type": None}, "type: must be a name without white space around it"),
        ({"prompt": "a", "type": 5}, "type: must be a name without white space around it"),
        ({"prompt": "a", "max_tokens": 0}, "max_tokens: must be a whole number from 1"),
        ({"prompt": "a", "max_tokens": "9"}, "max_tokens: must be a whole number from 1"),
        ({"prompt": "a", "max_tokens": True}, "max_tokens: must be a whole number from 1"),
        ({"prompt": "a", "max_tokens": None}, "max_tokens: must be a whole number from 1"),
        ({"prompt": "a", "stream": True}, "stream: the gate reads whole answers"),
        ({"prompt": "a", "n": 2}, "n: the gate asks for one answer"),
        ({"prompt": "a", "logprobs": 5}, "logprobs: the gate asks"),
        ({"prompt": "a", "model": "m"}, "model: the gate asks the workers' model"),
        ({"prompt": "a", "response_format": "json"}, "response_format: must be an object with"),
        ({"prompt": "a", "response_format": {}}, "response_format: must be an object with a type"),
        ({"prompt": "a", "tools": [{}]}, "tools: are for chats"),
        ({"messages": CHAT, "tools": []}, "tools: must be a list of tools, and not empty"),
        ({"messages": CHAT, "tools": {}}, "tools: must be a list of tools, and not empty"),
        ({"messages": CHAT, "tools": ["f"]}, "tools: must be a list of tools, and not empty"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: Any, complaint: str) -> None:
    (said,) = complaints(write(tmp_path, {"prompt": "good"}, line))
    assert said.startswith(f"2:1: {complaint}")


def test_all_bad_lines_are_listed_in_order(tmp_path: Path) -> None:
    file = write(tmp_path, "{", {"prompt": "ok"}, {"prompt": "a", "n": 2, "stream": 1}, "5")
    assert [said.split(":")[0] for said in complaints(file)] == ["1", "3", "3", "4"]


def test_two_prompts_must_not_share_an_id(tmp_path: Path) -> None:
    """Answers are kept by id: of two, only one would be compared."""
    file = write(tmp_path, {"id": "a", "prompt": "1"}, {"id": "a", "prompt": "2"})
    (said,) = complaints(file)
    assert said.startswith("2:1: id")


@pytest.mark.parametrize("text", ["", "\n\n"])
def test_a_file_without_prompts(tmp_path: Path, text: str) -> None:
    file = tmp_path / "p.jsonl"
    file.write_text(text)
    assert complaints(file) == ["1:1: no prompts here"]


def test_a_folder_without_prompt_files(tmp_path: Path) -> None:
    assert complaints(tmp_path) == ["1:1: no prompts here"]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_prompts(tmp_path / "no.jsonl")


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    file = tmp_path / "p.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + json.dumps({"prompt": "a"}).encode())
    assert len(read_prompts(file)) == 1


def test_separators_of_other_standards_do_not_end_a_line(tmp_path: Path) -> None:
    file = write(tmp_path, json.dumps({"prompt": "a\u2028b\u0085c"}, ensure_ascii=False))
    assert read_prompts(file)[0].request["prompt"] == "a\u2028b\u0085c"


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        ({"prompt": "say"}, "say"),
        ({"messages": [*CHAT, {"role": "user", "content": "last"}]}, "last"),
        ({"messages": [{"role": "user"}]}, ""),
    ],
)
def test_the_text_people_know_a_prompt_by(request_: dict[str, Any], text: str) -> None:
    assert Prompt("a", "t", request_).text == text


def test_the_digest_is_over_what_is_asked_and_in_which_order() -> None:
    one, two = Prompt("a", "t", {"prompt": "1"}), Prompt("b", "t", {"prompt": "2"})
    digest = prompts_digest([one, two])
    assert prompts_digest([Prompt("x", "other", {"prompt": "1"}), two]) == digest
    assert prompts_digest([two, one]) != digest
    assert prompts_digest([one]) != digest
    assert prompts_digest([Prompt("a", "t", {"prompt": "1", "max_tokens": 5}), two]) != digest


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"stop": {"middle": "x"}}, "stop: must be text or a list of texts"),
        ({"stop": [1]}, "stop: must be text or a list of texts"),
        ({"max_completion_tokens": "x"}, "max_completion_tokens: must be a whole number from 1"),
        ({"max_completion_tokens": 0}, "max_completion_tokens: must be a whole number from 1"),
        ({"n_predict": 0}, "n_predict: would decide whether"),
        ({"speculative.n_max": 0}, "would decide whether"),
        ({"temprature": 1}, "did you mean 'temperature'?"),
        ({"temperature": "0"}, "is '0', but greedy"),
    ],
)
def test_fields_that_would_bend_the_comparison_are_refused(
    tmp_path: Path, fields: dict[str, object], words: str
) -> None:
    file = tmp_path / "p.jsonl"
    file.write_text(json.dumps({"prompt": "x", **fields}))
    with pytest.raises(InputError) as raised:
        read_prompts(file)
    assert words in str(raised.value)


def test_content_that_is_no_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "p.jsonl"
    file.write_text(json.dumps({"messages": [{"role": "user", "content": {"answer": "greedy/a"}}]}))
    with pytest.raises(InputError, match=r"messages\[0\]\.content: must be text"):
        read_prompts(file)


def test_a_prompt_that_no_such_context_holds_is_told_with_its_line(tmp_path: Path) -> None:
    file = write(tmp_path, {"prompt": "x" * 100}, {"id": "big", "prompt": "x" * 5_000_000})
    prompts = read_prompts(file)
    with pytest.raises(InputError) as raised:
        require_fitting(prompts, 512, 5)
    (problem,) = raised.value.problems
    assert str(problem) == (
        f"{file}:2:1: prompt: 'big' has 5,000,000 bytes, which the model's context of 512 tokens "
        "cannot hold\n    hint: shorten it, or give the model a longer context "
        "(in a fleet: models.<name>.context)"
    )


def test_an_answer_that_reaches_the_end_of_the_context_is_not_asked_for(tmp_path: Path) -> None:
    rows = [{"prompt": "a", "max_tokens": n} for n in (506, 507, 100_000_000)]
    with pytest.raises(InputError) as raised:
        require_fitting(read_prompts(write(tmp_path, *rows)), 512, 5)
    assert [p.place.line for p in raised.value.problems if p.place] == [2, 3]
    assert "at most 506 less the prompt's own" in str(raised.value)


@pytest.mark.parametrize(("size", "context"), [(32 * 512, 512), (5_000_000, None)])
def test_a_prompt_that_may_fit_is_left_to_the_engine(size: int, context: int | None) -> None:
    require_fitting([Prompt("a", "chat", {"prompt": "x" * size})], context, 5)


def test_the_size_of_a_chat_is_that_of_its_messages() -> None:
    assert Prompt("a", "t", {"prompt": "né"}).size == 3
    assert Prompt("a", "t", {"messages": [{"role": "user", "content": "x" * 40}] * 2}).size == 88


def test_types_that_the_fleet_does_not_know_are_named(tmp_path: Path) -> None:
    rows = [{"prompt": "1"}, *({"prompt": "x", "type": t} for t in ("chat", "chta", "xyz", "chta"))]
    file = write(tmp_path, *rows)
    assert unknown_types(read_prompts(file), {"chat", "json"}) == [
        f"prompt 'p:3' ({file}:3, 1 bytes): the fleet knows no type 'chta': did you mean 'chat'?",
        f"prompt 'p:4' ({file}:4, 1 bytes): the fleet knows no type 'xyz': "
        "known: chat, default, json",
    ]


def test_a_prompt_is_told_by_its_id_and_its_line(tmp_path: Path) -> None:
    file = write(tmp_path, {"prompt": "1"}, {"prompt": "x" * 1234})
    assert told_prompt(read_prompts(file)[1]) == f"prompt 'p:2' ({file}:2, 1,234 bytes)"
    assert told_prompt(Prompt("a", "t", {"prompt": "12"})) == "prompt 'a' (2 bytes)"
