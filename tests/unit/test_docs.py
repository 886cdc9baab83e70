"""Documentation and schemas say what the code does: generated files are current, fields appear."""

import functools
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel

from adapters import profile as profile_module
from adapters.document import read_document
from adapters.metric import NAMES
from adapters.profile import Profile
from orchestrator import fleet as fleet_module
from orchestrator.cli import _COMMANDS
from orchestrator.errors import OrchestratorError
from orchestrator.fleet import Fleet
from scripts.generate import generated

ROOT = Path(__file__).parents[2]
PROFILES = sorted((ROOT / "profiles").glob("*.yaml"))
FLEETS = sorted(ROOT.glob("fleet*.yaml"))
MODELINE = "# yaml-language-server: $schema=./{}.schema.json\n"


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@functools.cache
def schema(name: str) -> Draft202012Validator:
    data: dict[str, Any] = json.loads(text_of(name))
    Draft202012Validator.check_schema(data)
    return Draft202012Validator(data)


def fields(module: Any, root: type[BaseModel]) -> Iterator[str]:
    """Names of all fields of the models that a module defines, the root's among them."""
    for model in [root, *vars(module).values()]:
        if isinstance(model, type) and issubclass(model, BaseModel):
            yield from model.model_fields


@pytest.mark.parametrize(("name", "text"), list(generated()), ids=lambda value: value[:28])
def test_generated_files_are_current(name: str, text: str) -> None:
    assert text_of(name) == text, "run python -m scripts.generate"


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.stem)
def test_shipped_profiles_validate_and_carry_the_modeline(path: Path) -> None:
    data = read_document(path).data
    assert list(schema("profiles/profile.schema.json").iter_errors(data)) == []
    assert path.read_text().startswith(MODELINE.format("profile"))
    assert data["profile"] == path.stem
    assert data["description"].endswith(".")


@pytest.mark.parametrize("path", FLEETS, ids=lambda path: path.stem)
def test_shipped_fleets_validate_and_carry_the_modeline(path: Path) -> None:
    assert list(schema("fleet.schema.json").iter_errors(read_document(path).data)) == []
    assert path.read_text().startswith(MODELINE.format("fleet"))


@pytest.mark.parametrize(
    "change",
    [
        {"profile": "Capital"},
        {"lossless": "off"},
        {"extra": 1},
        {"speculation": {"method": "ngramm", "gamma": 4}},
        {"speculation": {"method": "ngram", "gamma": 0}},
        {"speculation": {"method": "ngram"}},
        {"speculation": {"method": "none", "gamma": 4}},
        {"engine": {"vlm": {}}},
        {
            "speculation": {
                "method": "ngram",
                "gamma": 4,
                "schedule": [{"batch": "a", "gamma": 4}],
            }
        },
    ],
)
def test_editors_see_mistakes_by_the_schema(change: dict[str, Any]) -> None:
    data = {"profile": "p", "speculation": {"method": "none"}, **change}
    assert list(schema("profiles/profile.schema.json").iter_errors(data))


def undocumented(names: Iterable[str], page: str) -> set[str]:
    text = text_of(page)
    return {name for name in names if f"`{name}`" not in text}


def test_every_field_and_metric_is_documented() -> None:
    assert undocumented(fields(profile_module, Profile), "docs/profiles.md") == set()
    assert undocumented(fields(fleet_module, Fleet), "docs/fleet.md") == set()
    assert undocumented(NAMES, "docs/metrics.md") == set()


@pytest.mark.parametrize("name", sorted(_COMMANDS))
def test_every_command_is_documented_under_its_own_name(name: str) -> None:
    text = text_of("docs/cli.md")
    assert f"## draftgate {name}\n" in text
    assert f"Usage: draftgate {name} " in text


@pytest.mark.parametrize("kind", [OrchestratorError, *OrchestratorError.__subclasses__()])
def test_every_exit_code_is_documented(kind: type[OrchestratorError]) -> None:
    assert f"{kind.exit_code}  {kind.__name__}: " in text_of("docs/cli.md")


def test_every_exit_code_has_one_meaning() -> None:
    kinds: list[type[OrchestratorError]] = [
        OrchestratorError,
        *OrchestratorError.__subclasses__(),
    ]
    codes = [kind.exit_code for kind in kinds]
    assert sorted(codes) == list(range(1, len(kinds) + 1))


YAML_BLOCK = re.compile(r"^```ya?ml\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCKS = [
    (path.relative_to(ROOT).as_posix(), number, block)
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    for number, block in enumerate(YAML_BLOCK.findall(path.read_text(encoding="utf-8")))
]


@pytest.mark.parametrize(("name", "number", "block"), BLOCKS, ids=lambda v: str(v)[:20])
def test_whole_files_shown_in_the_docs_are_valid(
    name: str, number: int, block: str, tmp_path: Path
) -> None:
    """A block that starts with a profile's or a fleet's name is one; others are excerpts."""
    file = tmp_path / "shown.yaml"
    file.write_text(block, encoding="utf-8")
    document = read_document(file, f"{name}, block {number}")
    assert [str(p) for p in document.problems] == []
    data = document.data if isinstance(document.data, dict) else {}
    for key, at in (("profile", "profiles/profile.schema.json"), ("fleet", "fleet.schema.json")):
        if next(iter(data), None) == key:
            assert [e.message for e in schema(at).iter_errors(data)] == []


def test_every_module_has_its_line_in_structure() -> None:
    text = (ROOT / "docs" / "structure.md").read_text()
    modules = [*(ROOT / "adapters").rglob("*.py"), *(ROOT / "orchestrator").rglob("*.py")]
    modules += [*(ROOT / "scripts").glob("*.py"), *(ROOT / "tests").glob("*.py")]
    named = (m for m in modules if m.name != "__init__.py" and m.parent.name != "command")
    assert [m.name for m in named if f"{m.name}`" not in text] == []
