"""docs/problems.md has a section for every code in the source, and for no other."""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.parsed import parsed

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "problems.md").read_text(encoding="utf-8")
CODE = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
WIDEST = 100  # columns
CODE_OF_PROBLEM = 4  # position of `code` among Problem's arguments


def codes_in(tree: ast.Module) -> Iterator[str]:
    """Every text that can become a problem's code: given by name, by place, or by way of a name."""
    places = {"Problem": CODE_OF_PROBLEM, **dict(code_parameters(tree))}
    constants = dict(named_constants(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign) and "code" in assigned(node):
            yield from texts(node.value, constants)
        if isinstance(node, ast.FunctionDef):
            yield from texts(code_default(node), constants)
        if isinstance(node, ast.Call):
            yield from (
                text
                for keyword in node.keywords
                if keyword.arg == "code"
                for text in texts(keyword.value, constants)
            )
            at = places.get(called(node))
            if at is not None and at < len(node.args):
                yield from texts(node.args[at], constants)


def code_parameters(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Functions that take a code, and at which place."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            names = [a.arg for a in node.args.args if a.arg != "self"]
            if "code" in names:
                yield node.name, names.index("code")


def code_default(node: ast.FunctionDef) -> ast.expr | None:
    """The default of a function's parameter `code`."""
    with_default = node.args.args[len(node.args.args) - len(node.args.defaults) :]
    pairs = [
        *zip(with_default, node.args.defaults, strict=True),
        *zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True),
    ]
    return next((default for argument, default in pairs if argument.arg == "code"), None)


def named_constants(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            yield from ((name, node.value) for name in assigned(node))


def assigned(node: ast.Assign | ast.AnnAssign) -> set[str]:
    """Names that a statement assigns to, also several at once."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return {n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)}


def called(node: ast.Call) -> str:
    function = node.func
    if isinstance(function, ast.Name):
        return function.id
    return function.attr if isinstance(function, ast.Attribute) else ""


def texts(node: ast.expr | None, constants: dict[str, ast.expr]) -> Iterator[str]:
    """The literal texts of an expression that look like codes; a module's constant is looked up."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str) and CODE.fullmatch(node.value):
            yield node.value
    elif isinstance(node, ast.IfExp):
        yield from texts(node.body, constants)
        yield from texts(node.orelse, constants)
    elif isinstance(node, ast.Name) and node.id in constants:
        yield from texts(constants[node.id], {})
    elif isinstance(node, ast.Tuple):
        yield from (text for part in node.elts for text in texts(part, constants))


def used() -> dict[str, set[str]]:
    """Codes, and the modules that use them."""
    found: dict[str, set[str]] = {}
    for folder in ("adapters", "orchestrator"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for code in codes_in(parsed(path)):
                found.setdefault(code, set()).add(path.relative_to(ROOT).as_posix())
    return found


USED = used()
SECTIONS: dict[str, str] = dict(
    re.findall(r"^### `([^`\n]+)`\n(.*?)(?=^#|\Z)", PAGE, re.MULTILINE | re.DOTALL)
)


def test_every_code_has_its_section_and_every_section_its_code() -> None:
    assert {code: USED[code] for code in USED.keys() - SECTIONS.keys()} == {}
    assert SECTIONS.keys() - USED.keys() == set()


def test_a_section_shows_the_message_and_says_cause_fix_and_source() -> None:
    for code, text in SECTIONS.items():
        shown = re.search(r"^```text\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        assert shown, code
        assert f"[{code}]" in shown[1]
        for part in ("Cause", "Fix", "Source"):
            assert re.search(rf"^\*\*{part}\.\*\* \S", text, re.MULTILINE), (code, part)


def test_codes_are_seen_without_scrolling() -> None:
    for code, text in SECTIONS.items():
        shown = re.search(r"^```text\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        assert shown, code
        assert max(len(line) for line in shown[1].splitlines()) <= WIDEST, code


def test_no_line_of_a_paragraph_is_a_heading() -> None:
    """Some readers of Markdown take `#1234` at the start of a line for one."""
    assert re.findall(r"^#+[^# ].*", PAGE, re.MULTILINE) == []


def test_the_index_leads_to_every_section_once() -> None:
    index = PAGE.partition("\n## ")[0]
    links = re.findall(r"\[`([^`]+)`\]\(#([^)]+)\)", index)
    assert [name for name, _ in links] == list(SECTIONS)
    assert all(name == anchor for name, anchor in links)


def test_the_index_has_every_subject() -> None:
    index, subjects = PAGE.partition("\n## ")[0], re.findall(r"^## (.+)$", PAGE, re.MULTILINE)
    assert [s for s in subjects if f"**{s}**" not in index] == []


@pytest.mark.parametrize("folder", ["golden", "refusals"])
def test_every_code_of_the_cases_has_its_section(folder: str) -> None:
    """What is really told, whichever way a code came about."""
    told = set()
    for path in (ROOT / "tests" / folder).rglob("*.txt"):
        outcome = path.read_text(encoding="utf-8").partition("\n----------\n")[2]
        told |= set(re.findall(r"\[([a-z][a-z0-9-]*)\]$", outcome, re.MULTILINE))
    assert told - set(SECTIONS) == set()


@pytest.mark.parametrize(
    ("source", "codes"),
    [
        ('Problem((), "m", code="a-b")', ["a-b"]),
        ('Problem((), "m", "h", "warning", "a-b")', ["a-b"]),
        ('NAME = "a-b"\nProblem((), "m", code=NAME)', ["a-b"]),
        ('code = "a" if x else "b"', ["a", "b"]),
        ('hint, code = "a hint", "a-b"', ["a-b"]),
        ('def p(path, code): pass\np((), "a-b")', ["a-b"]),
        ('def p(self, code): pass\nself.p("a-b")', ["a-b"]),
        ('def p(path, code="a-b"): pass', ["a-b"]),
        ('def p(path, *, code="a-b"): pass', ["a-b"]),
        ('Problem((), "m", code=f"{x}")', []),
        ('x = "no-code"', []),
    ],
)
def test_codes_are_found_however_they_are_given(source: str, codes: list[str]) -> None:
    assert list(codes_in(ast.parse(source))) == codes


# The messages shown are the source's own.

SHORTEST = 8  # letters of a template's own, without which anything would match it


Pieces = tuple[str | None, ...]  # of a text: literal ones, and None for a value


@functools.cache
def templates(file: Path) -> tuple[Pieces, ...]:
    """Every text of a module that has words of its own."""
    found = (tuple(pieces(node)) for node in ast.walk(parsed(file)))
    return tuple(t for t in found if sum(len(p) for p in t if p is not None) >= SHORTEST)


def is_made_by(message: str, template: Pieces) -> bool:
    """With anything where the template puts a value in."""
    words = [part for part in template if part is not None]
    if not all(part in message for part in words):  # most templates, and cheaper than a pattern
        return False
    pattern = "".join(".+?" if part is None else re.escape(part) for part in template)
    return re.search(pattern, message) is not None


def pieces(node: ast.AST) -> Iterator[str | None]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        for part in node.values:
            yield str(part.value) if isinstance(part, ast.Constant) else None


def templates_of(name: str) -> Iterator[Pieces]:
    """Of a module, and of those beside it in an engine's package: some keep their words apart."""
    module = ROOT / name
    is_package = module.parent.name not in ("adapters", "orchestrator")
    files = sorted(module.parent.glob("*.py")) if is_package else [module]
    for file in files:
        yield from templates(file)


def unwrapped(text: str) -> str:
    return " ".join(line.strip() for line in text.splitlines())


@pytest.mark.parametrize("code", sorted(set(SECTIONS) & set(USED)))
def test_the_message_shown_is_one_that_the_source_makes(code: str) -> None:
    shown = re.search(r"^```text\n(.*?)^```", SECTIONS[code], re.MULTILINE | re.DOTALL)
    assert shown
    message = unwrapped(shown[1]).partition(f" [{code}]")[0]
    assert any(is_made_by(message, t) for name in USED[code] for t in templates_of(name)), message
