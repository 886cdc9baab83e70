"""The refusal cases of llama.cpp hold on llama.cpp itself.

`config`: the parser of llama-server b10434 ends with what the case says. `start`, `silent` and
`request`: the embedded server does not start, serves without a word but otherwise than asked, or
dies at a request. Names in braces in argv are those of the fixture `weights`.
"""

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from adapters import llama_cpp
from adapters.llama_cpp import METRICS
from tests.integration.llama_drawn import write_block_drafter, write_mtp_target
from tests.integration.llama_server import (
    COMMAND,
    QUICK,
    Server,
    ended,
    old_server,
    running,
    tiny_weights,
)
from tests.unit.refusal import Case, cases

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]

CASES = cases("llama_cpp-*")
ECHO = "The cat sat on the mat. The cat sat on the mat. The cat sat on"
LOOKS: Mapping[str, Callable[[Server, Mapping[str, Any]], bool]] = {
    "slots[].speculative is false": lambda server, timings: not any(server.speculates()),
    "timings.draft_n is absent": lambda server, timings: (
        all(server.speculates()) and "draft_n" not in timings
    ),
    "timings.draft_n is present": lambda server, timings: timings.get("draft_n", 0) > 0,
    "slots[].n_ctx is 2048": lambda server, timings: (
        [slot["n_ctx"] for slot in server.get("/slots")] == [2048]
    ),
    "2 positions are counted in /metrics": lambda server, timings: positions(server) == 2,
}


def positions(server: Server) -> int:
    """The most tokens of a guess, as far as the engine counts them."""
    return server.client.get("/metrics").text.count(f"{METRICS['accepted_per_position']}{{")


def shown_at(stage: str) -> pytest.MarkDecorator:
    found = [case for case in CASES if case.shown["stage"] == stage]
    return pytest.mark.parametrize("case", found, ids=lambda case: case.name)


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """The test models, a target that adds no BOS to a prompt, and models of drawn weights."""
    folder = tmp_path_factory.mktemp("weights")
    found = dict(tiny_weights(folder))
    adds, data = b"tokenizer.ggml.add_bos_token\x07\x00\x00\x00", found["target"].read_bytes()
    assert data.count(adds + b"\x01") == 1
    found["without_bos"] = folder / "without_bos.gguf"
    found["without_bos"].write_bytes(data.replace(adds + b"\x01", adds + b"\x00"))
    found |= {name: folder / f"{name}.gguf" for name in ("dflash", "mtp2")}
    write_block_drafter(found["dflash"], is_dspark=False)
    write_mtp_target(found["mtp2"], 2)
    return {**found, "folder": folder}


def argv_of(case: Case, weights: Mapping[str, Path]) -> list[str]:
    """-m is the case's own where it names one."""
    words = [str(word).format(**weights) for word in case.shown["argv"]]
    model = [] if "-m" in words else ["-m", str(weights["target"])]
    size = [] if "-c" in words else ["-c", "1024"]
    slots = [] if "-np" in words else ["-np", "1"]
    return [*COMMAND, *model, *size, *slots, "--port", "0", "--metrics", *QUICK, *words]


@shown_at("config")
def test_the_parser_refuses(case: Case) -> None:
    words = [str(word).format(target="model.gguf") for word in case.shown["argv"]]
    done = ended(str(old_server()), *words, env=case.shown.get("env"))
    assert done.returncode == 1
    assert case.shown["says"] in done.stderr + done.stdout


@shown_at("start")
def test_the_server_does_not_start(case: Case, weights: Mapping[str, Path]) -> None:
    done = ended(*argv_of(case, weights))
    assert done.returncode != 0
    assert case.shown["says"] in done.stderr


@shown_at("silent")
def test_the_server_says_nothing(case: Case, weights: Mapping[str, Path], tmp_path: Path) -> None:
    with running(argv_of(case, weights), tmp_path) as server:
        assert server.get("/health") == {"status": "ok"}
        timings = asked(server, case.shown)["timings"]
        says = case.shown["says"]
        if says in LOOKS:
            assert LOOKS[says](server, timings)
        else:
            assert says in server.log.read_text()
            assert server.speculates() == [case.shown.get("speculates", False)]


def asked(server: Server, shown: Mapping[str, Any]) -> Any:
    """The answer to the case's prompt; with `before`, only a request before it makes it so."""
    prompt, count = shown.get("prompt", ECHO), shown.get("count", 48)
    fields = {"grammar": shown["grammar"], "ignore_eos": False} if "grammar" in shown else {}
    if "before" in shown:
        assert "draft_n" not in server.complete(prompt, count, **fields)["timings"]
        server.complete(shown["before"], 8)
    return server.complete(prompt, count, **fields)


@shown_at("request")
def test_the_server_dies_at_a_request(
    case: Case, weights: Mapping[str, Path], tmp_path: Path
) -> None:
    with running(argv_of(case, weights), tmp_path) as server:
        with pytest.raises(httpx.TransportError):
            asked(server, case.shown)
        assert server.process.wait(timeout=30) < 0
        assert case.shown["says"] in server.log.read_text()


def test_per_request_speculation_is_ignored(weights: Mapping[str, Path], tmp_path: Path) -> None:
    """Why such fields are among the adapter's limits: a request that wants none is drafted for."""
    argv = (*COMMAND, "-m", str(weights["target"]), "-c", "1024", "-np", "1", "--port", "0", *QUICK)
    kind = ("--spec-type", "ngram-simple", *("--spec-ngram-simple-size-n", "2"))
    with running((*argv, *kind, "--spec-ngram-simple-size-m", "6"), tmp_path) as server:
        usual = server.complete(ECHO)["timings"]["draft_n"]
        fields: dict[str, Any] = {
            "speculative.n_max": 0,
            "speculative.type": "none",
            "speculative": {"n_max": 0},
        }
        assert server.complete(ECHO, **fields)["timings"]["draft_n"] == usual > 0


def test_a_build_without_a_number_is_known_by_its_help() -> None:
    """Its package says build 1."""
    said = [
        subprocess.run(argv, capture_output=True, text=True, check=True)
        for argv in llama_cpp.version_commands((str(old_server()),))
    ]
    assert "(build 1," in said[0].stdout + said[0].stderr
    assert llama_cpp.read_version(said[0].stdout + said[0].stderr) is None
    assert llama_cpp.read_version(said[1].stdout) == "b10434"
