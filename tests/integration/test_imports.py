"""Importing draftgate imports no engine: each in an interpreter of its own."""

import subprocess
import sys

import pytest

from orchestrator.cli import _COMMANDS
from tests.harness import ROOT

ENGINES = ("torch", "vllm", "xllamacpp", "tensorrt_llm", "sglang", "transformers")
MODULES = ("adapters", "orchestrator.router", "orchestrator.app", "orchestrator.gate.trial")
LOOK = "import sys, {name}; print([m for m in {engines} if m in sys.modules])"


@pytest.mark.parametrize("name", [*MODULES, *(f"orchestrator.command.{c}" for c in _COMMANDS)])
def test_no_engine_is_imported(name: str) -> None:
    code = LOOK.format(name=name, engines=ENGINES)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout.strip() == "[]"
