"""The gate on the real llama.cpp server: it passes an exact one and catches a real numeric fork."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.harness import ROOT, TestFleet, fake_engine_command, fleet_of, free_port

EXACT = '{threads: 1, parallel: 1, repack: false, flash-attn: "on"}'
DEFAULT = "{threads: 1, parallel: 1}"
FORKING = ROOT / "tests/data/repack_prompts.jsonl"
NGRAM = "profile: guess\nspeculation: {method: ngram, gamma: 6, lookup: {min: 2, max: 2}}\n"


def fleet_yaml(model: Path | str, command: str, args: str) -> str:
    return f"""
fleet: gate-test
models: {{small: {{target: {model}, context: 1024}}}}
engines: {{llama_cpp: {{command: {command}, args: {args}, start_timeout_s: 120}}}}
workers:
  - {{name: plain-0, engine: llama_cpp, model: small, profile: plain, port: {free_port()}}}
  - {{name: guess-0, engine: llama_cpp, model: small, profile: guess, port: {free_port()}}}
gate: {{prompts: {FORKING}}}
"""


@contextmanager
def fleet(
    folder: Path, model: Path | str, args: str, command: str = "embedded", profile: str = NGRAM
) -> Iterator[TestFleet]:
    (folder / "profiles").mkdir()
    (folder / "profiles" / "guess.yaml").write_text(profile)
    with fleet_of(TestFleet(folder, fleet_yaml(model, command, args))) as made:
        yield made


def certificate(folder: Path) -> dict[str, object]:
    data: dict[str, object] = json.loads(next((folder / "certificates").iterdir()).read_text())
    return data


@pytest.mark.engine
def test_exact_flags_pass_with_a_fresh_boot_for_each_arm(tmp_path: Path, small_model: Path) -> None:
    with fleet(tmp_path, small_model, EXACT) as made:
        done = made.run("gate", str(made.file), "--prompts", str(FORKING), timeout=280)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "guess-0: PASS" in done.stdout
        assert "8 of 8 prompts identical" in done.stdout
        assert done.stderr.count("ready    ") == 4, "two boots of each worker"
        assert not made.processes()
    proof = certificate(tmp_path)
    assert proof["verdict"] == "pass"
    assert proof["forks_per_1000_tokens_below"]


@pytest.mark.engine
def test_default_flags_are_caught(tmp_path: Path, small_model: Path) -> None:
    """Weight repacking picks CPU kernels by the number of rows: verifying rounds differently."""
    with fleet(tmp_path, small_model, DEFAULT) as made:
        made.up()
        done = made.run("gate", str(made.file), "--json", timeout=280)
        assert done.returncode == 3, done.stdout + done.stderr
    trial = json.loads(done.stdout)[0]
    assert trial["verdict"] == "fail"
    first = trial["divergences"][0]
    assert first["expected"] != first["found"]
    assert first["gap"] is not None, "plain tells how sure it was there"
    arms = {d["arm"] for d in trial["divergences"]}
    assert arms == {"S1", "S2"}, "plain repeats itself; both speculating arms differ"
    assert certificate(tmp_path)["verdict"] == "fail"


@pytest.mark.engine
def test_urls_of_engines_that_run_already(tmp_path: Path, small_model: Path) -> None:
    with fleet(tmp_path, small_model, EXACT) as made:
        made.up()
        urls = [f"http://127.0.0.1:{w['port']}" for w in made.status()["workers"].values()]
        pair = ["--baseline", urls[0], "--candidate", urls[1]]
        prompts = tmp_path / "two.jsonl"
        prompts.write_text("\n".join(FORKING.read_text().splitlines()[:2]))
        done = made.run("gate", *pair, "--prompts", str(prompts), timeout=280)
        assert done.returncode == 0, done.stdout + done.stderr
        swapped = ["--baseline", urls[1], "--candidate", urls[0]]
        done = made.run("gate", *swapped, "--prompts", str(prompts), timeout=280)
        assert done.returncode == 2
        assert "it is not plain" in done.stderr


@pytest.mark.engine
def test_a_profile_that_never_matches_proves_nothing(tmp_path: Path, small_model: Path) -> None:
    never = NGRAM.replace("{min: 2, max: 2}", "{min: 60, max: 60}").replace("gamma: 6", "gamma: 60")
    prompts = tmp_path / "one.jsonl"
    prompts.write_text(json.dumps({"type": "chat", "prompt": "A b c", "max_tokens": 8}))
    with fleet(tmp_path, small_model, EXACT, profile=never) as made:
        made.up()
        done = made.run("gate", str(made.file), "--prompts", str(prompts), timeout=280)
    assert done.returncode == 4, done.stdout + done.stderr
    assert "no token was drafted" in done.stdout


def test_a_fork_is_reported_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").touch()
    with fleet(tmp_path, "./model.gguf", "{}", str(fake_engine_command(tmp_path))) as made:
        assert made.run("gate", str(made.file)).returncode == 0
        made.env["FAKE_SPECULATING"] = "--diverge-at 5"
        done = made.run("gate", str(made.file))
    assert done.returncode == 3, done.stdout + done.stderr
    assert "8 of 8 prompts differ from plain (in S1, S2)" in done.stdout
    assert "S1 and S2 left plain at token 5" in done.stdout
