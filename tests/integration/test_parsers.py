"""The goldens say that we did not change; the engine's own parser and configs agree with them."""

import json
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from adapters.vllm import SUPPORTED
from tests.harness import ROOT
from tests.vllm_driver import resolve, write_configs

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]

DASHES = "-" * 10 + "\n"
EAGER = ["--dtype", "float32", "--enforce-eager", "--skip-tokenizer-init"]
# The model that a golden's method needs, and the one for its draft.
TARGETS = {"mtp": "mtp"}
DRAFTS = {"draft_model": "draft"}
# Needs the V2 model runner, which a CPU has not: its own refusal case shows that.
ONLY_PARSED = {"dspark"}


def launches(version: str) -> dict[str, list[str]]:
    """The argv of each golden launch, without the program; goldens that end in errors have none."""
    found = {}
    for file in sorted((ROOT / f"tests/golden/vllm-{version}").glob("*.txt")):
        lines = file.read_text().partition(DASHES)[2].splitlines()
        if "serve" in lines:
            rest = lines[lines.index("serve") + 1 :]
            found[file.stem] = [
                shlex.split(line)[0] for line in rest if not line.startswith("env ")
            ]
    return found


def request_of(argv: list[str], models: Path, has_suffix: bool) -> dict[str, Any]:
    """A golden's command line with models that are there instead of the paths that it names."""
    config = speculation(argv)
    method = config.get("method", "")
    if "/models/" in str(config.get("model")):
        config["model"] = str(models / DRAFTS.get(method, method))
    if config.get("use_heterogeneous_vocab"):
        config["model"] = str(models / "other")
    rest = argv[1:]
    if config:
        rest[rest.index("--speculative-config") + 1] = json.dumps(config)
    is_only_parsed = method in ONLY_PARSED or (method == "suffix" and not has_suffix)
    target = str(models / TARGETS.get(method, "target"))
    return {"argv": [target, *rest, *EAGER], "only_parse": is_only_parsed}


def speculation(argv: list[str]) -> dict[str, Any]:
    if "--speculative-config" not in argv:
        return {}
    config: dict[str, Any] = json.loads(argv[argv.index("--speculative-config") + 1])
    return config


@pytest.fixture(scope="module")
def models(tiny_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_configs(tmp_path_factory.mktemp("configs"), tiny_models / "target")


@pytest.fixture(scope="module")
def has_suffix(vllm_python: Path) -> bool:
    """scripts/setup --suffix adds the package, which is compiled."""
    look = "import importlib.util as u, sys; sys.exit(u.find_spec('arctic_inference') is None)"
    return subprocess.run([vllm_python, "-c", look], check=False).returncode == 0


@pytest.mark.parametrize("version", [dialect.name for dialect in SUPPORTED])
def test_every_golden_launch_is_accepted_by_vllm(
    version: str, vllm_python: Path, models: Path, has_suffix: bool
) -> None:
    goldens = launches(version)
    assert len(goldens) >= 20
    asked = {name: request_of(argv, models, has_suffix) for name, argv in goldens.items()}
    answers = resolve(vllm_python, version, asked)
    refused = {name: answer for name, answer in answers.items() if is_refused(name, answer)}
    assert refused == {}
    assert set(answers) == set(goldens)
    for name, answer in answers.items():
        if not asked[name]["only_parse"] and answer["refused"] is None:
            assert_same(speculation(goldens[name]), answer["resolved"])


def is_refused(name: str, answer: Mapping[str, Any]) -> bool:
    """Only where draftgate did not foretell it: the CPU's runner is V1, and asynchronous not."""
    foretold = name == "async-scheduling" and "V1 model runner" in str(answer["refused"])
    return answer["refused"] is not None and not foretold


def assert_same(written: Mapping[str, Any], resolved: Mapping[str, Any]) -> None:
    """The engine uses what was written: nothing is dropped, defaulted or detected otherwise."""
    for key in set(written) & set(resolved):
        assert resolved[key] == written[key], key
