"""The trained test models: their files are whole, and on real engines their guesses are right."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from adapters.llama_cpp import METRICS as LLAMA_CPP
from adapters.metric import read_metrics, read_positions
from adapters.vllm import METRICS as VLLM
from tests.harness import ROOT, TestFleet, fleet_of, free_port
from tests.models.to_gguf import write_gguf

MODELS = ROOT / "tests" / "models"
MOST_BYTES = 12_000_000
ENOUGH = 0.5
MANIFEST = json.loads((MODELS / "manifest.json").read_text())
GAMMA = {"draft_model": 4, "eagle3": 3}
DRAFTS = {"draft_model": "draft", "eagle3": "eagle3"}


def config_of(name: str) -> Any:
    return json.loads((MODELS / name / "config.json").read_text())


def vocabulary_of(name: str) -> Any:
    return json.loads((MODELS / name / "tokenizer.json").read_text())["model"]["vocab"]


def prompts() -> list[str]:
    lines = (MODELS / "held_out.jsonl").read_text().splitlines()
    return [json.loads(line)["prompt"] for line in lines]


def test_every_file_is_the_one_that_was_made() -> None:
    names = {Path(file).parts[0] for file in MANIFEST["files"]}
    found = {
        path.relative_to(MODELS).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for name in names
        for path in (MODELS / name).iterdir()
    }
    assert found == MANIFEST["files"]


def test_all_together_are_small() -> None:
    assert sum((MODELS / file).stat().st_size for file in MANIFEST["files"]) <= MOST_BYTES


def test_draft_and_heads_share_the_targets_tokens() -> None:
    for name in ("draft", "eagle3", "other_size_eagle3"):
        assert vocabulary_of(name) == vocabulary_of("target"), name


def test_mismatches_are_what_they_are_named_after() -> None:
    target = config_of("target")
    assert config_of("other_vocabulary")["vocab_size"] != target["vocab_size"]
    assert config_of("other_tokens")["vocab_size"] == target["vocab_size"]
    assert vocabulary_of("other_tokens") != vocabulary_of("target")
    assert config_of("other_size_eagle3")["target_hidden_size"] != target["hidden_size"]


def test_the_head_reads_three_of_the_targets_layers() -> None:
    head, target = config_of("eagle3"), config_of("target")
    layers = head["eagle_aux_hidden_state_layer_ids"]
    assert len(set(layers)) == 3
    assert max(layers) < target["num_hidden_layers"]
    assert head["target_hidden_size"] == target["hidden_size"]


def test_further_layers_fit_the_target() -> None:
    target = config_of("target")
    shape = ("hidden_size", "vocab_size")
    for name in ("medusa", "mtp"):
        assert [config_of(name)[key] for key in shape] == [target[key] for key in shape], name
    assert config_of("mtp")["num_nextn_predict_layers"] == 1


ENGINES = {
    "vllm": """
    args: {dtype: float32, enforce-eager: true, max-num-seqs: 4, kv-cache-memory-bytes: 64M}
    env:
      VLLM_ENABLE_V1_MULTIPROCESSING: "0"
      VLLM_CPU_OMP_THREADS_BIND: nobind
      VLLM_NO_USAGE_STATS: "1"
      OMP_NUM_THREADS: "1"
      NUMBA_NUM_THREADS: "1"
      HF_HUB_OFFLINE: "1"
""",
    "llama_cpp": """
    args: {threads: 1, parallel: 1, repack: false, flash-attn: "on"}
""",
}


def fleet_yaml(engine: str, command: str, target: str, drafts: dict[str, str]) -> str:
    workers = "\n".join(
        f"  - {{name: {name}-0, profile: {name}, model: tiny, engine: {engine},"
        f" port: {free_port()}}}"
        for name in ("plain", *drafts)
    )
    return f"""
fleet: models-{engine.replace("_", "-")}
models:
  tiny: {{target: {target}, context: 512, drafts: {json.dumps(drafts)}}}
engines:
  {engine}:
    command: {command}
    start_timeout_s: 300{ENGINES[engine]}
workers:
{workers}
types: [{{type: chat}}]
routes: {{chat: [draft_model, eagle3, plain]}}
gate: {{prompts: prompts.jsonl, min_tokens: 500, suites: [greedy, stream]}}
router: {{listen: "127.0.0.1:{free_port()}", admin: "127.0.0.1:{free_port()}"}}
"""


def make_fleet(folder: Path, yaml: str) -> TestFleet:
    (folder / "profiles").mkdir()
    for method, gamma in GAMMA.items():
        profile = f"profile: {method}\nspeculation: {{method: {method}, gamma: {gamma}}}\n"
        (folder / "profiles" / f"{method}.yaml").write_text(profile)
    lines = [json.dumps({"type": "chat", "prompt": prompt}) for prompt in prompts()]
    (folder / "prompts.jsonl").write_text("\n".join(lines))
    return TestFleet(folder, yaml)


@pytest.fixture(params=sorted(ENGINES))
def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, TestFleet]]:
    """plain, draft_model and eagle3 on one engine, up."""
    engine = str(request.param)
    if engine == "vllm":
        command = str(request.getfixturevalue("vllm_python"))
        files = {name: str(MODELS / name) for name in ("target", *DRAFTS.values())}
    else:
        command = "embedded"
        files = {name: str(tmp_path / f"{name}.gguf") for name in ("target", *DRAFTS.values())}
        for name, file in files.items():
            write_gguf(MODELS / name, Path(file))
    drafts = {method: files[name] for method, name in DRAFTS.items()}
    made = make_fleet(tmp_path, fleet_yaml(engine, command, files["target"], drafts))
    with fleet_of(made):
        made.up(timeout=600)
        yield engine, made


def ask(url: str, prompt: str) -> str:
    body = {"model": "tiny", "prompt": prompt, "max_tokens": 64, "temperature": 0}
    answer = httpx.post(f"{url}/v1/completions", json=body, timeout=60).raise_for_status()
    return str(answer.json()["choices"][0]["text"])


def first_position(metrics: str, engine: str) -> float:
    """Share of the drafts whose first token was accepted."""
    names = {"vllm": VLLM, "llama_cpp": LLAMA_CPP}[engine]
    positions = read_positions(metrics, names["accepted_per_position"])
    drafts = read_metrics(metrics, names)["drafts"]
    assert positions
    assert drafts
    return positions[0] / drafts


@pytest.mark.engine
@pytest.mark.timeout(600)
def test_drafters_are_right_about_held_out_text(fleet: tuple[str, TestFleet]) -> None:
    engine, made = fleet
    ports = {name.removesuffix("-0"): w["port"] for name, w in made.status()["workers"].items()}
    urls = {profile: f"http://127.0.0.1:{port}" for profile, port in ports.items()}
    plain = [ask(urls["plain"], prompt) for prompt in prompts()]
    for method in DRAFTS:
        assert [ask(urls[method], prompt) for prompt in prompts()] == plain, method
        metrics = httpx.get(f"{urls[method]}/metrics").text
        assert first_position(metrics, engine) >= ENOUGH, method
