"""What is kept of the sampled test: a run that was killed is told it again, and nothing else."""

from pathlib import Path

import pytest

from adapters.exchange import Candidate, Draws
from orchestrator.errors import EngineError, OrchestratorError
from orchestrator.gate.draw_journal import DrawJournal

IDS, DRAWS = (1, 2), Draws(2, 3, 1.0, 7)
TOLD = (Candidate(5, -0.5, "a"), Candidate(6, -1.25, "ü"))
DRAWN = ((1, 2, 3), (4, 5))


def filled(path: Path, *, by_look: bool = False) -> DrawJournal:
    journal = DrawJournal(path, by_look=by_look)
    journal.begin("f", is_known=True)
    journal.told(IDS, TOLD)
    journal.drew(IDS, DRAWS, DRAWN)
    return journal


def test_what_was_told_is_told_again(tmp_path: Path) -> None:
    filled(tmp_path / "d.jsonl").count(12.0)
    again = DrawJournal(tmp_path / "d.jsonl")
    again.begin("f", is_known=True)
    assert again.candidates(IDS) == TOLD
    assert again.drawn(IDS, DRAWS) == DRAWN
    assert again.counted == [12.0]


def test_another_request_is_not_answered_by_it(tmp_path: Path) -> None:
    journal = filled(tmp_path / "d.jsonl")
    assert journal.candidates((1,)) is None
    assert journal.drawn((1,), DRAWS) is None
    assert journal.drawn(IDS, Draws(2, 3, 1.0, 8)) is None
    assert journal.drawn(IDS, Draws(2, 3, 0.5, 7)) is None


def test_without_a_path_nothing_is_written(tmp_path: Path) -> None:
    journal = DrawJournal()
    journal.begin("f", is_known=False)
    journal.told(IDS, TOLD)
    assert journal.candidates(IDS) == TOLD
    assert list(tmp_path.iterdir()) == []


def test_a_look_that_was_not_finished_is_drawn_anew(tmp_path: Path) -> None:
    """How many tokens were drafted for it died with the run."""
    journal = filled(tmp_path / "d.jsonl", by_look=True)
    journal.count(None)
    later = Draws(1, 3, 1.0, 9)
    journal.drew(IDS, later, ((1,),))
    again = DrawJournal(tmp_path / "d.jsonl", by_look=True)
    assert again.drawn(IDS, DRAWS) == DRAWN
    assert again.drawn(IDS, later) is None
    assert again.counted == [None]


@pytest.mark.parametrize(("fingerprint", "is_known"), [("g", True), ("f", False)])
def test_what_another_engine_told_an_earlier_run_is_forgotten(
    tmp_path: Path, fingerprint: str, is_known: bool
) -> None:
    filled(tmp_path / "d.jsonl").count(3.0)
    again = DrawJournal(tmp_path / "d.jsonl", by_look=True)
    again.begin(fingerprint, is_known)
    assert again.candidates(IDS) is None
    assert again.counted == []
    assert DrawJournal(tmp_path / "d.jsonl").drawn(IDS, DRAWS) is None


def test_an_unfinished_look_of_another_engine_does_not_hide_it(tmp_path: Path) -> None:
    filled(tmp_path / "d.jsonl", by_look=True)
    again = DrawJournal(tmp_path / "d.jsonl", by_look=True)
    again.begin("g", is_known=True)
    assert "drawn_from" not in (tmp_path / "d.jsonl").read_text()


def test_another_engine_within_a_run_is_an_error(tmp_path: Path) -> None:
    journal = filled(tmp_path / "d.jsonl")
    journal.begin("f", is_known=False)  # the next look: what this run drew stays
    assert journal.drawn(IDS, DRAWS) == DRAWN
    with pytest.raises(EngineError, match=r"another engine .* went from f to g"):
        journal.begin("g", is_known=True)


@pytest.mark.parametrize(
    "line",
    ['{"scored": [1, 2], "candidates": [[5]]}', '{"drawn_from": "x"}', '{"counted": "many"}', "x"],
)
def test_a_damaged_line_is_asked_again(tmp_path: Path, line: str) -> None:
    filled(tmp_path / "d.jsonl")
    whole = (tmp_path / "d.jsonl").read_text()
    (tmp_path / "d.jsonl").write_text(f"{line}\n{whole}" + '{"counted": 4')
    again = DrawJournal(tmp_path / "d.jsonl")
    assert (again.candidates(IDS), again.drawn(IDS, DRAWS)) == (TOLD, DRAWN)
    assert again.counted == []


def test_a_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    with pytest.raises(OrchestratorError, match=r"cannot be written: No such file"):
        filled(tmp_path / "gone" / "d.jsonl")
