"""What is posted elsewhere names no home and no folder of whoever ran the gate."""

from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.gate.evidence import Finding
from orchestrator.gate.report.markdown import markdown
from orchestrator.gate.report.shareable import shareable
from orchestrator.gate.report.write import write_reports
from tests.unit.report_samples import passing

FLEET = Path("/srv/anna/fleet")
REPORTS = FLEET / "reports" / "edit-0"
ELSEWHERE = Path("/data/out/edit-0")


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/srv/anna")


def said(text: str, reports: Path = REPORTS, fleet: Path | None = FLEET) -> str:
    return shareable(replace(passing(), notes=(text,)), reports, fleet).notes[0]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/srv/anna/fleet/certificates/a.json", "certificates/a.json"),
        ("/srv/anna/fleet/reports/edit-0/answers", "reports/edit-0/answers"),
        ("--model=/srv/anna/models/x.gguf", "--model=~/models/x.gguf"),
        ('{"model": "/srv/anna/fleet/d.gguf"}', '{"model": "d.gguf"}'),
        ("in /srv/anna/fleet: nothing", "in .: nothing"),
        ("in /srv/anna.", "in ~."),
        ("/srv/annabel/x and /srv/anna-2/x", "/srv/annabel/x and /srv/anna-2/x"),
        ("no file /home/bert/m.gguf, /Users/carl/n", "no file ~/m.gguf, ~/n"),
        ("http://127.0.0.1/home/x", "http://127.0.0.1/home/x"),
        ("--model /data/m.gguf", "--model /data/m.gguf"),
    ],
)
def test_paths_are_those_of_the_fleet(text: str, shown: str) -> None:
    assert said(text) == shown


def test_reports_that_stand_elsewhere_have_paths_of_their_own() -> None:
    assert said("/data/out/edit-0/answers", ELSEWHERE) == "./answers"
    assert said("/data/out/edit-0/answers", ELSEWHERE, None) == "./answers"
    assert said("/srv/anna/fleet/x", ELSEWHERE, None) == "~/fleet/x"


def test_a_fleet_at_the_root_takes_nothing_away() -> None:
    assert said("/data/m.gguf", REPORTS, Path("/")) == "/data/m.gguf"


def test_nothing_of_a_trial_is_left_out(tmp_path: Path) -> None:
    path = "/srv/anna/fleet/secret/x.gguf"
    base = passing()
    arm = replace(base.arms[0], errors={"greedy/chat:1": path})
    assert base.sampled is not None
    trial = replace(
        base,
        verdict="inconclusive",
        reasons=(path,),
        arms=(arm, *base.arms[1:]),
        findings=(Finding("json", "q", "chat", "S1", path),),
        sampled=replace(base.sampled, verdict="inconclusive", message=path),
        suites={"json": path},
        notes=(path,),
        launch_diff=(f"+ --draft {path}",),
        certificate=path,
        answers_folder=path,
    )
    written = write_reports(tmp_path, trial, {}, FLEET)
    for name in ("report.md", "junit.xml"):
        text = written[name].read_text(encoding="utf-8")
        assert "/srv/" not in text
        assert "secret/x.gguf" in text
    assert "/srv/anna/fleet/secret" in written["report.json"].read_text(encoding="utf-8")
    assert markdown(shareable(trial, REPORTS, FLEET), {}).count("secret/x.gguf") == 8
