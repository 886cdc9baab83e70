"""`draftgate certificate`: exit codes, what is told, and which fact has changed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adapters.contract import Adapter
from orchestrator import __version__, deployment
from orchestrator.cli import main
from orchestrator.deployment import read_deployment
from orchestrator.gate.canonical import digest
from orchestrator.gate.evidence import SUITES
from orchestrator.gate.signature import load_key, load_public_key, write_keys
from orchestrator.gate.subject import subject
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
    assert "is not its content's" in out
    whole = json.loads(path.read_text())
    assert f"    - {whole['digest']}\n" in out
    assert f"    + {digest(whole['certificate'])}\n" in out


def test_what_was_verified_is_told(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("verify", made(tmp_path), "--fleet", "fleet.yaml")
    assert code == 0
    assert ": valid as far as it was checked\n" in out
    assert "edit-0     every bound fact is as it was\n" in out
    assert "plain-0" not in out
    assert "signature  none\n" in out


UNCHECKED = "  unchecked  "
NO_KEY = "and no public key was given: --public-key FILE.pub, or gate.public_keys of --fleet"


def unchecked(out: str) -> list[str]:
    lines = out.splitlines()
    return [line.removeprefix(UNCHECKED) for line in lines if line.startswith(UNCHECKED)]


def test_what_was_not_checked_is_told(run: Run, tmp_path: Path) -> None:
    """Only what was checked in every way is called valid without more words."""
    no_fleet = "nothing was compared with what runs, and no fleet was given: --fleet FILE"
    write_keys(tmp_path / "gate")
    path = made(tmp_path)
    assert unchecked(run("verify", path)[1]) == [f"it is not signed, {NO_KEY}", no_fleet]
    path = made(tmp_path, "gate")
    out = run("verify", path)[1]
    assert unchecked(out) == [f"the signature was not checked, {NO_KEY}", no_fleet]
    assert ", not checked\n" in out
    out = run("verify", path, "--public-key", "gate.pub")[1]
    assert unchecked(out) == [no_fleet]
    assert out.startswith(f"{path}: valid as far as it was checked\n")
    out = run("verify", path, "--public-key", "gate.pub", "--fleet", "fleet.yaml")[1]
    assert unchecked(out) == []
    assert out.startswith(f"{path}: valid\n")


def test_with_strict_what_was_not_checked_is_inconclusive(run: Run, tmp_path: Path) -> None:
    """So that a pipeline that forgets the key or the fleet does not go on."""
    write_keys(tmp_path / "gate")
    path = made(tmp_path, "gate")
    everything = ("--public-key", "gate.pub", "--fleet", "fleet.yaml")
    for given, code in (((), 4), (everything[:2], 4), (everything[2:], 4), (everything, 0)):
        assert run("verify", path, "--strict", *given)[0] == code
        assert run("verify", path, *given)[0] == 0
    edit(path, verdict="fail")
    assert run("verify", path, "--strict", *everything)[0] == 3


def test_what_is_not_on_this_machine_is_not_checked(run: Run, tmp_path: Path) -> None:
    path = made(tmp_path)
    fleet = FLEET.replace("port: 8502", "url: 'http://10.0.0.7:8502'")
    (tmp_path / "fleet.yaml").write_text(fleet + "gate: {prompts: not-here}\n")
    code, out, _ = run("verify", path, "--fleet", "fleet.yaml")
    assert unchecked(out)[1:] == [
        "whether the prompts are the fleet's: not-here is not on this machine",
        "of edit-0: build, hardware: they cannot be known from here",
    ]
    assert (code, "every bound fact is as it was, but for those not checked" in out) == (0, True)


def test_as_json(run: Run, tmp_path: Path) -> None:
    (tmp_path / "engine").write_text("#!/bin/bash\n")
    path = made(tmp_path)
    told = json.loads(run("verify", path, "--fleet", "fleet.yaml", "--json")[1])
    assert told | {"digest": "", "unknown": list(told["unknown"])} == {
        "file": str(path),
        "is_valid": True,
        "reason": f"{path.name} is a pass",
        "unmet": [],
        "unchecked": [f"it is not signed, {NO_KEY}"],
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


def test_every_condition_that_is_not_met_is_told_at_once(run: Run, tmp_path: Path) -> None:
    """Each with what was seen and what to do: seven, of which a repair of one shows no more."""
    write_keys(tmp_path / "gate")
    path = made(tmp_path, draftgate="0.0.1", policy="numerics", suites={"greedy": "ran"})
    edit(path, verdict="fail", reasons=["a token is another"])
    more = "gate: {public_keys: [gate.pub], suites: [greedy, long]}\n"
    (tmp_path / "fleet.yaml").write_text(FLEET + THREADS + more)
    code, out, _ = run("verify", path, "--fleet", "fleet.yaml")
    assert code == 3
    assert out.startswith(f"{path}: not valid: 7 conditions are not met\n")
    again = "next: run `draftgate gate`"
    told = [line.strip().removeprefix("not met    ") for line in out.splitlines()]
    whole = json.loads(path.read_text())
    assert told[1:18] == [
        "the gate's verdict is fail",
        "a token is another",
        "next: read the report and mend what differs, or serve plain; "
        + again.removeprefix("next: "),
        f"{path.name} was changed after it was written: its digest is another",
        f"- {whole['digest']}",
        f"+ {digest(whole['certificate'])}",
        again,
        f"{path.name} does not count: it is not signed",
        f"next: run `draftgate gate --sign-key` with the private key of {tmp_path / 'gate.pub'}",
        f"the certificate was made by draftgate 0.0.1, this is {__version__}",
        again,
        "the certificate was made with the policy numerics, the fleet asks for strict",
        again,
        "the certificate says nothing of long",
        "next: run `draftgate gate` without --suites",
        "verdict    fail",
        f"digest     {whole['digest']} is not its content's",
    ]
    assert "edit-0     the certificate is for another launch\n" in out
    found = json.loads(run("verify", path, "--fleet", "fleet.yaml", "--json")[1])
    assert [unmet["seen"] for unmet in found["unmet"]] == found["reason"].split("; ")
    assert len(found["unmet"]) == 7
    assert found["unmet"][6]["detail"][1:] == ["  + --threads 2"]
    assert found["unmet"][6]["next"] == again.removeprefix("next: ")


def lines_of(out: str, worker: str) -> list[str]:
    """What is told below a worker that does not fit, without the indent."""
    below = out.partition(f"  {worker}     the certificate is for another ")[2].splitlines()[1:]
    return [line[13:] for line in below[: next(n for n, s in enumerate(below) if "next:" in s)]]


def test_both_values_of_a_fact_that_has_changed_are_told(run: Run, tmp_path: Path) -> None:
    path = made(tmp_path)
    before = json.loads(path.read_text())["certificate"]["subject"]
    (tmp_path / "engine").write_bytes(b"\x7fELF new")
    (tmp_path / "profiles" / "edit.yaml").write_text(PROFILE.replace("gamma: 4", "gamma: 6"))
    more = "engines: {llama_cpp: {args: {threads: 2}, env: {GGML_X: '1'}}}\n"
    (tmp_path / "fleet.yaml").write_text(FLEET.replace("org/m", "org/o") + more)
    now = subject(read_deployment(tmp_path / "fleet.yaml").member("edit-0"))
    builds = [about["engine"]["build"][:19] for about in (before, now)]
    launches = [about["launch"][:12] for about in (before, now)]
    assert lines_of(run("verify", path, "--fleet", "fleet.yaml")[1], "edit-0") == [
        f"  build: {builds[0]}… in the certificate, {builds[1]}… now",
        "  target: org/m@main in the certificate, org/o@main now",
        "  tokenizer: org/m@main in the certificate, org/o@main now",
        "  gamma: 4 in the certificate, 6 now",
        f"  launch: {launches[0]}… in the certificate, {launches[1]}… now",
        "    + --threads 2",
        "    - --spec-ngram-simple-size-m 4",
        "    + --spec-ngram-simple-size-m 6",
        "    + GGML_X=1",
    ]


def test_an_option_that_is_gone_is_told(run: Run, tmp_path: Path) -> None:
    (tmp_path / "fleet.yaml").write_text(FLEET + THREADS)
    path = made(tmp_path)
    (tmp_path / "fleet.yaml").write_text(FLEET)
    told = lines_of(run("verify", path, "--fleet", "fleet.yaml")[1], "edit-0")
    assert told[1:] == ["    - --threads 2"]


@pytest.mark.parametrize("held", [None, 5, {}, {"arguments": 1, "env": {}, "files": {}}])
def test_a_certificate_that_holds_no_launch_says_so(run: Run, tmp_path: Path, held: Any) -> None:
    path = made(tmp_path, rendered=held)
    (tmp_path / "fleet.yaml").write_text(FLEET + THREADS)
    told = lines_of(run("verify", path, "--fleet", "fleet.yaml")[1], "edit-0")
    assert told[1:] == ["    the certificate does not hold the launch's lines"]


def test_of_hardware_only_what_differs_is_told(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    was = {"machine": "x86_64", "cpu": "A", "instructions": ["avx", "avx512f", "fma"], "gpus": []}
    monkeypatch.setattr("orchestrator.gate.subject.hardware", lambda gpus: was)
    path = made(tmp_path)
    now = was | {"instructions": ["avx", "fma"], "gpus": ["H"]}
    monkeypatch.setattr("orchestrator.gate.subject.hardware", lambda gpus: now)
    assert lines_of(run("verify", path, "--fleet", "fleet.yaml")[1], "edit-0") == [
        "  hardware:",
        "    - instructions: avx512f",
        "    + instructions: the others",
        "    - gpus: none",
        "    + gpus: H",
    ]


@pytest.mark.parametrize(
    ("was", "line"),
    [
        ({"instructions": "avx"}, "    - instructions: avx"),
        ({"instructions": [{"a": 1}], "gpus": None}, "    - gpus: not known"),
        ({"gpus": 5}, "    - instructions: not known"),
    ],
)
def test_hardware_of_other_types_is_told_too(
    run: Run, tmp_path: Path, was: dict[str, Any], line: str
) -> None:
    path = made(tmp_path)
    about = json.loads(path.read_text())["certificate"]["subject"] | {"hardware": was}
    code, out, _ = run("verify", made(tmp_path, subject=about), "--fleet", "fleet.yaml")
    assert code == 3
    assert line in lines_of(out, "edit-0")


def test_a_fact_that_is_known_now_and_was_not_is_told(run: Run, tmp_path: Path) -> None:
    (tmp_path / "engine").write_text("#!/bin/bash\n")
    path = made(tmp_path)
    (tmp_path / "engine").write_bytes(b"\x7fELF")
    told = lines_of(run("verify", path, "--fleet", "fleet.yaml")[1], "edit-0")
    assert told[0].startswith("  build: not known (")
    assert " in the certificate, sha256:" in told[0]


def test_nothing_of_an_edited_certificate_reaches_the_terminal(run: Run, tmp_path: Path) -> None:
    path = made(tmp_path, policy="\x1b[2Jstrict", reasons=["\x1b]0;x\x07"], verdict="fail")
    for command in (("show",), ("verify", "--fleet", "fleet.yaml")):
        out = run(command[0], path, *command[1:])[1]
        assert "\x1b" not in out
        assert "\\x1b[2Jstrict" in out


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
    assert "    - profile edit, model small, engine llama_cpp\n" in out
    assert "    + profile plain, model small, engine llama_cpp (edit-0)\n" in out
    assert "next: name the fleet that it was made for, or give this one such a worker\n" in out


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
    assert err == (
        "secret  gate: the private key: keep it secret, where the gate runs\n"
        "        draftgate gate --sign-key gate\n"
        "public  gate.pub: the public key: put it beside the fleet's file\n"
        "        gate: {public_keys: [gate.pub]}\n"
    )
    path = made(tmp_path, "gate")
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
    code, _, err = run("verify", path, "--public-key", "gate", "--public-key", "fleet.yaml")
    assert code == 2
    assert "gate: a private key" in err
    assert "fleet.yaml: not a public key in PEM" in err, "all at once"


def test_the_fleets_own_keys_count(run: Run, tmp_path: Path) -> None:
    write_keys(tmp_path / "gate")
    (tmp_path / "fleet.yaml").write_text(FLEET + "gate: {public_keys: [gate.pub]}\n")
    code, out, _ = run("verify", made(tmp_path), "--fleet", "fleet.yaml")
    assert code == 3
    assert "it is not signed" in out
    assert run("verify", made(tmp_path, "gate"), "--fleet", "fleet.yaml")[0] == 0


# show


def test_it_is_shown_in_words(run: Run, tmp_path: Path) -> None:
    hardware = {"machine": "x86_64", "cpu": "A", "instructions": ["avx", "fma"], "gpus": ["H"]}
    path = made(tmp_path, notes=["a limit"])
    whole = json.loads(path.read_text())
    about = whole["certificate"]["subject"]
    about |= {"hardware": hardware, "schedule": [{"batch": "1-4", "gamma": 2}]}
    about["unknown"] = {"build": "a script"}
    edit(path, subject=about)
    code, out, _ = run("show", path)
    assert code == 0
    assert out.splitlines() == [
        "pass  policy strict, made 2026-01-02T03:04:05Z",
        "  all the same",
        "made for",
        f"  engine        llama_cpp {about['engine']['version']}",
        "  build         not known: a script",
        "  model         small",
        "  target        org/m@main",
        "  draft         none",
        "  tokenizer     org/m@main",
        "  profile       edit",
        "  method        ngram",
        "  gamma         4",
        "  schedule      gamma 2 at 1-4 requests",
        f"  launch        {about['launch']}",
        "  processor     A (x86_64)",
        "  instructions  avx fma",
        "  GPUs          H",
        "machine, compared with nothing",
        *(line for line in out.splitlines() if line.startswith(("  system", "  processors"))),
        "  drivers     none",
        "launch",
        "  --alias small",
        "  --metrics",
        "  --slots",
        "  --spec-type ngram-simple",
        "  --spec-ngram-simple-size-n 2",
        "  --spec-ngram-simple-size-m 4",
        "asked",
        "  questions  1 from 1 prompts",
        *(f"  {name:11}ran" for name in SUITES),
        "arms",
        *(f"  {name}  2 tokens in 1.25 s, 4 of 5 accepted" for name in ("A1", "A2", "S1", "S2")),
        "forks per 1,000 tokens",
        "  all  0 forks in 2000 tokens: 0 to 1.5",
        "found",
        "  findings     1",
        "  divergences  1",
        "  noise        1",
        "  sampled      pass: alike",
        "notes",
        "  a limit",
        "file",
        f"  digest     {whole['digest']}",
        "  signature  none",
        "  checked    nothing: `draftgate certificate verify` checks it",
    ]


def test_what_is_shown_names_no_option_that_show_lacks(run: Run, tmp_path: Path) -> None:
    write_keys(tmp_path / "gate")
    out = run("show", made(tmp_path, "gate"))[1]
    assert f"  signature  by {load_public_key(tmp_path / 'gate.pub').fingerprint}\n" in out
    assert "--public-key" not in out


@pytest.mark.parametrize("changes", [{"arms": [5]}, {"rates": [5]}, {"noise": 5}, {"arms": [{}]}])
def test_what_has_other_fields_is_bad_input(run: Run, tmp_path: Path, changes: Any) -> None:
    path = made(tmp_path)
    edit(path, **changes)
    code, out, err = run("show", path)
    assert (code, out) == (2, "")
    assert "its fields are not those of a certificate" in err
