"""What fleets of real vLLM have in common in the tests: the engine, and what it is asked."""

import json
from pathlib import Path

PROMPTS = (
    "The river runs past the mill and the mill runs",
    "one two three four one two three four one two",
    "def add(a, b):\n    return a + b\n\ndef sub(a, b):\n    return",
    "The name of the town is",
    "red green blue red green blue red",
    "A list of words: apple, pear, plum, apple,",
)
LENGTH = 48  # tokens of each answer
CONTEXT = 512  # tokens


def has_fp8() -> bool:
    """Whether this processor can hold vLLM's KV cache in fp8: without these, the first request ends
    the engine ("Unsupported CPU attention configuration", 0.32.0)."""
    flags = Path("/proc/cpuinfo").read_text()
    return "avx512f" in flags or "amx_tile" in flags


def engine_yaml(python: Path, env: str = "") -> str:
    """`engines:` of a fleet file; `env` is one more line for the workers' environment."""
    return f"""
engines:
  vllm:
    command: {python}
    args: {{dtype: float32, enforce-eager: true, max-num-seqs: 4, kv-cache-memory-bytes: 64M}}
    env:
      VLLM_ENABLE_V1_MULTIPROCESSING: "0"
      VLLM_CPU_OMP_THREADS_BIND: nobind
      VLLM_NO_USAGE_STATS: "1"
      OMP_NUM_THREADS: "1"
      NUMBA_NUM_THREADS: "1"
      HF_HUB_OFFLINE: "1"
      {env}
    start_timeout_s: 300
"""


def write_profile(folder: Path, name: str, speculation: str) -> None:
    """`speculation` has a key a line."""
    profiles = folder / "profiles"
    profiles.mkdir(exist_ok=True)
    keys = "".join(f"  {line}\n" for line in speculation.splitlines())
    (profiles / f"{name}.yaml").write_text(f"profile: {name}\nspeculation:\n{keys}")


def write_prompts(folder: Path) -> None:
    """`prompts.jsonl`, for the gate."""
    lines = [{"type": "chat", "prompt": text, "max_tokens": LENGTH} for text in PROMPTS]
    (folder / "prompts.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
