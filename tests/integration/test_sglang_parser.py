"""What SGLang's own parser and resolver make of our launches, and of what we refuse.

They run on a CPU, told that the device is a GPU; no engine starts. Which goldens and refusals are
tried follows from the version that is installed: scripts/setup --sglang installs the newest known.
"""

import json
import os
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from adapters.dialect import choose_dialect
from adapters.flag import load_flags
from adapters.sglang.given import SUPPORTED
from tests.conftest import ROOT
from tests.unit import refusal
from tests.unit.refusal import Case

DASHES = "-" * 10 + "\n"
# Placeholders of goldens and refusal cases, and the tiny models that stand in for them.
MODELS = {
    "/models/target.gguf": "target",
    "/models/draft.gguf": "draft",
    "/models/eagle3.gguf": "eagle3",
    "org/target": "target",
    "org/draft": "draft",
    "org/other": "other_vocabulary",
    "org/eagle3": "eagle3",
    "org/eagle": "draft",
    "org/dflash": "draft",
    "org/dspark": "draft",
}
CONTEXT = "512"
# NEXTN is an alias.
RESOLVED = {"NEXTN": "EAGLE"}

pytestmark = pytest.mark.engine


class Engine:
    """SGLang's parser and resolver, asked in one process for many argument lists."""

    def __init__(self, python: Path, models: Path, files: Path) -> None:
        folder = os.environ.get("DRAFTGATE_SGLANG") or str(ROOT / ".sglang")
        if not Path(folder.split(os.pathsep)[0]).is_dir():
            pytest.fail(f"{folder} is not there: run scripts/setup --sglang")
        self.python, self.models, self.files = python, models, files
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join((folder, str(ROOT))),
            "HF_HUB_OFFLINE": "1",
        }
        self.version = self.run(
            "-c", "from importlib.metadata import version as v; print(v('sglang'))", ""
        )
        self.dialect = choose_dialect(SUPPORTED, self.version.strip())[0].name

    def run(self, *arguments: str) -> str:
        """Standard output; the last argument is standard input."""
        done = subprocess.run(
            [self.python, *arguments[:-1]],
            input=arguments[-1],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=280,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    def resolve(self, asked: Mapping[str, list[str]]) -> dict[str, Any]:
        told = self.run(str(ROOT / "tests/sglang_resolve.py"), json.dumps(asked))
        answers: dict[str, Any] = json.loads(told)
        return answers

    def argv(self, case: str, words: list[str], files: Mapping[str, str]) -> list[str]:
        """With the tiny models and the case's files in place of what stands for them."""
        folder = self.files / case
        for name, text in files.items():
            folder.mkdir(exist_ok=True)
            (folder / name).write_text(text)
        placed = [str(self.models / MODELS[w]) if w in MODELS else w for w in words]
        placed = [word.replace("@files", str(folder)) for word in placed]
        if "--context-length" in placed:  # the tiny models have a short one, and it is checked
            placed[placed.index("--context-length") + 1] = CONTEXT
        if "--model-path" not in placed:
            placed = ["--model-path", str(self.models / "target"), *placed]
        return placed if "--device" in placed else [*placed, "--device", "cuda"]


@pytest.fixture(scope="module")
def engine(
    vllm_python: Path, tiny_models: Path, tmp_path_factory: pytest.TempPathFactory
) -> Engine:
    return Engine(vllm_python, tiny_models, tmp_path_factory.mktemp("files"))


@pytest.fixture(scope="module")
def answers(engine: Engine) -> dict[str, Any]:
    """To all goldens and refusal cases of the installed version, in one process."""
    asked = {f.stem: engine.argv(f.stem, *launch(f)) for f in goldens(engine)}
    for stage in ("config", "silent"):
        for name, case in shown(engine, stage).items():
            files: Mapping[str, str] = case.shown.get("files", {})
            asked[f"{stage} {name}"] = engine.argv(name, case.shown["argv"], files)
    return engine.resolve(asked)


def launch(file: Path) -> tuple[list[str], dict[str, str]]:
    """A golden's arguments after `serve`, and its files; nothing where it ends in errors."""
    lines = file.read_text().partition(DASHES)[2].splitlines()
    if "serve" not in lines:
        return [], {}
    lines = lines[lines.index("serve") + 1 :]
    words, files, name = [], {}, ""
    for line in lines:
        if line.startswith("file "):
            name = line.removeprefix("file ")
            files[name] = ""
        elif name:
            files[name] += line.removeprefix("  ") + "\n"
        elif not line.startswith(("env ", "batch-limit ")):
            words.append(shlex.split(line)[0])
    return words, files


def options(words: list[str], dialect: str) -> Iterator[tuple[str, Any]]:
    """What was written for speculation, by the names of SGLang's fields."""
    table = load_flags("sglang", dialect)
    starts = [i for i, word in enumerate(words) if word.startswith("--")]
    for start, end in zip(starts, [*starts[1:], len(words)], strict=True):
        flag = table.find(words[start])
        assert flag is not None, words[start]
        values = words[start + 1 : end]
        field = flag.name.replace("-", "_")
        if field.startswith(("speculative_", "max_running", "cuda_graph_bs")):
            yield field, True if flag.kind == "switch" else " ".join(values)


def as_text(value: Any) -> Any:
    if isinstance(value, list):
        return " ".join(map(str, value))
    return value if isinstance(value, bool) or value is None else str(value)


def test_every_golden_launch_is_resolved_as_it_was_written(
    engine: Engine, answers: dict[str, Any]
) -> None:
    """No number, path or algorithm is rewritten: we said what the engine would do."""
    files = goldens(engine)
    assert len(files) >= 7
    assert {f.stem: answers[f.stem] for f in files if "error" in answers[f.stem]} == {}
    for file in files:
        for field, value in options(engine.argv(file.stem, *launch(file)), engine.dialect):
            found = as_text(answers[file.stem]["resolved"].get(field))
            assert found == RESOLVED.get(value, value), (file.stem, field)


def test_speculation_is_never_on_where_it_was_not_asked_for(answers: dict[str, Any]) -> None:
    assert answers["none"]["resolved"]["speculative_algorithm"] is None


def goldens(engine: Engine) -> list[Path]:
    """Those that end in a launch."""
    folder = ROOT / f"tests/golden/sglang-{engine.dialect}"
    return [file for file in sorted(folder.glob("*.txt")) if launch(file)[0]]


def shown(engine: Engine, stage: str) -> dict[str, Case]:
    found = refusal.cases(f"sglang-{engine.dialect}")
    return {case.file.stem: case for case in found if case.shown["stage"] == stage}


def test_the_engine_refuses_what_we_say_it_refuses(engine: Engine, answers: dict[str, Any]) -> None:
    cases = shown(engine, "config")
    told = {name: answers[f"config {name}"] for name in cases}
    assert {name: answer for name, answer in told.items() if "error" not in answer} == {}
    text = {name: f"{answer['error']}: {answer['message']}" for name, answer in told.items()}
    assert {n: text[n] for n, case in cases.items() if case.shown["says"] not in text[n]} == {}


def test_the_engine_takes_in_silence_what_we_say_it_does(
    engine: Engine, answers: dict[str, Any]
) -> None:
    """`says` is a field of the resolved settings and its value, which nobody asked for."""
    cases = shown(engine, "silent")
    told = {name: answers[f"silent {name}"] for name in cases}
    assert {name: answer for name, answer in told.items() if "error" in answer} == {}
    for name, case in cases.items():
        field, _, value = case.shown["says"].partition("=")
        assert str(told[name]["resolved"][field]) == value, (name, field)


def without_source(table: str) -> list[str]:
    return [line for line in table.splitlines() if not line.startswith('"source"')]


def test_the_option_table_is_what_the_installed_parser_gives(engine: Engine) -> None:
    stored = (ROOT / f"adapters/flags/sglang-{engine.dialect}.json").read_text("utf-8")
    if json.loads(stored)["version"] != engine.version.strip():
        pytest.skip(f"the table is of another version than {engine.version.strip()}")
    dumped = engine.run(str(ROOT / "scripts/dump_sglang_flags.py"), "")
    assert without_source(dumped) == without_source(stored)
