"""Report files: whole or not at all, and a full disk is said."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from orchestrator.errors import OrchestratorError
from orchestrator.gate.report.write import write_reports
from tests.unit.report_samples import failing, hostile, passing, texts

NAMES = ["report.html", "report.json", "report.md", "junit.xml"]


def test_every_report_is_written(tmp_path: Path) -> None:
    paths = write_reports(tmp_path / "new" / "folder", failing(), texts())
    assert list(paths) == NAMES
    assert [path.name for path in paths.values()] == NAMES
    assert sorted(p.name for p in (tmp_path / "new" / "folder").iterdir()) == sorted(NAMES)
    assert json.loads(paths["report.json"].read_text())["verdict"] == "fail"
    assert ElementTree.parse(paths["junit.xml"]).getroot().tag == "testsuites"
    assert paths["report.html"].read_text().startswith("<!DOCTYPE html>\n")


def test_reports_of_hostile_text_can_be_written(tmp_path: Path) -> None:
    paths = write_reports(tmp_path, *hostile())
    for path in paths.values():
        path.read_text(encoding="utf-8")


def test_a_later_run_replaces_an_earlier_one(tmp_path: Path) -> None:
    write_reports(tmp_path, failing(), texts())
    paths = write_reports(tmp_path, passing(), texts())
    assert json.loads(paths["report.json"].read_text())["verdict"] == "pass"
    assert len(list(tmp_path.iterdir())) == len(NAMES)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_said_and_leaves_what_was_there(tmp_path: Path) -> None:
    before = write_reports(tmp_path, passing(), texts())["report.html"].read_text()
    (tmp_path / "report.html.part").symlink_to("/dev/full")
    with pytest.raises(OrchestratorError, match=r"report\.html cannot be written: No space left"):
        write_reports(tmp_path, failing(), texts())
    assert (tmp_path / "report.html").read_text() == before
    assert not (tmp_path / "report.html.part").is_symlink()


def test_a_folder_that_is_a_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(OrchestratorError, match="cannot be written: "):
        write_reports(tmp_path / "taken", passing(), texts())
