"""When files are read again: only after a change, and only when they stand still."""

import os
from pathlib import Path

from orchestrator.watch import Marks, Settled, as_read, look

OLD: Marks = {"a": (1, 1, 1)}
NEW: Marks = {"a": (2, 1, 1)}
NEWER: Marks = {"a": (3, 1, 1)}


def test_a_change_is_read_once_it_stands_still() -> None:
    settled = Settled(OLD)
    assert [settled.see(marks) for marks in (OLD, OLD, NEW, NEWER, NEWER)] == [*[False] * 4, True]
    settled.was_read(NEWER)
    assert [settled.see(marks) for marks in (NEWER, NEWER)] == [False, False]


def test_a_change_that_is_taken_back_is_none() -> None:
    settled = Settled(OLD)
    assert [settled.see(marks) for marks in (NEW, OLD, OLD)] == [False, False, False]


def test_a_file_that_changed_while_it_was_read_is_read_again() -> None:
    settled = Settled(OLD)
    settled.was_read(as_read(OLD, NEW, started_ns=0))
    assert [settled.see(marks) for marks in (NEW, NEW)] == [False, True]


def test_a_file_written_since_the_reading_began_may_be_newer_than_what_was_read() -> None:
    assert as_read({}, {"a": (5, 1, 1), "b": (4, 1, 1), "c": None}, started_ns=5) == {
        "a": None,
        "b": (4, 1, 1),
        "c": None,
    }


def test_a_folder_is_marked_with_its_files_and_what_is_missing_too(tmp_path: Path) -> None:
    inner, gone = tmp_path / "x.json", tmp_path / "gone" / "plain.yaml"
    inner.write_text("{}")
    marks = look([tmp_path, gone])
    assert set(marks) == {str(tmp_path), str(inner), str(gone)}
    assert marks[str(gone)] is None
    before = look(map(Path, marks))
    assert before == marks
    os.utime(inner, ns=(1, 1))
    assert look(map(Path, marks))[str(inner)] != marks[str(inner)]


def test_a_file_that_was_replaced_is_another_one(tmp_path: Path) -> None:
    file, other = tmp_path / "a", tmp_path / "b"
    file.write_text("1")
    other.write_text("2")
    os.utime(file, ns=(1, 1))
    os.utime(other, ns=(1, 1))
    before = look([file])
    other.replace(file)
    assert look([file]) != before
