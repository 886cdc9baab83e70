"""`draftgate classify`: which rule matches each line, why, and what other rules would move."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cli import main

FLEET = """\
fleet: f
models: {small: {target: org/m}}
workers:
  - {name: plain-0, engine: llama_cpp, model: small, profile: plain, port: 8501}
types:
  - {type: json, when: {response_format: [json_object]}}
  - {type: code_edit, when: {last_user: '(?i)\\bfix\\b', temperature: "<0.5"}}
  - {type: chat}
"""
SECRET = "Please fix the secret plan"
LINES: tuple[Any, ...] = (
    {"messages": [{"role": "user", "content": SECRET}], "temperature": 0.9},
    {"type": "code_edit", "id": "x", "prompt": SECRET, "temperature": 0},
    {"time": 5, "request": {"prompt": "hello"}, "type": "json"},
    {"body": json.dumps({"prompt": "hello", "response_format": {"type": "json_object"}})},
    {"prompt": "hello", "metadata": {"draftgate_type": "code_edit"}},
    {"prompt": "hello", "metadata": {"draftgate_type": "poem"}},
)
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run the command in a folder with two fleets and a log; exit code, both outputs."""
    monkeypatch.chdir(tmp_path)
    Path("fleet.yaml").write_text(FLEET)
    Path("other.yaml").write_text(FLEET.replace('"<0.5"', '"<2"'))
    Path("log.jsonl").write_text("\n".join(map(json.dumps, LINES)) + "\n\n")

    def run_command(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            main(["classify", *arguments])
        assert isinstance(stop.value.code, int)
        said = capsys.readouterr()
        return stop.value.code, said.out, said.err

    return run_command


def test_each_request_is_explained(run: Run) -> None:
    code, out, err = run("log.jsonl")
    assert (code, err) == (0, "")
    assert out.splitlines()[:12] == [
        "1: chat: types[2]: matches everything",
        "    not types[0] json: response_format=json_object (text)",
        "    not types[1] code_edit: temperature<0.5 (0.9)",
        "2: code_edit: types[1]: temperature<0.5, last_user matches (temperature<0.5: 0)",
        "    not types[0] json: response_format=json_object (text)",
        "3: chat: types[2]: matches everything",
        "    not types[0] json: response_format=json_object (text)",
        "    not types[1] code_edit: temperature<0.5 (not said); last_user matches"
        " (not in its 5 characters)",
        "4: json: types[0]: response_format=json_object (response_format=json_object: json_object)",
        "5: code_edit: the client named the type",
        "6: (refused): it names a type that no rule has",
        "6 requests",
    ]


def test_text_is_quoted_only_when_asked_for(run: Run) -> None:
    assert "secret" not in run("log.jsonl")[1]
    assert "secret" not in run("log.jsonl", "--json")[1]
    assert f'    "{SECRET}"' in run("log.jsonl", "--show-text")[1].splitlines()
    shown = json.loads(run("log.jsonl", "--show-text", "--json")[1].splitlines()[0])
    assert shown["text"] == SECRET


def test_the_report_counts_types_moves_and_labels(run: Run) -> None:
    code, out, _ = run("log.jsonl", "--report", "--against", "other.yaml", "--json")
    (line,) = out.splitlines()
    report = json.loads(line)["report"]
    assert code == 0
    assert (report["requests"], report["bad_lines"]) == (6, 0)
    assert {one["type"]: one["count"] for one in report["types"]} == {
        "chat": 2, "code_edit": 2, "json": 1, "(refused)": 1,
    }  # fmt: skip
    assert report["types"][0]["share"] == pytest.approx(1 / 3)
    assert report["moves"] == [{"from": "chat", "to": "code_edit", "count": 1, "lines": [1]}]
    assert report["labels"] == [
        {"label": "code_edit", "type": "code_edit", "count": 1, "lines": [2]},
        {"label": "json", "type": "chat", "count": 1, "lines": [3]},
    ]


def test_the_report_for_people(run: Run) -> None:
    _, out, _ = run("log.jsonl", "--report", "--against", "other.yaml")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "chat 2 33.3%" in lines
    assert "moved by the other rules: 1" in lines
    assert "chat → code_edit 1 lines 1" in lines
    assert "as the lines say themselves: 1 of 2 (50.0%)" in lines
    assert "json → chat 1 lines 3" in lines


def test_what_a_client_may_not_name_is_not_named(run: Run) -> None:
    Path("fleet.yaml").write_text(FLEET + "router: {type_header: false}\n")
    out = run("log.jsonl")[1]
    assert "5: chat" in out
    assert "6: chat" in out


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "not JSON"),
        ("[1]", "must be a JSON object"),
        ('{"x": 1}', "no request: the line has none of messages, prompt, input, body, request"),
        ('{"body": "hello"}', "not JSON"),
        ('{"body": [1]}', "must be a JSON object"),
        ('{"body": "\\ud800"}', "not JSON"),
    ],
)
def test_a_bad_line_is_told_and_the_rest_goes_on(run: Run, line: str, said: str) -> None:
    Path("bad.jsonl").write_text(f'{line}\n{{"prompt": "hi"}}\n')
    code, out, err = run("bad.jsonl")
    assert code == 2
    assert err.startswith("bad.jsonl:1:1: ")
    assert said in err
    assert "2: chat" in out
    assert "1 request, 1 bad line" in out


def test_examples_are_a_few(run: Run) -> None:
    Path("many.jsonl").write_text('{"type": "poem", "prompt": "hi"}\n' * 50)
    report = json.loads(run("many.jsonl", "--report", "--json")[1])["report"]
    assert report["labels"] == [
        {"label": "poem", "type": "chat", "count": 50, "lines": [1, 2, 3, 4, 5]}
    ]


def test_an_empty_file_has_no_types(run: Run) -> None:
    Path("empty.jsonl").write_text("")
    assert run("empty.jsonl")[:2] == (0, "0 requests\n")


def test_a_bad_fleet_is_told(run: Run) -> None:
    Path("other.yaml").write_text(FLEET.replace('"<0.5"', "0.5"))
    code, out, err = run("log.jsonl", "--against", "other.yaml")
    assert (code, out) == (2, "")
    assert "other.yaml:7:69: types[1].when.temperature: expected text, found 0.5" in err
    assert run("none.jsonl")[0] == 2
