"""What is remembered of a fleet: files that are torn, foreign, full or locked."""

import json
import os
from pathlib import Path
from typing import Any, NoReturn

import pytest

from orchestrator.errors import OrchestratorError
from orchestrator.state import Record, StateFolder, Status, WorkerState

RECORD = Record("edit-0", "token", "digest", 8502, 12, 1.5, "edit-0.log")


@pytest.fixture
def folder(state_home: Path, tmp_path: Path) -> StateFolder:
    made = StateFolder(tmp_path / "fleet.yaml")
    made.create()
    return made


def no_space(*args: Any, **kwargs: Any) -> NoReturn:
    raise OSError(28, "No space left on device")


def test_the_folder_is_private_and_named_after_the_files_folder(
    folder: StateFolder, state_home: Path, tmp_path: Path
) -> None:
    assert folder.path.parent == state_home / "draftgate"
    assert folder.path.name == folder.key
    assert folder.key.startswith(f"{tmp_path.name}-")
    assert folder.path.stat().st_mode & 0o777 == 0o700


def test_two_fleet_files_of_one_name_have_two_folders(state_home: Path, tmp_path: Path) -> None:
    one = StateFolder(tmp_path / "a" / "fleet.yaml")
    other = StateFolder(tmp_path / "b" / "fleet.yaml")
    assert one.path != other.path


def test_a_file_is_the_same_fleet_by_any_spelling(
    state_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    one = StateFolder(Path("fleet.yaml"))
    assert one.key == StateFolder(tmp_path / "x" / ".." / "fleet.yaml").key


def test_a_folder_that_cannot_be_made_says_why(state_home: Path, tmp_path: Path) -> None:
    state_home.write_text("a file in the way")
    with pytest.raises(OrchestratorError, match="cannot be made: Not a directory"):
        StateFolder(tmp_path / "fleet.yaml").create()


def test_records_are_read_as_written(folder: StateFolder) -> None:
    other = Record("a-0", "t", "d", 8501)
    folder.write_record(RECORD)
    folder.write_record(other)
    assert folder.records() == [other, RECORD]
    folder.remove_record("a-0")
    folder.remove_record("a-0")
    assert folder.records() == [RECORD]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b'{"name": "edi',
        b"\xff\xfe",
        b"[]",
        b"null",
        b"{}",
        b'{"name": "a"}',
        json.dumps({**RECORD.__dict__, "new_field": 1}).encode(),
    ],
    ids=["empty", "torn", "bytes", "list", "null", "nothing in it", "old", "newer"],
)
def test_a_record_that_cannot_be_read_is_left_out(folder: StateFolder, content: bytes) -> None:
    folder.write_record(RECORD)
    (folder.path / "workers" / "bad.json").write_bytes(content)
    assert RECORD in folder.records()


def test_status_is_read_as_written(folder: StateFolder) -> None:
    state = WorkerState("edit-0", "ready", pid=12, port=8502)
    folder.write_status("up", {"edit-0": state})
    status = folder.read_status()
    assert status.phase == "up"
    assert status.workers == {"edit-0": state}


@pytest.mark.parametrize(
    "content",
    [
        "",
        '{"phase": "up", "work',
        "[]",
        '{"workers": []}',
        '{"workers": null}',
        '{"workers": {"a": null}}',
        '{"pid": "abc", "workers": {}}',
        '{"workers": {"a": {"name": "a", "state": 5}}}',
        "[" * 100_000,
        '{"workers": {"a": {"name": "a"}}}',
        '{"workers": {"a": {"name": "a", "state": "ready", "newer": 1}}}',
    ],
)
def test_a_status_that_cannot_be_read_is_none(folder: StateFolder, content: str) -> None:
    (folder.path / "status.json").write_text(content)
    assert set(folder.read_status().workers) <= {"a"}


def test_there_is_no_status_before_the_first(folder: StateFolder) -> None:
    assert folder.read_status() == Status()


@pytest.mark.parametrize("step", ["write_text", "replace"])
def test_a_full_disk_keeps_the_old_file_and_leaves_no_part(
    folder: StateFolder, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    folder.write_record(RECORD)
    with monkeypatch.context() as patch:
        patch.setattr(Path, step, no_space)
        with pytest.raises(OSError, match="No space left"):
            folder.write_record(Record("edit-0", "other", "d", 1))
    assert folder.records() == [RECORD]
    assert [file.name for file in (folder.path / "workers").iterdir()] == ["edit-0.json"]


def test_one_supervisor_holds_the_lock(folder: StateFolder) -> None:
    assert not folder.is_locked()
    assert folder.holder() is None
    with folder.lock("up"):
        assert folder.is_locked()
        holder = folder.holder()
        assert holder is not None
        assert (holder.pid, holder.purpose) == (os.getpid(), "up")
        with pytest.raises(OrchestratorError, match="this fleet is up already"), folder.lock("up"):
            pass
        assert folder.is_locked()
    assert not folder.is_locked()


def test_the_lock_is_given_back_after_a_failure(folder: StateFolder) -> None:
    with pytest.raises(RuntimeError), folder.lock("up"):
        raise RuntimeError
    with folder.lock("up"):
        assert folder.is_locked()


def test_a_fleet_that_never_was_up_is_not_locked(state_home: Path, tmp_path: Path) -> None:
    assert not StateFolder(tmp_path / "fleet.yaml").is_locked()


def test_logs_have_a_file_each(folder: StateFolder) -> None:
    assert folder.log("edit-0") == folder.path / "logs" / "edit-0.log"
    assert folder.supervisor_log.parent == folder.path


def test_who_wants_a_fleet_that_is_gated_is_told_by_whom(folder: StateFolder) -> None:
    words = f"`draftgate gate` .process {os.getpid()}. uses this fleet"
    with folder.lock("gate"), pytest.raises(OrchestratorError, match=words), folder.lock("up"):
        pass


def test_a_record_that_names_another_file_is_no_record(folder: StateFolder) -> None:
    """`down` removes the file that a record names: it must not lead out of the folder."""
    content = json.dumps({"name": "../../x", "token": "t", "launch": "d", "port": 1})
    (folder.path / "workers" / "a.json").write_text(content)
    assert folder.records() == []
