"""What becomes of a certificate that shows less than its fleet asks for."""

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from orchestrator.deployment import Deployment
from orchestrator.errors import OrchestratorError
from orchestrator.fleet import Fleet
from orchestrator.gate import trials as module
from orchestrator.gate.admission import objection
from orchestrator.gate.evidence import SUITES
from orchestrator.gate.host import Host
from orchestrator.gate.run import Settings
from orchestrator.gate.trials import _certified, _try_pair
from orchestrator.gate.verdict import Rules
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


class Weights:
    """A host whose worker's weights are not there before they are made."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._text = file.read_text()
        file.unlink()

    def prepare(self, members: object) -> None:
        self._file.write_text(self._text)


def tried(deployment: Deployment, host: object, monkeypatch: pytest.MonkeyPatch) -> None:
    class Nothing:
        def __init__(self, *arguments: Any) -> None:
            pass

        async def run(self) -> list[Any]:
            return []

    monkeypatch.setattr(module, "Gate", Nothing)
    made = deployment.members[0]
    settings = Settings(Rules(), (), None, print, reports=deployment.file.parent / "reports")
    asyncio.run(_try_pair(cast("Host", host), (made, [made]), settings))


def test_weights_are_made_before_they_are_looked_at(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the first run on a machine would end, after all of its work, with weights that changed
    while it ran."""
    file = deployment.file.parent / "m.gguf"
    tried(deployment, Weights(file), monkeypatch)
    assert file.exists()


def test_weights_that_change_meanwhile_are_not_certified(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Changing:
        def prepare(self, members: object) -> None:
            pass

    file = deployment.file.parent / "m.gguf"
    folders = module._folders

    def changing(*arguments: Any) -> Any:
        file.write_text("another")
        return folders(*arguments)

    monkeypatch.setattr(module, "_folders", changing)
    with pytest.raises(OrchestratorError, match="weights, tokenizer changed while"):
        tried(deployment, Changing(), monkeypatch)
