"""The journal: a killed run goes on; a torn line, another run and a full disk do no harm."""

import json
from pathlib import Path

import pytest

from adapters.exchange import Generation
from orchestrator.errors import OrchestratorError
from orchestrator.gate.journal import Journal, RunFolder, finish_run
from tests.unit.gate_arms import QUESTIONS

QUESTION = QUESTIONS["greedy/p1"]
ANSWER = Generation((1, 2), (3, 4), "héllo\n", "length", 0.5, 7, 3, (0.0, 0.25))


def test_answers_come_back_as_they_were(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "A1.jsonl")
    journal.booted("fp")
    journal.answered(QUESTION, ANSWER)
    counted = {"drafted": 7.0, "accepted": None, "drafts": None, "positions": [3.0], "seconds": 1.5}
    journal.count(counted)
    again = Journal(tmp_path / "A1.jsonl")
    assert again.answers == {"greedy/p1": ANSWER}
    assert again.counted == [counted]
    assert (again.boots, again.fingerprint) == (1, "fp")
    again.begin_anew()
    assert Journal(tmp_path / "A1.jsonl").answers == {}


def test_a_failure_is_told_and_asked_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "A1.jsonl")
    journal.failed(QUESTION, "answered 500")
    assert Journal(tmp_path / "A1.jsonl").answers == {}
    assert json.loads((tmp_path / "A1.jsonl").read_text())["error"] == "answered 500"


@pytest.mark.parametrize("torn", ['{"question": "greedy/p2", "ids', "\xff", "null"])
def test_a_torn_line_is_cut_off_and_the_next_stands_alone(tmp_path: Path, torn: str) -> None:
    file = tmp_path / "A1.jsonl"
    Journal(file).answered(QUESTION, ANSWER)
    with file.open("a") as out:
        out.write(torn)
    journal = Journal(file)
    assert set(journal.answers) == {"greedy/p1"}
    journal.answered(QUESTIONS["greedy/p2"], ANSWER)
    assert set(Journal(file).answers) == {"greedy/p1", "greedy/p2"}


@pytest.mark.parametrize(
    "line",
    [
        '{"question": "greedy/p2", "ids": [1]}',
        '{"question": [2], "ids": [1], "prompt_ids": [], "text": "", "finish_reason": ""}',
        '{"counted": "x"}',
        '{"counted": {}}',
        '{"boot": 1, "fingerprint": 5}',
        "[" * 200_000,
    ],
    ids=lambda line: line[:24],
)
def test_a_line_that_cannot_be_read_is_asked_again(tmp_path: Path, line: str) -> None:
    file = tmp_path / "A1.jsonl"
    file.write_text(f"{line}\n")
    Journal(file).answered(QUESTION, ANSWER)
    again = Journal(file)
    assert set(again.answers) == {"greedy/p1"}
    assert again.counted == []


def test_a_run_of_which_nothing_is_known_begins_anew(tmp_path: Path) -> None:
    RunFolder(tmp_path, "key").close()
    for text in ("[" * 200_000, "null", "{"):
        (tmp_path / "run.json").write_text(text)
        (tmp_path / "A1.jsonl").write_text("{}\n")
        folder = RunFolder(tmp_path, "key")
        assert not folder.is_resumed
        folder.close()


def test_only_the_same_unfinished_run_is_gone_on_with(tmp_path: Path) -> None:
    first = RunFolder(tmp_path / "run", "key")
    assert not first.is_resumed
    first.journal("A1").answered(QUESTION, ANSWER)
    first.close()
    second = RunFolder(tmp_path / "run", "key")
    assert second.is_resumed
    assert second.journal("A1").answers
    second.close()
    other = RunFolder(tmp_path / "run", "another key")
    assert not other.is_resumed
    assert not other.journal("A1").answers
    other.journal("A1").answered(QUESTION, ANSWER)
    other.close()
    finish_run(tmp_path / "run")
    after = RunFolder(tmp_path / "run", "another key")
    assert not after.is_resumed
    assert not after.journal("A1").answers
    after.close()


def test_one_run_at_a_time(tmp_path: Path) -> None:
    first = RunFolder(tmp_path / "run", "key")
    with pytest.raises(OrchestratorError, match="another gate writes"):
        RunFolder(tmp_path / "run", "key")
    first.close()
    RunFolder(tmp_path / "run", "key").close()


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OrchestratorError, match="file/run"):
        RunFolder(tmp_path / "file" / "run", "key")
    with pytest.raises(OrchestratorError, match=r"A1\.jsonl cannot be written"):
        Journal(tmp_path / "none" / "A1.jsonl").answered(QUESTION, ANSWER)
