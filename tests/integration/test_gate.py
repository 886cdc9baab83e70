"""The gate on the real llama.cpp server: it passes an exact one, catches a real numeric fork, goes
on after a kill, and refuses what could not be compared."""

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.harness import ROOT, TestFleet, fake_engine_command, fleet_of, free_port, until
from tests.models.to_gguf import write_gguf

pytestmark = pytest.mark.timeout(600)

EXACT = '{threads: 1, parallel: 1, repack: false, flash-attn: "on"}'
DEFAULT = "{threads: 1, parallel: 1}"
FORKING = ROOT / "tests/data/repack_prompts.jsonl"
NGRAM = "profile: guess\nspeculation: {method: ngram, gamma: 6, lookup: {min: 2, max: 2}}\n"
# Of the test model's kind of text, and so that some of it is found in itself.
TEXTS = (
    "The river runs past the mill and the mill runs",
    "one two three four one two three four one two",
    "def add(a, b):\n    return a + b\n\ndef sub(a, b):\n    return",
    "red green blue red green blue red",
)


def fleet_yaml(model: Path | str, command: str, args: str, more: str = "") -> str:
    return f"""
fleet: gate-test
models: {{small: {{target: {model}, context: 512}}}}
engines: {{llama_cpp: {{command: {command}, args: {args}, start_timeout_s: 120}}}}
workers:
  - {{name: plain-0, engine: llama_cpp, model: small, profile: plain, port: {free_port()}}}
  - {{name: guess-0, engine: llama_cpp, model: small, profile: guess, port: {free_port()}{more}}}
gate: {{prompts: prompts.jsonl, min_tokens: 100}}
"""


@contextmanager
def fleet(
    folder: Path, model: Path | str, args: str, command: str = "embedded", more: str = ""
) -> Iterator[TestFleet]:
    (folder / "profiles").mkdir()
    (folder / "profiles" / "guess.yaml").write_text(NGRAM)
    lines = [{"type": "chat", "prompt": text, "max_tokens": 48} for text in TEXTS]
    (folder / "prompts.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    with fleet_of(TestFleet(folder, fleet_yaml(model, command, args, more))) as made:
        yield made


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("tiny") / "target.gguf"
    write_gguf(ROOT / "tests" / "models" / "target", file)
    return file


def certificate(folder: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(next((folder / "certificates").iterdir()).read_text())
    found: dict[str, Any] = data["certificate"]
    return found


@pytest.mark.engine
def test_everything_is_asked_on_fresh_boots_and_passes(tmp_path: Path, tiny: Path) -> None:
    with fleet(tmp_path, tiny, EXACT) as made:
        done = made.run("gate", str(made.file), timeout=500)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "PASS" in done.stdout
        assert not made.processes()
    proof = certificate(tmp_path)
    assert proof["verdict"] == "pass"
    ran = {suite for suite, said in proof["suites"].items() if said == "ran"}
    assert {"greedy", "turns", "long", "limits", "stream", "penalties", "sampled"} <= ran
    reports = tmp_path / "reports" / "guess-0"
    assert {f.name for f in reports.iterdir()} >= {"report.html", "report.json", "junit.xml"}
    for name, folder in (("A1", "plain-0"), ("S2", "guess-0")):
        answers = tmp_path / "reports" / folder / "answers" / f"{name}.jsonl"
        assert sum('"ids"' in line for line in answers.read_text().splitlines()) > len(TEXTS)


@pytest.mark.engine
def test_default_flags_are_caught(tmp_path: Path, small_model: Path) -> None:
    """Weight repacking picks CPU kernels by the number of rows: verifying rounds differently."""
    with fleet(tmp_path, small_model, DEFAULT) as made:
        asked = ("--prompts", str(FORKING), "--suites", "greedy", "--json")
        done = made.run("gate", str(made.file), *asked, timeout=550)
        assert done.returncode == 3, done.stdout + done.stderr
    trial = json.loads(done.stdout)[0]
    assert trial["verdict"] == "fail"
    first = trial["divergences"][0]
    assert first["arms"] == ["S1", "S2"], "plain repeats itself; both speculating arms differ"
    assert first["gap"] is not None, "plain tells how sure it was there"
    assert certificate(tmp_path)["verdict"] == "fail"


@pytest.mark.engine
def test_urls_of_engines_that_run_already(tmp_path: Path, tiny: Path) -> None:
    with fleet(tmp_path, tiny, EXACT) as made:
        made.up()
        urls = [f"http://127.0.0.1:{w['port']}" for w in made.status()["workers"].values()]
        asked = ("--prompts", "prompts.jsonl", "--suites", "greedy,turns", "--min-tokens", "50")
        pair = ("--baseline", urls[0], "--candidate", urls[1])
        done = made.run("gate", *pair, *asked, timeout=500)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "one process" in done.stdout, "arms that are no fresh boots are said to be none"
        assert not (tmp_path / "certificates").exists()
        swapped = ("--baseline", urls[1], "--candidate", urls[0])
        done = made.run("gate", *swapped, *asked, timeout=500)
        assert done.returncode == 4
        assert "it is not plain" in done.stdout


@pytest.mark.engine
def test_a_control_passes_and_certifies_nothing(tmp_path: Path, tiny: Path) -> None:
    with fleet(tmp_path, tiny, EXACT) as made:
        done = made.run("gate", str(made.file), "--control", "--suites", "greedy", timeout=500)
        assert done.returncode == 0, done.stdout + done.stderr
        assert not list((tmp_path / "certificates").iterdir())


@pytest.mark.engine
def test_a_killed_run_goes_on_and_leaves_nothing(tmp_path: Path, tiny: Path) -> None:
    answers = tmp_path / "reports" / "plain-0" / "answers" / "A1.jsonl"

    def some() -> bool:
        return answers.exists() and answers.read_text().count('"ids"') >= 3

    with fleet(tmp_path, tiny, EXACT) as made:
        asked = ("gate", str(made.file), "--suites", "greedy,limits,stream")
        process = made.start(*asked)
        until(some, "three answers are kept", 120)
        process.send_signal(signal.SIGKILL)
        process.wait(10)
        assert made.processes(), "its engines have lost their supervisor; the next gate ends them"
        kept = answers.read_text().count('"counted"')  # an answer without its count is none
        done = made.run(*asked, timeout=500)
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"A1: {kept} of " in done.stderr
        assert "answers kept from the run before" in done.stderr
        report = json.loads((tmp_path / "reports" / "guess-0" / "report.json").read_text())
        drafted = {arm["drafted"] for arm in report["arms"] if arm["name"] in ("S1", "S2")}
        assert len(drafted) == 1, "one of the two arms was interrupted, and nothing was lost"
        again = made.run(*asked, timeout=500)
        assert "answers kept" not in again.stderr, "a finished run is begun anew"


@pytest.mark.engine
def test_sigterm_ends_the_engines_first(tmp_path: Path, tiny: Path) -> None:
    with fleet(tmp_path, tiny, EXACT) as made:
        process = made.start("gate", str(made.file))
        until(lambda: "A1" in made.output() or (tmp_path / "reports").exists(), "it began", 60)
        time.sleep(1)
        process.terminate()
        assert process.wait(60) == 1
        assert not made.processes()
        assert "run it again to go on" in made.output()


@pytest.mark.engine
def test_a_profile_that_never_matches_proves_nothing(tmp_path: Path, tiny: Path) -> None:
    never = NGRAM.replace("{min: 2, max: 2}", "{min: 30, max: 30}").replace("gamma: 6", "gamma: 30")
    with fleet(tmp_path, tiny, EXACT) as made:
        (tmp_path / "profiles" / "guess.yaml").write_text(never)
        prompts = tmp_path / "one.jsonl"
        prompts.write_text(json.dumps({"type": "chat", "prompt": "A b c", "max_tokens": 8}))
        asked = ("--prompts", str(prompts), "--suites", "greedy", "--min-tokens", "1")
        made.up()
        done = made.run("gate", str(made.file), *asked, timeout=500)
    assert done.returncode == 4, done.stdout + done.stderr
    assert "no token was drafted" in done.stdout


def test_other_differences_than_speculation_are_refused(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").touch()
    command, more = str(fake_engine_command(tmp_path)), ", args: {threads: 2}"
    with fleet(tmp_path, "./model.gguf", "{threads: 1}", command, more) as made:
        done = made.run("gate", str(made.file))
        assert not made.processes()
    assert done.returncode == 2, done.stdout + done.stderr
    assert "differ in more than speculation" in done.stderr
    assert "+ --threads 2" in done.stderr


def test_a_fork_is_reported_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").touch()
    asked = ("--suites", "greedy", "--min-tokens", "1")
    with fleet(tmp_path, "./model.gguf", "{}", str(fake_engine_command(tmp_path))) as made:
        done = made.run("gate", str(made.file), *asked)
        assert done.returncode == 0, done.stdout + done.stderr
        made.env["FAKE_SPECULATING"] = "--diverge-at 5"
        done = made.run("gate", str(made.file), *asked)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "answers differ from plain (in S1, S2)" in done.stdout
    report = json.loads((tmp_path / "reports" / "guess-0" / "report.json").read_text())
    assert {d["position"] for d in report["divergences"] if d["is_first"]} == {5}


def test_two_gates_do_not_share_a_fleet(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").touch()
    with fleet(tmp_path, "./model.gguf", "{}", str(fake_engine_command(tmp_path))) as made:
        made.env["FAKE_ENGINE"] = "--load-s 5"
        process = made.start("gate", str(made.file), "--suites", "greedy")
        until(lambda: list((tmp_path / "state").rglob("supervisor.lock")), "the first one began")
        time.sleep(0.5)
        done = made.run("gate", str(made.file), "--suites", "greedy")
        assert done.returncode == 5, done.stdout + done.stderr
        assert f"`draftgate gate` runs already, as process {process.pid}" in done.stderr
        os.kill(process.pid, signal.SIGTERM)
        process.wait(30)
