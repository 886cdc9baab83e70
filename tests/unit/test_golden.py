"""Each golden file: a profile, a line of dashes, and the launch (or the errors) it comes to.

Adding a case is adding a file that ends with the dashes and running with --update-golden.
"""

import shlex
from pathlib import Path
from typing import Any

import pytest

from adapters import ADAPTERS
from adapters.document import parse_document
from adapters.embedded.flag import parse
from adapters.flag import load_flags
from adapters.launch import Model, WorkerSpec
from adapters.profile import Profile
from adapters.reading import read_model, with_problems
from adapters.schedule import profile_problems

GOLDEN = Path(__file__).parent.parent / "golden"
DASHES = "-" * 10 + "\n"
CASES = sorted(GOLDEN.glob("*/*.txt"))
# How many requests at once: the options that schedules and budgets look at.
ARGS: dict[str, dict[str, Any]] = {
    "llama_cpp": {"parallel": 2},
    "sglang": {"max-running-requests": 64},
    "tensorrt_llm": {"max_batch_size": 64},
    "vllm": {"max-num-seqs": 64},
}


def worker(engine: str, version: str) -> WorkerSpec:
    drafts = {"draft_model": "/models/draft.gguf", "eagle3": "/models/eagle3.gguf"}
    return WorkerSpec(
        name="worker-0",
        engine_version=version,
        command=(ADAPTERS[engine].COMMANDS[0],),
        model=Model("small", "/models/target.gguf", 4096, drafts),
        port=8000,
        gpus=(0,),
        args=ARGS[engine],
    )


def outcome(engine: str, version: str, yaml: str) -> str:
    """Problems in file order, then the launch where they permit one."""
    reading = read_model(parse_document(yaml, "profile.yaml"), Profile)
    profile, adapter = reading.value, ADAPTERS[engine]
    if profile is not None:
        found = profile_problems(profile) + adapter.check(profile, worker(engine, version))
        reading = with_problems(reading, found)
    text = "".join(
        f"{'warning' if not p.is_fatal else 'error'}: {p}\n"
        for p in sorted(reading.problems, key=lambda p: (str(p.place), p.message))
    )
    if profile is not None and reading.is_usable:
        text += adapter.render(profile, worker(engine, version)).text()
    return text


@pytest.mark.parametrize("case", CASES, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_golden(case: Path, request: pytest.FixtureRequest) -> None:
    engine, _, version = case.parent.name.rpartition("-")
    profile, _, expected = case.read_text().partition(DASHES)
    seen = outcome(engine, version, profile)
    if request.config.getoption("--update-golden"):
        case.write_text(profile + DASHES + seen)
    else:
        assert seen == expected


def test_every_dialect_has_goldens() -> None:
    folders = {f"{name}-{d.name}" for name, a in ADAPTERS.items() for d in a.SUPPORTED}
    assert folders == {folder.name for folder in GOLDEN.iterdir()}


# After the arguments: variables, files with their indented lines, the largest batch.
NO_ARGUMENT = ("env ", "file ", "  ", "batch-limit ")


class FullDisk:
    """A disk on which every path is a file."""

    def read(self, path: str) -> str:
        return ""

    def is_file(self, path: str) -> bool:
        return True

    def is_directory(self, path: str) -> bool:
        return True


def arguments(case: Path) -> list[str]:
    """The golden's arguments after the program; empty where it ends in errors."""
    lines = case.read_text().partition(DASHES)[2].splitlines()
    program = ADAPTERS[case.parent.name.rpartition("-")[0]].COMMANDS[0]
    if program not in lines:
        return []
    rest = lines[lines.index(program) + 1 :]
    return [shlex.split(line)[0] for line in rest if not line.startswith(NO_ARGUMENT)]


@pytest.mark.parametrize("folder", sorted(GOLDEN.iterdir()), ids=lambda p: p.name)
def test_every_option_is_the_engines_own(folder: Path) -> None:
    engine, _, version = folder.name.rpartition("-")
    table = load_flags(engine, version)
    given = {
        (case.stem, argument)
        for case in CASES
        if case.parent == folder
        for argument in arguments(case)
        if argument.startswith("--")
    }
    assert given
    assert {(case, argument) for case, argument in given if not table.find(argument)} == set()


LLAMA_CASES = [c for c in CASES if c.parent.name.startswith("llama_cpp-") and arguments(c)]


@pytest.mark.parametrize("case", LLAMA_CASES, ids=lambda p: p.stem)
def test_the_embedded_server_takes_the_same_arguments(case: Path) -> None:
    parsed = parse(arguments(case), {}, FullDisk())
    assert parsed.action == "serve"
