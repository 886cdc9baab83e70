"""Real vLLM for the tests: models of a config.json each, configurations resolved, servers started.

Versions beside the installed one have no environment of their own: their wheels are unpacked into
a folder and put before it. DRAFTGATE_VLLM_031 and DRAFTGATE_VLLM_033 name such folders, as
PYTHONPATH does (scripts/dump_vllm_flags.py says how); tests of these versions are skipped without.
"""

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from orchestrator.weights import cache_folder
from tests.harness import ROOT, free_port, until

INSTALLED = "0.32"
QUIET = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
    "OMP_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
}
SMALL = ("--dtype", "float32", "--enforce-eager", "--max-num-seqs", "16")
CONTEXT = 4096  # tokens, of the models that are only a config.json
_LAYERS = {"mask_token_id": 5, "target_layer_ids": [1, 3, 5]}
_MTP = {
    "architectures": ["Glm4MoeForCausalLM"],
    "model_type": "glm4_moe",
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 64,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "n_group": 1,
    "topk_group": 1,
    "routed_scaling_factor": 1.0,
    "partial_rotary_factor": 0.5,
    "norm_topk_prob": True,
    "use_qk_norm": False,
}
# What differs from the target's own config.json.
_CHANGES: Mapping[str, Mapping[str, Any]] = {
    "target": {},
    "draft": {"num_hidden_layers": 2},
    "other": {"num_hidden_layers": 2, "vocab_size": 768},
    "eagle": {"num_hidden_layers": 1},
    "eagle3": {
        "architectures": ["LlamaForCausalLMEagle3"],
        "num_hidden_layers": 1,
        "draft_vocab_size": 2048,
        "target_hidden_size": 128,
        "eagle_aux_hidden_state_layer_ids": [1, 3, 5],
    },
    "mtp": {**_MTP, "num_nextn_predict_layers": 1},
    "mtp2": {**_MTP, "num_nextn_predict_layers": 2},
    "dflash": {
        "architectures": ["DFlashDraftModel"],
        "model_type": "qwen3",
        "num_hidden_layers": 2,
        "block_size": 8,
        "dflash_config": _LAYERS,
    },
    "dspark": {
        "architectures": ["Qwen3DSparkModel"],
        "model_type": "qwen3",
        "num_hidden_layers": 2,
        "block_size": 7,
        "dflash_config": _LAYERS,
        "markov_rank": 16,
        "markov_head_type": "vanilla",
    },
}
_WHOLE: Mapping[str, Mapping[str, Any]] = {
    "medusa": {
        "medusa_num_heads": 3,
        "medusa_num_layers": 1,
        "hidden_size": 128,
        "vocab_size": 2048,
    },
    "mlp": {
        "architectures": ["MLPSpeculatorPreTrainedModel"],
        "model_type": "mlp_speculator",
        "vocab_size": 2048,
        "emb_dim": 128,
        "inner_dim": 128,
        "n_predict": 3,
        "num_attention_heads": 4,
        "num_hidden_layers": 1,
    },
}


def write_configs(folder: Path, target: Path) -> Path:
    """Models without weights: resolving a configuration reads config.json alone."""
    base = json.loads((target / "config.json").read_text())
    base["max_position_embeddings"] = CONTEXT
    configs = {name: {**base, **change} for name, change in _CHANGES.items()}
    for name, config in {**configs, **_WHOLE}.items():
        (folder / name).mkdir()
        (folder / name / "config.json").write_text(json.dumps(config))
    return folder


def placed(argv: Sequence[str], models: Path) -> list[str]:
    """`org/name`, as the cases say, in a folder of models."""
    return [re.sub(r"org/(\w+)", lambda m: str(models / m[1]), argument) for argument in argv]


def parser_environment(version: str) -> dict[str, str]:
    """What makes the environment's Python import that version; skips where it is not there."""
    if version == INSTALLED:
        return {}
    name = f"DRAFTGATE_VLLM_{version.replace('.', '')}"
    if not os.environ.get(name):
        pytest.skip(f"vLLM {version} is not here: {name} names no unpacked wheel")
    return {"PYTHONPATH": os.environ[name]}


def resolve(
    python: Path, version: str, cases: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """What tests/vllm_config.py says of each case, all in one process of that version."""
    # What vLLM remembers of a model class is by name: versions would overwrite each other's.
    cache = {"VLLM_CACHE_ROOT": str(cache_folder() / "tests" / f"vllm-{version}")}
    environment = {**os.environ, **QUIET, **cache, **parser_environment(version)}
    done = subprocess.run(
        [python, ROOT / "tests/vllm_config.py"],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"name"')]
    return {line.pop("name"): line for line in lines}


class Server:
    """One `api_server` process, its log and its address."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path, port: int):
        self.process, self.log = process, log
        self.url = f"http://127.0.0.1:{port}"

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def is_up(self) -> bool:
        try:
            return httpx.get(f"{self.url}/health").status_code == 200
        except httpx.HTTPError:
            return False

    def await_start(self, timeout_s: float = 120) -> bool:
        """Whether it came up; False where it ended instead."""
        until(lambda: self.has_ended or self.is_up(), "vLLM is up or has ended", timeout_s)
        return not self.has_ended


@contextmanager
def server(
    python: Path, model: Path, arguments: Sequence[str], folder: Path, env: Mapping[str, str]
) -> Iterator[Server]:
    """A server on a free port; the whole process group is gone afterwards."""
    port, log = free_port(), folder / "log.txt"
    argv = [str(python), "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)]
    argv += [*SMALL, "--max-model-len", "512", "--kv-cache-memory-bytes", "64M"]
    argv += ["--served-model-name", "tiny", "--port", str(port), *arguments]
    with log.open("wb") as output:
        process = subprocess.Popen(
            argv,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **QUIET, **env},
            start_new_session=True,
        )
    try:
        yield Server(process, log, port)
    finally:
        _end(process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)
