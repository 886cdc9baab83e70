"""A certificate admits exactly one engine build, weights, launch and machine, and only a pass."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from adapters.launch import Model
from orchestrator import __version__
from orchestrator.build import Build
from orchestrator.deployment import Member
from orchestrator.fleet import GatePolicy
from orchestrator.gate.admission import (
    lacking,
    objection,
    other_prompts,
    shortfall,
    standing,
    unproven,
)
from orchestrator.gate.certificate import certificate_path, read_certificate
from orchestrator.gate.evidence import SUITES
from orchestrator.gate.signature import load_key, load_public_key, write_keys
from orchestrator.gate.subject import subject
from orchestrator.hardware import hardware
from orchestrator.pool import SAMPLING
from tests.unit.certified import DRAFTED, POLICY, Spec, certify, lay_out, member

AGAIN = "; run `draftgate gate`"


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    lay_out(tmp_path)
    return tmp_path


@pytest.fixture
def folder(base: Path) -> Path:
    """Holds the certificate of the unchanged member."""
    folder = base / "certificates"
    certify(folder, member(base))
    return folder


def test_the_certified_worker_is_admitted(base: Path, folder: Path) -> None:
    assert objection(folder, member(base), POLICY) is None


def test_a_plain_worker_needs_no_certificate(base: Path) -> None:
    assert objection(base / "nowhere", member(base, {"method": "none"}), POLICY) is None


@pytest.mark.parametrize("fields", [{"port": 9000}, {"gpus": (3,)}, {"host": "10.0.0.7"}])
def test_where_a_worker_runs_does_not_matter(base: Path, folder: Path, fields: Spec) -> None:
    changed = member(base)
    spec = replace(changed.spec, **fields)
    launch = changed.adapter.render(changed.profile, spec)
    assert objection(folder, replace(changed, spec=spec, launch=launch), POLICY) is None


def test_the_same_program_elsewhere_is_the_same_build(base: Path, folder: Path) -> None:
    (base / "bin").rename(base / "moved")
    moved = member(base, command=(str(base / "moved" / "engine"),))
    assert objection(folder, moved, POLICY) is None


Change = Callable[[Path], Member]
SCHEDULE = ({"batch": "1-4", "gamma": 2}, {"batch": "5+", "gamma": 0})


def with_model(base: Path, **fields: Any) -> Member:
    return member(base, model=replace(member(base).spec.model, **fields))


def renamed(base: Path) -> Member:
    """The same file name, so that the old certificate is the one that is read."""
    changed = with_model(base, name="other")
    old = certificate_path(base / "certificates", member(base))
    old.rename(certificate_path(base / "certificates", changed))
    return changed


def with_file(name: str) -> Change:
    def change(base: Path) -> Member:
        (base / name).write_text("another")
        return member(base)

    return change


CHANGES: Mapping[str, tuple[Change, str]] = {
    "version": (lambda base: member(base, engine_version="11435"), "engine"),
    "program": (with_file("bin/engine"), "build"),
    "library": (with_file("bin/libengine.so"), "build"),
    "target": (with_file("m.gguf"), "target"),
    "tokenizer in the target's file": (with_file("m.gguf"), "tokenizer"),
    "draft": (with_file("d.gguf"), "draft"),
    "gamma": (lambda base: member(base, {**DRAFTED, "gamma": 5}), "gamma"),
    "option": (lambda base: member(base, args={"threads": 2}), "launch"),
    "environment": (lambda base: member(base, env={"GGML_X": "1"}), "launch"),
    "method": (lambda base: member(base, {"method": "ngram", "gamma": 4}), "method"),
    "context": (lambda base: with_model(base, context=4096), "launch"),
    "model name": (renamed, "model"),
    "schedule": (lambda base: member(base, {**DRAFTED, "schedule": SCHEDULE}), "schedule"),
}


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_every_change_of_the_subject_is_an_objection(base: Path, folder: Path, name: str) -> None:
    change, key = CHANGES[name]
    said = objection(folder, change(base), POLICY)
    assert said is not None
    assert key in said.removeprefix("the certificate is for another ").split(";")[0].split(", ")
    assert said.endswith(AGAIN)


def test_other_hardware_is_an_objection(
    base: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = hardware(None) | {"cpu": "another"}
    monkeypatch.setattr("orchestrator.gate.subject.hardware", lambda gpus: other)
    said = objection(folder, member(base), POLICY)
    assert said == f"the certificate is for another hardware{AGAIN}"


def test_of_a_worker_elsewhere_only_what_is_known_here_is_compared(
    base: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = member(base, url="http://10.0.0.7:8501")
    monkeypatch.setattr("orchestrator.gate.subject.hardware", lambda gpus: {"cpu": "another"})
    (base / "bin" / "engine").write_text("another")
    assert subject(elsewhere)["unknown"] == {
        "build": "somebody else runs it", "hardware": "somebody else runs it"
    }  # fmt: skip
    assert objection(folder, elsewhere, POLICY) is None
    (base / "d.gguf").write_text("another")
    assert "another draft" in str(objection(folder, elsewhere, POLICY))


def test_weights_that_are_not_here_are_not_compared_for_a_worker_elsewhere(
    base: Path, folder: Path
) -> None:
    elsewhere = member(base, url="http://10.0.0.7:8501")
    (base / "m.gguf").unlink()
    (base / "d.gguf").unlink()
    assert objection(folder, elsewhere, POLICY) is None
    assert "another target, draft, tokenizer" in str(objection(folder, member(base), POLICY))


def test_what_was_not_known_when_it_was_made_was_not_proved(
    base: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("orchestrator.gate.subject.build_of", lambda member: Build(None, "a script"))
        certify(folder, member(base))
        assert objection(folder, member(base), POLICY) is None
    assert "another build" in str(objection(folder, member(base), POLICY))


def test_weights_elsewhere_are_the_same_weights(base: Path, folder: Path) -> None:
    moved = base / "moved"
    moved.mkdir()
    for name in ("m.gguf", "d.gguf", "bin"):
        (base / name).rename(moved / name)
    assert objection(folder, member(moved), POLICY) is None


def test_a_folder_of_weights_is_its_files_and_their_names(base: Path) -> None:
    folder = base / "target"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.safetensors").write_text("1")
    (folder / "sub" / "b.json").write_text("2")
    changed = with_model(base, target=str(folder))
    before = subject(changed)["weights"]["target"]
    (folder / "a.safetensors").rename(folder / "c.safetensors")
    assert subject(changed)["weights"]["target"] != before


@pytest.mark.parametrize("name", ["tokenizer.json", "merges.txt", "chat_template.jinja"])
def test_a_folders_tokenizer_is_a_fact_of_its_own(base: Path, name: str) -> None:
    folder = base / "target"
    folder.mkdir()
    (folder / "model.safetensors").write_text("1")
    worker = with_model(base, target=str(folder))
    assert subject(worker)["tokenizer"] is None
    assert "no tokenizer's files" in subject(worker)["unknown"]["tokenizer"]
    (folder / name).write_text("{}")
    before = subject(worker)["tokenizer"]
    (folder / "model.safetensors").write_text("2")
    assert subject(worker)["tokenizer"] == before
    (folder / name).write_text("{ }")
    assert subject(worker)["tokenizer"] != before


def test_hub_ids_stand_for_themselves_with_their_revision(base: Path) -> None:
    at_main = with_model(base, target="org/model")
    pinned = with_model(base, target="org/model", revision="abc")
    for key in ("target",):
        assert subject(at_main)["weights"][key] == "org/model@main"
        assert subject(pinned)["weights"][key] == "org/model@abc"
    assert subject(pinned)["tokenizer"] == "org/model@abc"


@pytest.mark.parametrize("verdict", ["fail", "inconclusive", None, "PASS"])
def test_any_other_verdict_is_an_objection(base: Path, folder: Path, verdict: str | None) -> None:
    if verdict == "inconclusive":
        certificate_path(folder, member(base)).unlink()
    certify(folder, member(base), verdict=verdict)
    assert objection(folder, member(base), POLICY) == f"the gate's verdict is {verdict}"


def test_an_inconclusive_run_beside_a_pass_changes_nothing(base: Path, folder: Path) -> None:
    certify(folder, member(base), verdict="inconclusive")
    assert objection(folder, member(base), POLICY) is None
    certificate_path(folder, member(base)).unlink()
    assert str(objection(folder, member(base), POLICY)).startswith("it has no certificate")


@pytest.mark.parametrize("proved", [None, [], {}, "x", {"engine": [], "weights": "x"}])
def test_a_certificate_without_a_subject_is_an_objection(
    base: Path, folder: Path, proved: Any
) -> None:
    certify(folder, member(base), subject=proved)
    assert "is for another engine" in str(objection(folder, member(base), POLICY))


def test_an_edited_certificate_is_an_objection(base: Path, folder: Path) -> None:
    path = certify(folder, member(base), verdict="fail")
    whole = json.loads(path.read_text())
    whole["certificate"]["verdict"] = "pass"
    path.write_text(json.dumps(whole))
    assert objection(folder, member(base), POLICY) == (
        f"{path.name} was changed after it was written: its digest is another{AGAIN}"
    )


def test_another_version_of_draftgate_is_an_objection(base: Path, folder: Path) -> None:
    certify(folder, member(base), draftgate="0.0.1")
    said = objection(folder, member(base), POLICY)
    assert said is not None
    assert said.startswith("the certificate was made by draftgate 0.0.1, this is ")


@pytest.mark.parametrize(
    ("made", "asked", "is_admitted"),
    [
        ("strict", "strict", True),
        ("strict", "numerics", True),
        ("numerics", "numerics", True),
        ("numerics", "strict", False),
        (None, "numerics", False),
    ],
)
def test_a_weaker_policy_is_an_objection(
    base: Path, folder: Path, made: str, asked: Any, is_admitted: bool
) -> None:
    certify(folder, member(base), policy=made)
    said = objection(folder, member(base), GatePolicy(policy=asked))
    assert (said is None) is is_admitted


@pytest.mark.parametrize(
    ("suites", "is_admitted"),
    [
        (dict.fromkeys(SUITES, "ran"), True),
        ({**dict.fromkeys(SUITES, "ran"), "tools": "the engine refuses tools"}, True),
        ({**dict.fromkeys(SUITES, "ran"), "tools": "it was not asked for"}, False),
        ({**dict.fromkeys(SUITES, "ran"), "tools": "not asked for"}, False),
        ({"greedy": "ran"}, False),
        (None, False),
    ],
)
def test_a_suite_that_was_not_asked_is_an_objection(
    base: Path, folder: Path, suites: Any, is_admitted: bool
) -> None:
    certify(folder, member(base), suites=suites)
    assert (objection(folder, member(base), POLICY) is None) is is_admitted
    only = GatePolicy(suites=("greedy",))
    assert (objection(folder, member(base), only) is None) is (suites is not None)


def test_a_file_that_is_no_certificate_is_an_objection(base: Path, folder: Path) -> None:
    certificate_path(folder, member(base)).write_text('{"format": 1, "verdict": "pass"}')
    assert "is not a certificate that this version reads" in str(
        objection(folder, member(base), POLICY)
    )


def test_no_certificate_is_an_objection_that_says_what_to_run(base: Path) -> None:
    said = objection(base / "nowhere", member(base), POLICY)
    assert said == f"it has no certificate{AGAIN}"


def test_what_is_missing_and_what_failed_are_told_apart(base: Path, folder: Path) -> None:
    assert standing(base / "nowhere", member(base), POLICY).verdict == "missing"
    assert standing(folder, member(base), POLICY).verdict == "pass"
    assert standing(folder, member(base, env={"A": "b"}), POLICY).verdict == "missing"
    certify(folder, member(base), verdict="fail")
    assert standing(folder, member(base), POLICY).verdict == "fail"


def test_all_that_is_lacking_is_told_at_once(base: Path, folder: Path) -> None:
    """Each with what to do: the first alone is what the router says."""
    suites = {**dict.fromkeys(SUITES, "ran"), "long": "not asked for"}
    rates = {"all": {"tokens": 5}}
    path = certify(
        folder, member(base), draftgate="0.0.1", policy="numerics", suites=suites, rates=rates
    )
    write_keys(base / "ours")
    keys = [load_public_key(base / "ours.pub")]
    found = list(lacking(read_certificate(path), base, POLICY, keys))
    assert [(unmet.seen, unmet.advice) for unmet in found] == [
        (
            f"{path.name} does not count: it is not signed",
            f"run `draftgate gate --sign-key` with the private key of {base / 'ours.pub'}",
        ),
        (
            f"the certificate was made by draftgate 0.0.1, this is {__version__}",
            "run `draftgate gate`",
        ),
        (
            "the certificate was made with the policy numerics, the fleet asks for strict",
            "run `draftgate gate`",
        ),
        (
            "the certificate says nothing of long",
            "run `draftgate gate` without --suites",
        ),
        (
            "5 tokens were compared, the fleet asks for 1000",
            "run `draftgate gate` with more prompts and without --per-type",
        ),
    ]
    assert shortfall(path, member(base), POLICY) == "; ".join(u.seen for u in found[1:])
    assert objection(folder, member(base), POLICY) == str(found[1])


# Signatures.


def test_with_public_keys_a_certificate_must_be_signed_by_one(base: Path, folder: Path) -> None:
    write_keys(base / "ours")
    write_keys(base / "theirs")
    policy = GatePolicy(public_keys=("ours.pub",))
    name = certificate_path(folder, member(base)).name
    assert objection(folder, member(base), policy) == (
        f"{name} does not count: it is not signed; run `draftgate gate --sign-key` with the "
        f"private key of {base / 'ours.pub'}"
    )
    certify(folder, member(base), load_key(base / "theirs"))
    assert "it is signed with another key (sha256:" in str(objection(folder, member(base), policy))
    certify(folder, member(base), load_key(base / "ours"))
    assert objection(folder, member(base), policy) is None
    both = GatePolicy(public_keys=("theirs.pub", str(base / "ours.pub")))
    assert objection(folder, member(base), both) is None


def test_an_edit_with_a_new_digest_does_not_pass_for_signed(base: Path, folder: Path) -> None:
    write_keys(base / "ours")
    good = json.loads(certify(folder, member(base), load_key(base / "ours")).read_text())
    path = certify(folder, member(base), created="another")
    forged = json.loads(path.read_text()) | {"signature": good["signature"]}
    path.write_text(json.dumps(forged))
    said = objection(folder, member(base), GatePolicy(public_keys=("ours.pub",)))
    assert str(said).startswith(f"{path.name} does not count: its signature is wrong; run ")


def test_a_public_key_that_is_not_there_is_an_objection(base: Path, folder: Path) -> None:
    said = objection(folder, member(base), GatePolicy(public_keys=("nowhere.pub",)))
    assert said is not None
    assert "nowhere.pub: No such file or directory" in said


def test_a_model_that_is_a_hub_id_is_admitted(base: Path) -> None:
    model = Model("small", "org/model", 2048, {"draft_model": "org/draft"}, "a" * 40)
    certify(base / "c", member(base, model=model))
    assert objection(base / "c", member(base, model=model), POLICY) is None


def test_too_few_tokens_for_this_fleet_are_an_objection(base: Path) -> None:
    candidate = member(base)
    certify(base, candidate)
    assert objection(base, candidate, POLICY) is None
    more = POLICY.model_copy(update={"min_tokens": 3000})
    assert "2000 tokens were compared, the fleet asks for 3000" in str(
        objection(base, candidate, more)
    )


def test_other_prompts_are_an_objection(base: Path) -> None:
    candidate = member(base)
    certify(base, candidate)
    (base / "prompts").mkdir()
    (base / "prompts" / "own.jsonl").write_text("{}")
    assert "for other prompts than prompts holds" in str(objection(base, candidate, POLICY))
    found = next(other_prompts(read_certificate(certificate_path(base, candidate)), base, POLICY))
    assert found.detail[1] == f"+ {hashlib.sha256(b'{}').hexdigest()}"
    elsewhere = POLICY.model_copy(update={"prompts": "not-here"})
    assert objection(base, candidate, elsewhere) is None, "what is not here is not compared"


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ((), None),
        (("sampled",), "sampled: not asked"),
        (("mixed",), "mixed: not asked"),
        (("sampled", "mixed"), "sampled: not asked; mixed: not asked"),
    ],
)
def test_drawn_tokens_need_both_suites_that_look_at_them(
    base: Path, folder: Path, missing: tuple[str, ...], said: str | None
) -> None:
    suites = {suite: "ran" for suite in SUITES if suite not in missing}
    found = read_certificate(certify(folder, member(base), suites=suites))
    limits = unproven(found)
    assert list(limits) == ([SAMPLING] if missing else [])
    assert said is None or f"({said})" in limits[SAMPLING]


def test_a_suite_that_could_not_be_asked_shows_nothing(base: Path, folder: Path) -> None:
    suites = {**dict.fromkeys(SUITES, "ran"), "sampled": "the engine draws nothing"}
    found = read_certificate(certify(folder, member(base), suites=suites))
    assert "sampled: the engine draws nothing" in unproven(found)[SAMPLING]


def test_no_certificate_was_asked_for() -> None:
    assert unproven(None) == {}
