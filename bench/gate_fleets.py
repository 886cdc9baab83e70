"""The fleets of docs/gate-faults.md's table of engines that are right, written to a folder.

    python -m bench.gate_fleets FOLDER llama_cpp
    python -m bench.gate_fleets FOLDER vllm --python .venv-vllm/bin/python

Every way of speculating with the small trained models of tests/models beside plain, 14 prompts, no
two workers on one port. `bench/gate_healthy.py FOLDER/fleet.yaml` runs the gate on it.
"""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path

from tests.harness import ROOT, free_port
from tests.integration.llama_server import tiny_weights
from tests.vllm_fleet import CONTEXT, LENGTH, PROMPTS, engine_yaml, write_profile

HELD_OUT = 8  # prompts of tests/models/held_out.jsonl, beside those of tests/vllm_fleet.py
SCHEDULE = "schedule: [{batch: 1-2, gamma: 4}, {batch: 3, gamma: 2}, {batch: 4+, gamma: 0}]"
PROFILES: Mapping[str, Mapping[str, str]] = {
    "llama_cpp": {
        "ngram": "method: ngram\ngamma: 6\nlookup: {min: 2, max: 2}",
        "draft_model": "method: draft_model\ngamma: 4",
        "eagle3": "method: eagle3\ngamma: 3",
    },
    "vllm": {
        "ngram": "method: ngram\ngamma: 4\nlookup: {min: 2, max: 4}",
        "draft_model": "method: draft_model\ngamma: 4",
        "eagle3": "method: eagle3\ngamma: 4",
        "suffix": "method: suffix\ngamma: 4",
        "scheduled": f"method: draft_model\ngamma: 4\n{SCHEDULE}",
    },
}
# One request at a time, and kernels that do not depend on the number of rows.
LLAMA = """
engines:
  llama_cpp:
    command: embedded
    args: {threads: 1, parallel: 1, repack: false, flash-attn: "on"}
    start_timeout_s: 300
"""
# What it fails is in docs/gate-faults.md.
VLLM_SUITES = ", suites: [greedy, loaded, turns, long, limits, stream, json, penalties]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("engine", choices=sorted(PROFILES))
    parser.add_argument("--python", type=Path, help="the python that has vLLM")
    asked = parser.parse_args()
    if asked.engine == "vllm" and asked.python is None:
        parser.error("vllm needs --python")
    asked.folder.mkdir(parents=True, exist_ok=True)
    for name, speculation in PROFILES[asked.engine].items():
        write_profile(asked.folder, name, speculation)
    write_prompts(asked.folder)
    if asked.engine == "vllm":
        text = fleet_yaml("vllm", tiny_models(), engine_yaml(asked.python.absolute()), VLLM_SUITES)
    else:
        text = fleet_yaml("llama_cpp", tiny_weights(asked.folder), LLAMA)
    (asked.folder / "fleet.yaml").write_text(text)


def tiny_models() -> Mapping[str, Path]:
    """As folders, by name."""
    return {name: ROOT / "tests/models" / name for name in ("target", "draft", "eagle3")}


def write_prompts(folder: Path) -> None:
    """`prompts.jsonl`."""
    lines = (ROOT / "tests/models/held_out.jsonl").read_text().splitlines()[:HELD_OUT]
    texts = [*PROMPTS, *(json.loads(line)["prompt"] for line in lines)]
    data = [{"type": "chat", "prompt": text, "max_tokens": LENGTH} for text in texts]
    (folder / "prompts.jsonl").write_text("\n".join(map(json.dumps, data)))


def fleet_yaml(engine: str, models: Mapping[str, Path], engines: str, gate: str = "") -> str:
    """A plain worker and one of each profile."""
    names = ("plain", *PROFILES[engine])
    shared = f"model: tiny, engine: {engine}"
    workers = "\n".join(
        f"  - {{name: {name}-0, profile: {name}, {shared}, port: {free_port()}}}" for name in names
    )
    return f"""fleet: {engine}-gate
models:
  tiny:
    target: {models["target"]}
    context: {CONTEXT}
    drafts: {{draft_model: {models["draft"]}, eagle3: {models["eagle3"]}}}
{engines}
workers:
{workers}
gate: {{prompts: prompts.jsonl, min_tokens: 200{gate}}}
"""


if __name__ == "__main__":
    main()
