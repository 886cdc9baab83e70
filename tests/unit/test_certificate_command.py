"""`draftgate certificate`: exit codes, what is told, and which fact has changed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adapters.contract import Adapter
from orchestrator import deployment
from orchestrator.cli import main
from orchestrator.deployment import read_deployment
from orchestrator.gate.signature import load_key, load_public_key, write_keys
from tests.unit.certified import certify

FLEET = """\
fleet: f
models: {small: {target: org/m}}
workers:
  - {name: plain-0, engine: llama_cpp, model: small, profile: plain, port: 8501}
  - {name: edit-0, engine: llama_cpp, model: small, profile: edit, port: 8502}
"""
PROFILE = "profile: edit\nspeculation: {method: ngram, gamma: 4}\n"

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run a command in a folder with a fleet; exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)
    engine = tmp_path / "engine"
    engine.write_bytes(b"\x7fELF")
    monkeypatch.setattr(deployment, "find_command", lambda *_: (str(engine),))
    monkeypatch.setattr(deployment, "ask_version", newest)
    (tmp_path / "fleet.yaml").write_text(FLEET)
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "edit.yaml").write_text(PROFILE)

    def run_command(*arguments: str | Path) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            main(["certificate", *map(str, arguments)])
        assert isinstance(stop.value.code, int)
        said = capsys.readouterr()
        assert "Traceback" not in said.out + said.err
        return stop.value.code, said.out, said.err

    return run_command


def newest(adapter: Adapter, command: tuple[str, ...]) -> str:
    return adapter.SUPPORTED[-1].name


def made(tmp_path: Path, key: str | None = None, **changes: Any) -> Path:
    """The certificate of the fleet's speculating worker."""
    member = read_deployment(tmp_path / "fleet.yaml").member("edit-0")
    signing = load_key(Path(key)) if key else None
    return certify(tmp_path / "certificates", member, signing, **changes)


def edit(path: Path, **changes: Any) -> None:
    whole = json.loads(path.read_text())
    whole["certificate"] |= changes
    path.write_text(json.dumps(whole))


# verify


@pytest.mark.parametrize(
    ("verdict", "code"), [("pass", 0), ("fail", 3), ("inconclusive", 4), ("PASS", 3), (None, 3)]
)
@pytest.mark.parametrize("fleet", [(), ("--fleet", "fleet.yaml")])
def test_the_exit_code_tells_the_verdict(
    run: Run, tmp_path: Path, verdict: str, code: int, fleet: tuple[str, ...]
) -> None:
    assert run("verify", made(tmp_path, verdict=verdict), *fleet)[0] == code


@pytest.mark.parametrize("content", ["", "{}", "\x00", '{"certificate": {"format": 1}}'])
def test_what_is_no_certificate_is_bad_input(run: Run, tmp_path: Path, content: str) -> None:
    (tmp_path / "c.json").write_text(content)
    code, out, err = run("verify", "c.json")
    assert (code, out) == (2, "")
    assert "c.json" in err


def test_a_certificate_that_is_not_there_is_bad_input(run: Run) -> None:
    assert run("verify", "nowhere.json")[0] == 2


def test_an_edited_certificate_is_not_valid(run: Run, tmp_path: Path) -> None:
    path = made(tmp_path, verdict="fail")
    edit(path, verdict="pass")
    code, out, _ = run("verify", path)
    assert code == 3
    assert "was changed after it was written" in out
    assert "is not its content" in out


def test_what_was_verified_is_told(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("verify", made(tmp_path), "--fleet", "fleet.yaml")
    assert code == 0
    assert ": valid\n" in out
    assert "edit-0     every bound fact is as it was" in out
    assert "plain-0" not in out
    assert "signature  none" in out


def test_as_json(run: Run, tmp_path: Path) -> None:
    (tmp_path / "engine").write_text("#!/bin/bash\n")
    path = made(tmp_path)
    told = json.loads(run("verify", path, "--fleet", "fleet.yaml", "--json")[1])
    assert told | {"digest": "", "unknown": list(told["unknown"])} == {
        "file": str(path),
        "is_valid": True,
        "reason": f"{path.name} is a pass",
        "verdict": "pass",
        "digest": "",
        "is_intact": True,
        "signature": "none",
        "workers": {"edit-0": {"fits": True, "reason": None}},
        "unknown": ["build"],
    }


THREADS = "engines: {llama_cpp: {args: {threads: 2}}}\n"
CHANGED = {
    "another gamma": ("profiles/edit.yaml", PROFILE.replace("4", "5"), "gamma, launch"),
    "another engine build": ("engine", "\x7fELF new", "build"),
    "another option": ("fleet.yaml", FLEET + THREADS, "launch"),
    "another target": ("fleet.yaml", FLEET.replace("org/m", "org/o"), "target, tokenizer"),
}


@pytest.mark.parametrize("name", sorted(CHANGED))
def test_a_fact_that_has_changed_is_named(run: Run, tmp_path: Path, name: str) -> None:
    path = made(tmp_path)
    file, content, facts = CHANGED[name]
    (tmp_path / file).write_text(content)
    code, out, _ = run("verify", path, "--fleet", "fleet.yaml")
    assert code == 3
    assert f"edit-0     the certificate is for another {facts}" in out


def test_one_worker_that_fits_is_enough(run: Run, tmp_path: Path) -> None:
    path = made(tmp_path)
    other = "  - {name: edit-1, engine: llama_cpp, model: small, profile: edit, port: 8503,"
    (tmp_path / "fleet.yaml").write_text(FLEET + other + " args: {threads: 2}}\n")
    code, out, _ = run("verify", path, "--fleet", "fleet.yaml")
    assert code == 0
    assert "edit-1     the certificate is for another launch" in out


def test_a_fleet_without_such_a_worker_voids_it(run: Run, tmp_path: Path) -> None:
    path = made(tmp_path)
    (tmp_path / "fleet.yaml").write_text(FLEET.replace("profile: edit", "profile: plain"))
    code, out, _ = run("verify", path, "--fleet", "fleet.yaml")
    assert code == 3
    assert "no worker of fleet.yaml has this profile, model and engine" in out


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"suites": {"greedy": "ran"}}, "says nothing of loaded"),
        ({"policy": "numerics"}, "made with the policy numerics"),
        ({"draftgate": "0.0.1"}, "made by draftgate 0.0.1"),
    ],
)
def test_a_fleet_asks_for_what_its_gate_asks(
    run: Run, tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    path = made(tmp_path, **changes)
    assert run("verify", path)[0] == 0
    code, out, _ = run("verify", path, "--fleet", "fleet.yaml")
    assert code == 3
    assert words in out


def test_a_fleet_with_mistakes_is_bad_input(run: Run, tmp_path: Path) -> None:
    path = made(tmp_path)
    (tmp_path / "fleet.yaml").write_text(FLEET + "rotues: {}\n")
    code, _, err = run("verify", path, "--fleet", "fleet.yaml")
    assert code == 2
    assert "rotues" in err


# keygen, signatures


def test_a_key_signs_and_its_other_half_verifies(run: Run, tmp_path: Path) -> None:
    code, out, err = run("keygen", "--out", "gate")
    fingerprint = load_public_key(tmp_path / "gate.pub").fingerprint
    assert (code, out) == (0, fingerprint + "\n")
    assert "keep it secret" in err
    path = made(tmp_path, "gate")
    assert "not checked: name its public key" in run("verify", path)[1]
    code, out, _ = run("verify", path, "--public-key", "gate.pub")
    assert code == 0
    assert f"signature  by {fingerprint} (gate.pub)" in out
    assert run("keygen", "--out", "gate")[0] == 2


def test_another_key_does_not_verify(run: Run, tmp_path: Path) -> None:
    write_keys(tmp_path / "gate")
    write_keys(tmp_path / "other")
    path = made(tmp_path, "gate")
    code, out, _ = run("verify", path, "--public-key", "other.pub")
    assert code == 3
    assert "a key not given here" in out
    assert run("verify", path, "--public-key", "other.pub", "--public-key", "gate.pub")[0] == 0
    assert run("verify", path, "--public-key", "gate")[0] == 2


def test_the_fleets_own_keys_count(run: Run, tmp_path: Path) -> None:
    write_keys(tmp_path / "gate")
    (tmp_path / "fleet.yaml").write_text(FLEET + "gate: {public_keys: [gate.pub]}\n")
    code, out, _ = run("verify", made(tmp_path), "--fleet", "fleet.yaml")
    assert code == 3
    assert "it is not signed" in out
    assert run("verify", made(tmp_path, "gate"), "--fleet", "fleet.yaml")[0] == 0


# show


def test_it_is_shown_in_words(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("show", made(tmp_path, notes=["a limit"]))
    assert code == 0
    for words in (
        "pass  policy strict, made 2026-01-02T03:04:05Z\n  all the same\n",
        "profile    edit",
        "arm S1     2 tokens in 1.25 s, 4 of 5 accepted",
        "rate       all: 0 forks in 2000 tokens, 0 to 1.5 per 1,000",
        "divergences1",
        "note       a limit",
        "signature  none",
    ):
        assert words in out


@pytest.mark.parametrize("changes", [{"arms": [5]}, {"rates": [5]}, {"noise": 5}, {"arms": [{}]}])
def test_what_has_other_fields_is_bad_input(run: Run, tmp_path: Path, changes: Any) -> None:
    path = made(tmp_path)
    edit(path, **changes)
    code, out, err = run("show", path)
    assert (code, out) == (2, "")
    assert "its fields are not those of a certificate" in err
