"""What becomes of a certificate that shows less than its fleet asks for."""

from pathlib import Path

import pytest

from orchestrator.deployment import Deployment
from orchestrator.fleet import Fleet
from orchestrator.gate.admission import objection
from orchestrator.gate.evidence import SUITES
from orchestrator.gate.trials import _certified
from tests.unit.certified import lay_out, member, trial

PARTLY = {**dict.fromkeys(SUITES, "not asked for"), "greedy": "ran"}


@pytest.fixture
def deployment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    lay_out(tmp_path)
    made = member(tmp_path)
    worker = made.entry.model_dump(exclude_none=True)
    fleet = {"fleet": "one", "models": {"small": {"target": "m.gguf"}}, "workers": (worker,)}
    return Deployment(tmp_path / "fleet.yaml", Fleet.model_validate(fleet), (made,), ())


def admits(deployment: Deployment) -> bool:
    policy, made = deployment.require().gate, deployment.members[0]
    return objection(deployment.file.parent / "certificates", made, policy) is None


def test_a_part_does_not_replace_the_whole(deployment: Deployment) -> None:
    pair = deployment.members[0], deployment.members[0]
    whole = _certified(trial(), pair, deployment, None)
    assert admits(deployment)
    part = _certified(trial(suites=PARTLY), pair, deployment, None)
    assert str(part.certificate).endswith(".partial.json")
    assert "this fleet does not admit the worker by this certificate" in part.notes[0]
    assert "says nothing of loaded" in part.notes[0]
    assert "stands" in part.notes[1]
    assert admits(deployment)
    assert not whole.notes


def test_a_part_stands_alone_where_there_is_no_whole(deployment: Deployment) -> None:
    pair = deployment.members[0], deployment.members[0]
    part = _certified(trial(suites=PARTLY), pair, deployment, None)
    assert not str(part.certificate).endswith(".partial.json")
    assert len(part.notes) == 1
    assert not admits(deployment)


def test_a_fail_replaces_the_whole(deployment: Deployment) -> None:
    pair = deployment.members[0], deployment.members[0]
    _certified(trial(), pair, deployment, None)
    _certified(trial(verdict="fail", suites=PARTLY), pair, deployment, None)
    assert not admits(deployment)
    assert len(list((deployment.file.parent / "certificates").iterdir())) == 1
