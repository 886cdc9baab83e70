"""What draftgate refuses for vLLM, shown on vLLM itself: each case by the stage that it names.

config: its own parser or configuration classes refuse the command line, with `says` in the text.
start: it takes the configuration and dies while starting. request: it is healthy, and the first
drafted request fails. silent: it takes it without a word, and `says` is what became of it.
"""

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from adapters import vllm
from tests.unit.refusal import Case, cases
from tests.vllm_driver import CONTEXT, SMALL, Server, placed, resolve, server, write_configs

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]

VERSIONS = ("0.31", "0.32", "0.33")
# One allowed token makes the answer repeat itself, so that every lookup has something to guess.
BODY = {
    "model": "tiny",
    "prompt": [5] * 24,
    "max_tokens": 48,
    "allowed_token_ids": [5],
    "ignore_eos": True,
    "temperature": 1,
}


def own(version: str) -> list[Case]:
    """Without those of target and draft, which are no matter of the adapter."""
    return [c for c in cases(f"vllm-{version}") if not c.file.stem.startswith("pairing-")]


def of_stage(version: str, *stages: str) -> list[Case]:
    found = own(version)
    return [c for c in found if c.shown["stage"] in stages and c.shown.get("look") != "metrics"]


@pytest.fixture(scope="module")
def configs(tiny_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_configs(tmp_path_factory.mktemp("configs"), tiny_models / "target")


def request_of(case: Case, configs: Path, file: Path) -> dict[str, Any]:
    """The case's command line, with the models and the file that it means."""
    shown = case.shown
    if "file" in shown:
        file.write_text(shown["file"])
    arguments = [argument.replace("@file", str(file)) for argument in shown["argv"]]
    argv = [str(configs / shown.get("target", "target")), *SMALL, "--skip-tokenizer-init"]
    argv += ["--max-model-len", str(CONTEXT), *placed(arguments, configs)]
    return {"argv": argv, "env": shown.get("env", {}), "serve": shown.get("serve", False)}


@pytest.fixture(scope="module")
def answers(
    vllm_python: Path, configs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, Mapping[str, Any]]:
    """What each installed version makes of its cases, resolved as they are asked for."""
    return Answers(vllm_python, configs, tmp_path_factory.mktemp("files"))


class Answers(dict[str, Mapping[str, Any]]):
    """By case; a version's cases are all resolved in one process when the first is asked for."""

    def __init__(self, python: Path, configs: Path, files: Path):
        super().__init__()
        self.python, self.configs, self.files = python, configs, files

    def __missing__(self, name: str) -> Mapping[str, Any]:
        version = name.partition("/")[0].removeprefix("vllm-")
        asked = {
            case.name: request_of(case, self.configs, self.files / f"{case.file.stem}.yaml")
            for case in of_stage(version, "config", "silent")
        }
        self.update(resolve(self.python, version, asked))
        return self[name]


ALL = [case for version in VERSIONS for case in of_stage(version, "config")]
SILENT = [case for version in VERSIONS for case in of_stage(version, "silent")]


@pytest.mark.parametrize("case", ALL, ids=lambda c: c.name)
def test_its_configuration_refuses(case: Case, answers: Mapping[str, Mapping[str, Any]]) -> None:
    answer = answers[case.name]
    assert answer["refused"], f"taken: {answer}"
    assert case.shown["says"] in answer["refused"] + answer["said"]


@pytest.mark.parametrize("case", SILENT, ids=lambda c: c.name)
def test_it_takes_it_and_does_something_else(
    case: Case, answers: Mapping[str, Mapping[str, Any]]
) -> None:
    answer = answers[case.name]
    assert answer["refused"] is None
    assert case.shown["says"] in json.dumps(answer["resolved"]) + answer["said"]


STARTS = of_stage("0.32", "start")
REQUESTS = of_stage("0.32", "request")


@pytest.mark.parametrize("case", STARTS, ids=lambda c: c.name)
def test_it_dies_while_starting(
    case: Case, vllm_python: Path, tiny_models: Path, tmp_path: Path
) -> None:
    arguments, env = placed(case.shown["argv"], tiny_models), case.shown.get("env", {})
    with server(vllm_python, tiny_models / "target", arguments, tmp_path, env) as started:
        assert not started.await_start()
        assert case.shown["says"] in started.log.read_text()


@pytest.mark.parametrize("case", REQUESTS, ids=lambda c: c.name)
def test_it_fails_at_the_first_drafted_request(
    case: Case, vllm_python: Path, tiny_models: Path, tmp_path: Path
) -> None:
    arguments, env = placed(case.shown["argv"], tiny_models), case.shown.get("env", {})
    with server(vllm_python, tiny_models / "target", arguments, tmp_path, env) as started:
        assert started.await_start()
        fail(started, case.shown["says"])


def fail(started: Server, says: str) -> None:
    """Three requests at once, of which one must be refused or the engine must be gone."""
    with ThreadPoolExecutor(3) as pool:
        told = list(pool.map(lambda _: ask(started), range(3)))
    assert any(status != 200 for status, _ in told), told
    assert says in " ".join(text for _, text in told) + started.log.read_text()


def ask(started: Server) -> tuple[int, str]:
    try:
        answer = httpx.post(f"{started.url}/v1/completions", json=BODY, timeout=60)
    except httpx.HTTPError as error:
        return 0, repr(error)
    return answer.status_code, answer.text


def test_batch_invariance_kills_the_cpu_build_at_the_first_request(
    vllm_python: Path, tiny_models: Path, tmp_path: Path
) -> None:
    env = {"VLLM_BATCH_INVARIANT": "1"}
    (problem,) = vllm.check_environment(env, "0.32.0+cpu")
    assert problem.is_fatal
    with server(vllm_python, tiny_models / "target", [], tmp_path, env) as started:
        assert started.await_start()
        fail(started, "TypeError")


METRICS = [c for c in own("0.32") if c.shown.get("look") == "metrics"]


@pytest.mark.parametrize("case", METRICS, ids=lambda c: c.name)
def test_it_drafts_and_counts_nothing(
    case: Case, vllm_python: Path, tiny_models: Path, tmp_path: Path
) -> None:
    arguments = placed(case.shown["argv"], tiny_models)
    with server(vllm_python, tiny_models / "target", arguments, tmp_path, {}) as started:
        assert started.await_start()
        assert ask(started)[0] == 200
        assert case.shown["says"] not in httpx.get(f"{started.url}/metrics").text
