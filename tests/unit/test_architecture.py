"""What holds between the modules: which way imports point, and what none of them may do."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from adapters import ADAPTERS

ROOT = Path(__file__).parents[2]
LONGEST = 350  # lines
FOLDERS = ("adapters", "orchestrator", "scripts")
MODULES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
ENGINES = re.compile(r"\b(vllm|sglang|tensorrt_llm|llama_cpp)\b", re.IGNORECASE)
HEAVY = {"torch", "vllm", "xllamacpp", "tensorrt_llm", "sglang", "transformers"}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


every_module = pytest.mark.parametrize("path", MODULES, ids=name_of)


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """Module and level of every import; the level of an absolute one is 0."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, 0) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "", node.level


def test_there_are_modules_to_look_at() -> None:
    assert len(MODULES) > 50


@every_module
def test_imports_point_one_way(path: Path) -> None:
    allowed = {
        "adapters": {"adapters"},
        "orchestrator": {"adapters", "orchestrator"},
        "scripts": {"adapters", "orchestrator", "scripts"},
    }[path.relative_to(ROOT).parts[0]]
    ours = {name.split(".")[0] for name, _ in imports(path)} & {*FOLDERS, "tests", "bench"}
    assert ours <= allowed


@pytest.mark.parametrize("path", [*MODULES, *TESTS], ids=name_of)
def test_imports_are_absolute(path: Path) -> None:
    assert [name for name, level in imports(path) if level] == []


@pytest.mark.parametrize("path", sorted((ROOT / "orchestrator").rglob("*.py")), ids=name_of)
def test_no_engine_is_named_outside_the_adapters(path: Path) -> None:
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
    assert [f"{number}: {line}" for number, line in lines if ENGINES.search(line)] == []


def test_an_engines_name_is_found_where_there_is_one() -> None:
    assert ENGINES.search('if engine == "vllm":')
    assert not ENGINES.search("llama_cpp_api_of_nobody")
    assert set(ADAPTERS) <= {"vllm", "sglang", "tensorrt_llm", "llama_cpp"}


@every_module
def test_every_module_says_why_it_exists(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    said = ast.get_docstring(tree)
    assert said or not tree.body
    assert len((said or "").splitlines()) <= 15


@pytest.mark.parametrize("path", TESTS, ids=name_of)
def test_every_test_file_says_what_it_is_about(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree) or not tree.body


@every_module
def test_modules_are_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST
