"""Real vLLM on the CPU: profiles launched by `up`, proved by the gate, routed; and the gate's own
proof: a wrong verify step and a wrong model in the same engine are caught."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.harness import ROOT, TestFleet, fleet_of, free_port, until
from tests.vllm_fleet import CONTEXT, PROMPTS, engine_yaml, write_profile, write_prompts

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

# Sampled output of vLLM's CPU build is not plain's: test_gate_faults.py, docs/verified.md.
SUITES = "greedy, loaded, turns, long, limits, stream, json, penalties"
METHODS = ("ngram", "draft_model", "eagle3", "suffix")


def fleet_yaml(python: Path, models: Path, workers: list[str]) -> str:
    routes = "edit: [ngram, plain], chat: [plain]"
    if any("eagle3" in worker for worker in workers):
        routes = "edit: [ngram, plain], chat: [eagle3, plain]"
    lines = "\n".join(
        f"  - {{model: tiny, engine: vllm, {w}, port: {free_port()}}}" for w in workers
    )
    return f"""
fleet: vllm-test
models:
  tiny:
    target: {models / "target"}
    context: {CONTEXT}
    drafts: {{draft_model: {models / "draft"}, eagle3: {models / "eagle3"}}}
{engine_yaml(python)}
workers:
{lines}
types: [{{type: edit, when: {{last_user: town}}}}, {{type: chat}}]
routes: {{{routes}}}
gate: {{prompts: prompts.jsonl, min_tokens: 200, suites: [{SUITES}]}}
router: {{listen: "127.0.0.1:{free_port()}", admin: "127.0.0.1:{free_port()}"}}
"""


def methods(python: Path) -> list[str]:
    """suffix needs a package that is compiled; scripts/setup --suffix tries."""
    look = "import importlib.util as u, sys; sys.exit(u.find_spec('arctic_inference') is None)"
    has_suffix = subprocess.run([python, "-c", look], check=False).returncode == 0
    return [method for method in METHODS if method != "suffix" or has_suffix]


def make_fleet(
    folder: Path, python: Path, models: Path, workers: list[str], **env: str
) -> TestFleet:
    for method in METHODS:
        lookup = "\nlookup: {min: 2, max: 4}" if method == "ngram" else ""
        write_profile(folder, method, f"method: {method}\ngamma: 4{lookup}")
    write_prompts(folder)
    return TestFleet(folder, fleet_yaml(python, models, workers), env)


@pytest.fixture(scope="module")
def fleet(
    vllm_python: Path, tiny_models: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TestFleet]:
    """plain, ngram, draft_model, eagle3 and suffix (where it was built), up."""
    workers = ["name: plain-0, profile: plain"]
    workers += [f"name: {method}-0, profile: {method}" for method in methods(vllm_python)]
    made = make_fleet(tmp_path_factory.mktemp("vllm"), vllm_python, tiny_models, workers)
    with fleet_of(made):
        made.up(timeout=600)
        yield made


def test_every_method_is_ready_and_drafts(fleet: TestFleet, vllm_python: Path) -> None:
    workers = fleet.status()["workers"]
    assert {w["state"] for w in workers.values()} == {"ready"}
    for method in methods(vllm_python):
        assert workers[f"{method}-0"]["drafted"] > 0
        assert workers[f"{method}-0"]["version"].startswith("0.32")
    prints = {w["fingerprint"] for w in workers.values()}
    assert len(prints) == len(workers), "each method has its own fingerprint"


def test_gate_passes_every_method(fleet: TestFleet, vllm_python: Path) -> None:
    done = fleet.run("gate", str(fleet.file), "--json", timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    trials = {trial["candidate"]: trial for trial in json.loads(done.stdout)}
    assert set(trials) == {"ngram-0", "eagle3-0"}, "what a route names is gated by default"
    others = [f"--candidate={m}-0" for m in methods(vllm_python) if m not in ("ngram", "eagle3")]
    named = fleet.run("gate", str(fleet.file), *others, timeout=600)
    assert named.returncode == 0, named.stdout + named.stderr
    certificate = json.loads(Path(trials["ngram-0"]["certificate"]).read_text())["certificate"]
    assert certificate["verdict"] == "pass"
    assert all(arm["drafted"] > 0 for arm in certificate["arms"] if arm["name"] in ("S1", "S2"))


def test_request_streams_through_the_router(fleet: TestFleet) -> None:
    assert fleet.run("gate", str(fleet.file), timeout=600).returncode == 0
    server = fleet.start("serve", str(fleet.file))
    listen = fleet.file.read_text().split('listen: "')[1].split('"')[0]
    try:
        admin = fleet.file.read_text().split('admin: "')[1].split('"')[0]
        until(lambda: _are_ready(f"http://{admin}/status", "plain-0", "ngram-0"), "both are ready")
        body: dict[str, Any] = {"model": "tiny", "prompt": PROMPTS[3], "max_tokens": 24}
        body |= {"stream": True, "temperature": 0}
        url = f"http://{listen}/v1/completions"
        with httpx.stream("POST", url, json=body, timeout=60) as answer:
            events = [line for line in answer.iter_lines() if line.startswith("data: ")]
        assert answer.status_code == 200
        assert answer.headers["x-draftgate-type"] == "edit"
        assert answer.headers["x-draftgate-profile"] == "ngram", answer.headers
        assert answer.headers["x-draftgate-worker"] == "ngram-0"
        assert len(events) > 2
        assert events[-1] == "data: [DONE]"
        for field, value, why in (
            ("min_p", 0.1, "min_p"),  # which the engine refuses while it drafts
            ("temperature", 1, "did not show that drawn tokens are plain's"),  # SUITES
        ):
            other = httpx.post(url, json=body | {"stream": False, field: value})
            assert other.status_code == 200
            assert other.headers["x-draftgate-worker"] == "plain-0"
            assert why in other.headers["x-draftgate-reason"]
    finally:
        server.terminate()
        server.wait(30)


def _are_ready(status: str, *workers: str) -> bool:
    """Whether the router knows these workers for ready: its port opens when one a model is."""
    try:
        told = httpx.get(status).raise_for_status().json()
    except httpx.HTTPError:
        return False
    return {u["name"] for u in told["upstreams"] if u["state"] == "ready"} >= set(workers)


def test_another_model_in_effect_is_refused(
    vllm_python: Path, tiny_models: Path, tmp_path: Path
) -> None:
    """What the comparison makes of it is in test_gate_faults.py; here nothing is started."""
    other = "hf-overrides: {rope_parameters: {rope_type: default, rope_theta: 5000.0}}"
    workers = ["name: plain-0, profile: plain", f"name: edit-0, profile: ngram, args: {{{other}}}"]
    wrong = make_fleet(tmp_path, vllm_python, tiny_models, workers)
    done = wrong.run("gate", str(wrong.file), "--candidate", "edit-0")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "differ in more than speculation" in done.stderr
    assert "rope_theta" in done.stderr
    assert not wrong.processes()


def test_a_wrong_verify_step_fails_on_fresh_boots(
    vllm_python: Path, tiny_models: Path, tmp_path: Path
) -> None:
    """A plugin accepts the first draft unseen; W, which drafts nothing, does not explain it."""
    workers = ["name: plain-0, profile: plain", "name: edit-0, profile: ngram"]
    wrong = make_fleet(tmp_path, vllm_python, tiny_models, workers)
    wrong.env |= {
        "PYTHONPATH": str(ROOT / "tests/vllm_fault"),
        "DRAFTGATE_TEST_FAULT": "accept_first",
    }
    with fleet_of(wrong):
        asked = ("--candidate", "edit-0", "--suites", "greedy", "--json")
        done = wrong.run("gate", str(wrong.file), *asked, timeout=800)
    assert done.returncode == 3, done.stdout + done.stderr
    trial = json.loads(done.stdout)[0]
    assert trial["wide_rate"]["forks"] == 0
    assert trial["kinds"]["wrong"] > 0
    certificate = next((tmp_path / "certificates").glob("*.json"))
    assert json.loads(certificate.read_text())["certificate"]["verdict"] == "fail"


def test_synthetic_acceptance_is_refused(
    vllm_python: Path, tiny_models: Path, tmp_path: Path
) -> None:
    workers = ["name: plain-0, profile: plain", "name: edit-0, profile: ngram"]
    fleet = make_fleet(tmp_path, vllm_python, tiny_models, workers)
    profile = tmp_path / "profiles" / "ngram.yaml"
    native = "engine: {vllm: {speculative_config: {rejection_sample_method: synthetic}}}\n"
    profile.write_text(profile.read_text() + native)
    done = fleet.run("check", str(fleet.file))
    assert done.returncode == 2
    path = "engine.vllm.speculative_config.rejection_sample_method"
    assert f"ngram.yaml:6:63: {path}: synthetic is lossy" in done.stdout
    assert fleet.run("up", str(fleet.file)).returncode == 2
    assert not fleet.processes()
