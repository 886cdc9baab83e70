"""`draftgate render`: what is printed beside the launch itself."""

from pathlib import Path

import pytest

from orchestrator.cli import main

SCHEDULED = """profile: scheduled
speculation:
  method: eagle3
  gamma: 4
  schedule: [{batch: 1-8, gamma: 4}, {batch: 9+, gamma: 1}]
"""


def render(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(["render", *arguments])
    assert isinstance(stop.value.code, int)
    return stop.value.code


def test_what_files_stands_for_is_said_on_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "scheduled.yaml").write_text(SCHEDULED)
    assert render(str(tmp_path / "scheduled.yaml"), "--engine", "sglang", "--draft", "d") == 0
    said = capsys.readouterr()
    assert "@files/adaptive.json" in said.out
    assert "note:" not in said.out
    assert "note: @files is the folder that draftgate writes the files below into" in said.err


def test_without_files_there_is_no_note(capsys: pytest.CaptureFixture[str]) -> None:
    assert render("plain", "--engine", "vllm") == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("version", ["banana", "latest", ""])
def test_a_version_without_a_number_is_refused(
    capsys: pytest.CaptureFixture[str], version: str
) -> None:
    assert render("plain", "--engine", "llama_cpp", "--engine-version", version) == 2
    assert "known of llama.cpp: b10306 to b10661, b10662 to b11549" in capsys.readouterr().err
