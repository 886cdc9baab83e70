"""What holds between the modules: which way imports point, and what none of them may do."""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

from adapters import ADAPTERS
from tests.unit.parsed import parsed

ROOT = Path(__file__).parents[2]
LONGEST = 350  # lines
LONGEST_DOCSTRING = 15
FOLDERS = ("adapters", "orchestrator", "scripts")
MODULES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
ENGINES = re.compile(r"\b(vllm|sglang|tensorrt_llm|llama_cpp)\b", re.IGNORECASE)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """All below the node; no import stands in an expression."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield child
            yield from statements(child)


@functools.cache
def imports(path: Path) -> tuple[tuple[str, int], ...]:
    """Module and level of every import; the level of an absolute one is 0."""
    found: list[tuple[str, int]] = []
    for node in statements(parsed(path)):
        if isinstance(node, ast.Import):
            found += [(alias.name, 0) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append((node.module or "", node.level))
    return tuple(found)


def test_there_are_modules_to_look_at() -> None:
    assert len(MODULES) > 50


def test_imports_point_one_way() -> None:
    allowed = {
        "adapters": {"adapters"},
        "orchestrator": {"adapters", "orchestrator"},
        "scripts": {"adapters", "orchestrator", "scripts"},
    }
    for path in MODULES:
        ours = {name.split(".")[0] for name, _ in imports(path)} & {*FOLDERS, "tests", "bench"}
        assert ours <= allowed[path.relative_to(ROOT).parts[0]], path


def test_imports_are_absolute() -> None:
    """But for the package that engines load: it has one name there and another one in tests."""
    relative = [
        (name_of(p), name)
        for p in [*MODULES, *TESTS]
        if "vllm_fault" not in p.parts
        for name, level in imports(p)
        if level
    ]
    assert relative == []


def test_no_engine_is_named_outside_the_adapters() -> None:
    found = [
        f"{name_of(path)}:{number}: {line}"
        for path in (ROOT / "orchestrator").rglob("*.py")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if ENGINES.search(line)
    ]
    assert found == []


def test_an_engines_name_is_found_where_there_is_one() -> None:
    assert ENGINES.search('if engine == "vllm":')
    assert not ENGINES.search("llama_cpp_api_of_nobody")
    assert set(ADAPTERS) <= {"vllm", "sglang", "tensorrt_llm", "llama_cpp"}


def test_every_module_and_test_file_says_why_it_exists() -> None:
    documents = {path: ast.get_docstring(parsed(path)) for path in [*MODULES, *TESTS]}
    assert [name_of(p) for p, said in documents.items() if not said and parsed(p).body] == []
    long = [p for p in MODULES if len((documents[p] or "").splitlines()) > LONGEST_DOCSTRING]
    assert [name_of(p) for p in long] == []


def test_modules_are_short() -> None:
    lengths = {name_of(p): len(p.read_text(encoding="utf-8").splitlines()) for p in MODULES}
    assert {name: length for name, length in lengths.items() if length > LONGEST} == {}
