"""Which workers `draftgate gate` compares, and what its options make of the fleet's policy."""

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from orchestrator.command.gate import _Asked, _choose, _noted, _notes, _settings, command
from orchestrator.deployment import Deployment, Member
from orchestrator.errors import InputError
from orchestrator.fleet import Fleet, GatePolicy
from orchestrator.shipped import shipped
from orchestrator.type_rule import TypeRule
from tests.unit.certified import member
from tests.unit.gate_arms import trial

NGRAM = {"method": "ngram", "gamma": 4}
ASKED = _Asked(None, (), None, None, None, None, None, None, None, False, False, False)


def named(made: Member, name: str, model: str = "small") -> Member:
    entry = made.entry.model_copy(update={"name": name, "model": model})
    spec = replace(made.spec, name=name, model=replace(made.spec.model, name=model))
    return replace(made, entry=entry, spec=spec)


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    """Two models, each with a plain worker and a speculating one."""
    members = [
        named(member(tmp_path, {"method": "none"}, profile="plain"), "plain-a"),
        named(member(tmp_path, NGRAM, profile="edit"), "edit-a"),
        named(member(tmp_path, {"method": "none"}, profile="plain"), "plain-b", "large"),
        named(member(tmp_path, NGRAM, profile="edit"), "edit-b", "large"),
    ]
    entries = [m.entry.model_dump(exclude_none=True) for m in members]
    models = {"small": {"target": "m.gguf"}, "large": {"target": "m.gguf"}}
    fleet = Fleet.model_validate({"fleet": "two", "models": models, "workers": tuple(entries)})
    return Deployment(tmp_path / "fleet.yaml", fleet, tuple(members), ())


def pairs(deployment: Deployment, **asked: object) -> list[tuple[str, list[str]]]:
    chosen = _choose(deployment, replace(ASKED, **asked))  # type: ignore[arg-type]  # by name
    return [(baseline.name, [c.name for c in found]) for baseline, found in chosen]


def test_each_candidate_is_held_against_its_own_models_plain_worker(
    deployment: Deployment,
) -> None:
    assert pairs(deployment) == [("plain-a", ["edit-a"]), ("plain-b", ["edit-b"])]
    assert pairs(deployment, candidate=("edit-b",)) == [("plain-b", ["edit-b"])]
    assert pairs(deployment, baseline="plain-a", candidate=("edit-a",)) == [("plain-a", ["edit-a"])]


def test_a_control_holds_plain_against_itself(deployment: Deployment) -> None:
    assert pairs(deployment, control=True) == [("plain-a", ["plain-a"])]
    assert pairs(deployment, control=True, candidate=("plain-b",)) == [("plain-b", ["plain-b"])]


def test_a_model_without_a_plain_worker_cannot_be_compared(deployment: Deployment) -> None:
    kept = tuple(m for m in deployment.members if m.name != "plain-b")
    with pytest.raises(InputError, match="edit-b: no plain worker of model 'large'"):
        pairs(replace(deployment, members=kept))
    none = tuple(m for m in kept if not m.profile.is_speculating)
    with pytest.raises(InputError, match="no worker speculates"):
        pairs(replace(deployment, members=none))


def test_options_go_before_the_fleets_policy() -> None:
    policy = GatePolicy(policy="numerics", min_tokens=7, side_by_side=False, suites=("greedy",))
    prompts = shipped("prompts")
    ours = _settings(ASKED, policy, prompts, Path("r"))
    assert (ours.rules.policy, ours.rules.min_tokens) == ("numerics", 7)
    assert (set(ours.suites), ours.side_by_side, ours.reports) == ({"greedy"}, False, Path("r"))
    asked = replace(
        ASKED, policy="strict", min_tokens=3, suites=frozenset({"loaded"}), reports=Path("x")
    )
    theirs = _settings(asked, policy, prompts, Path("r"))
    assert (theirs.rules.policy, theirs.rules.min_tokens) == ("strict", 3)
    assert (set(theirs.suites), theirs.reports) == ({"loaded"}, Path("x"))
    control = _settings(replace(ASKED, control=True), GatePolicy(), prompts, Path("r"))
    assert "sampled" not in control.suites, "a control has nothing to verify"


def test_types_that_no_rule_gives_are_noted_and_said(
    deployment: Deployment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "p.jsonl"
    file.write_text('{"type": "chta", "prompt": "x"}\n')
    settings = _settings(ASKED, GatePolicy(), file, Path("r"))
    assert _notes(deployment, file, settings) == [], "a fleet without rules takes any type"
    fleet = deployment.require().model_copy(update={"types": (TypeRule(type="chat"),)})
    ruled = replace(deployment, fleet=fleet)
    notes = _notes(ruled, file, settings)
    who = f"prompt 'p:1' ({file}:1, 1 bytes)"
    assert notes == [f"{who}: the fleet knows no type 'chta': did you mean 'chat'?"]
    assert capsys.readouterr().err == f"warning: {notes[0]}\n"
    assert _noted(trial(), settings, notes).notes == (*trial().notes, *notes)
    ours = shipped("prompts")
    assert _notes(ruled, ours, _settings(ASKED, GatePolicy(), ours, Path("r"))) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--suites", "greedy,lodaed"], "'lodaed': suites are greedy, loaded,"),
        (["--min-tokens", "0"], "0 is not in the range"),
        (["--policy", "lax"], "'lax' is not one of 'strict', 'numerics'"),
    ],
)
def test_bad_options_are_told(options: list[str], words: str) -> None:
    done = CliRunner().invoke(command, options)
    assert done.exit_code == 2
    assert words in done.output


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--candidate", "http://127.0.0.1:2"], "without a fleet, --prompts"),
        ([], "exactly one candidate URL"),
        (["--candidate", "edit-0"], "exactly one candidate URL"),
        (
            ["--candidate", "http://127.0.0.1:2", "--prompts", "p", "--sign-key", "k"],
            "engines at URLs get no certificate",
        ),
    ],
)
def test_urls_need_one_candidate_and_prompts(options: list[str], words: str) -> None:
    done = CliRunner().invoke(command, ["--baseline", "http://127.0.0.1:1", *options])
    assert isinstance(done.exception, InputError)
    assert words in str(done.exception)
