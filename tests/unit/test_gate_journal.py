"""The journal: a killed run goes on; a torn line, another run and a full disk do no harm."""

import json
from pathlib import Path

import pytest

from adapters.exchange import Generation
from orchestrator.errors import OrchestratorError
from orchestrator.gate.journal import Journal, RunFolder, finish_run
from tests.unit.gate_arms import QUESTIONS

QUESTION = QUESTIONS["greedy/p1"]
COUNTED = {"drafted": 7.0, "accepted": 3.0, "drafts": 2.0, "positions": [3.0], "seconds": 1.5}
ANSWER = Generation((1, 2), (3, 4), "héllo\n", "length", 0.5, 7, 3, (0.0, 0.25))


def keep(journal: Journal, question: str) -> None:
    """An answer and what was counted for it."""
    journal.answered(QUESTIONS[question], ANSWER)
    journal.count(COUNTED)


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


def test_an_answer_that_was_not_counted_is_asked_again(tmp_path: Path) -> None:
    """A run that was killed between the two lines seemed to have drafted nothing."""
    file = tmp_path / "S1.jsonl"
    journal = Journal(file)
    keep(journal, "greedy/p1")
    journal.answered(QUESTIONS["greedy/p2"], ANSWER)
    assert set(Journal(file).answers) == {"greedy/p1"}


@pytest.mark.parametrize(("one", "other"), [("[3, 4]", "[3, 5]"), ("héllo", "hellö"), ("7,", "8,")])
def test_a_line_that_was_changed_is_asked_again(tmp_path: Path, one: str, other: str) -> None:
    file = tmp_path / "S1.jsonl"
    keep(Journal(file), "greedy/p1")
    text = file.read_text()
    assert one in text
    file.write_text(text.replace(one, other, 1))
    assert Journal(file).answers == {}


def test_a_failure_is_told_and_asked_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "A1.jsonl")
    journal.failed(QUESTION, "answered 500")
    assert Journal(tmp_path / "A1.jsonl").answers == {}
    assert json.loads((tmp_path / "A1.jsonl").read_text())["error"] == "answered 500"


@pytest.mark.parametrize("torn", ['{"question": "greedy/p2", "ids', "\xff", "null"])
def test_a_torn_line_is_cut_off_and_the_next_stands_alone(tmp_path: Path, torn: str) -> None:
    file = tmp_path / "A1.jsonl"
    keep(Journal(file), "greedy/p1")
    with file.open("a") as out:
        out.write(torn)
    journal = Journal(file)
    assert set(journal.answers) == {"greedy/p1"}
    keep(journal, "greedy/p2")
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
    keep(Journal(file), "greedy/p1")
    again = Journal(file)
    assert set(again.answers) == {"greedy/p1"}
    assert again.counted == [COUNTED]


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
    keep(first.journal("A1"), "greedy/p1")
    first.close()
    second = RunFolder(tmp_path / "run", "key")
    assert second.is_resumed
    assert second.journal("A1").answers
    second.close()
    other = RunFolder(tmp_path / "run", "another key")
    assert not other.is_resumed
    assert not other.journal("A1").answers
    keep(other.journal("A1"), "greedy/p1")
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
