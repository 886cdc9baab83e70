"""Wrong engines that the gate must catch, all of them real ones: made wrong by a plugin in vLLM, by
options and files, or by a proxy before an engine that works. docs/gate-faults.md lists them."""

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx
import pytest

from tests.harness import TestFleet, free_port
from tests.integration.gate_bench import (
    ENGINE_ERROR,
    FAIL,
    GAMMA,
    INCONCLUSIVE,
    PASS,
    REFUSED,
    Bench,
    Expected,
    llama,
    proxy,
    write_prompts,
)
from tests.integration.llama_server import tiny_weights
from tests.vllm_fleet import CONTEXT, PROMPTS, engine_yaml, write_profile

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]

DIFFER = "answers differ from plain"
NOT_DRAWN = "next tokens are not drawn from plain's probabilities"
NOT_DRAFTED = "no token was drafted"
ANOTHER = "its fingerprint went from"
ROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 5000.0}}


@pytest.fixture(scope="module")
def bench(vllm_python: Path, tiny_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    prompts = write_prompts(tmp_path_factory.mktemp("prompts"))
    return Bench(vllm_python, tiny_models, prompts)


@pytest.fixture(scope="module")
def plain(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A plain vLLM: the baseline of every candidate here."""
    with bench.vllm(tmp_path_factory.mktemp("plain")) as url:
        yield url


@pytest.fixture(scope="module")
def right(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A speculating vLLM that works, for proxies to spoil."""
    with bench.vllm(tmp_path_factory.mktemp("right"), bench.drafting()) as url:
        yield url


@pytest.fixture(scope="module")
def turned(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The same weights with another rope_theta: another model, in effect."""
    arguments = [*bench.drafting(), "--hf-overrides", json.dumps(ROPE)]
    with bench.vllm(tmp_path_factory.mktemp("turned"), arguments) as url:
        yield url


# Made wrong from inside.

IN_THE_ENGINE: Mapping[str, Expected] = {
    "accept_first": Expected("greedy", FAIL, DIFFER),
    "rate:0.05": Expected("greedy", FAIL, DIFFER),
    "rate:0.005": Expected("greedy", FAIL, DIFFER, "many"),
    "penalties": Expected("greedy,penalties", FAIL, DIFFER),
    "stop_after:6": Expected("greedy", INCONCLUSIVE, NOT_DRAFTED),
    "sampled:argmax": Expected("greedy,sampled", FAIL, NOT_DRAWN, "sure"),
    "sampled:no_residual": Expected("greedy,sampled", FAIL, NOT_DRAWN, "sure"),
    "sampled:unnormalised": Expected("greedy,sampled", FAIL, "sampled output", "sure"),
}


@pytest.mark.parametrize("fault", IN_THE_ENGINE)
def test_made_wrong_from_inside(fault: str, bench: Bench, plain: str, tmp_path: Path) -> None:
    with bench.vllm(tmp_path / "engine", bench.drafting(), fault) as url:
        found = bench.require(tmp_path, plain, url, IN_THE_ENGINE[fault])
    if fault.startswith("sampled"):
        assert not found.trial["divergences"], "greedy output is right: only draws show it"
    if fault == "penalties":
        assert found.forks("suite") == {"penalties"}, "without penalties the engine is right"


def test_sampled_output_of_the_cpu_build_is_wrong_as_it_is_shipped(
    bench: Bench, plain: str, right: str, tmp_path: Path
) -> None:
    """vLLM issue #55005: nobody made this one. Greedy output of the same engine passes."""
    expected = Expected("greedy,sampled", FAIL, NOT_DRAWN, "sure")
    found = bench.require(tmp_path, plain, right, expected)
    assert not found.trial["divergences"]


def test_sampled_requests_spoil_greedy_ones_of_the_cpu_build(
    bench: Bench, plain: str, right: str, tmp_path: Path
) -> None:
    """The same bug: alone, the same engine answers greedy requests as plain does."""
    expected = Expected("greedy,mixed", FAIL, DIFFER)
    found = bench.require(tmp_path, plain, right, expected)
    assert found.forks("suite") == {"mixed"}


def test_sampled_output_passes_once_that_is_mended(
    bench: Bench, plain: str, tmp_path: Path
) -> None:
    """So that the three wrong rules above are caught for being wrong."""
    with bench.vllm(tmp_path / "engine", bench.drafting(), "sampled:right") as url:
        expected = Expected("greedy,mixed,sampled", PASS, "identical", "sure")
        found = bench.require(tmp_path, plain, url, expected)
    assert found.trial["sampled"]["verdict"] == "pass"


# Made wrong by options and files.


def test_another_rope_theta(bench: Bench, plain: str, turned: str, tmp_path: Path) -> None:
    found = bench.require(tmp_path, plain, turned, Expected("greedy", FAIL, DIFFER))
    assert found.forks("kind") & {"wrong", "suspicious"}


@pytest.mark.parametrize(
    "options",
    [
        ["--load-format", "dummy"],
        ["--kv-cache-dtype", "fp8"],
        ["--kv-cache-dtype", "bfloat16"],
    ],
    ids=["dummy_weights", "fp8_cache", "bfloat16_cache"],
)
def test_options_that_make_another_model(
    options: list[str], bench: Bench, plain: str, tmp_path: Path
) -> None:
    """A cache of bfloat16 beside float32 is taken by the CPU build, and filled with garbage."""
    if "fp8" in options and not bench.has_fp8:
        pytest.skip("vLLM's fp8 cache needs AVX-512 or AMX, and refuses to start without")
    with bench.vllm(tmp_path / "engine", [*bench.drafting(), *options]) as url:
        bench.require(tmp_path, plain, url, Expected("greedy", FAIL, DIFFER))


def test_a_generation_config_with_a_penalty_is_overruled(
    bench: Bench, plain: str, tmp_path: Path
) -> None:
    """It changes what a client gets who leaves the field out; the gate writes every such field."""
    model = tmp_path / "model"
    shutil.copytree(bench.models / "target", model)
    (model / "generation_config.json").write_text(json.dumps({"repetition_penalty": 1.5}))
    asked = {"model": "tiny", "prompt": PROMPTS[0], "max_tokens": 24, "temperature": 0}
    with bench.vllm(tmp_path / "engine", bench.drafting(), model=model) as url:
        told = [httpx.post(f"{u}/v1/completions", json=asked, timeout=60) for u in (plain, url)]
        bench.require(tmp_path, plain, url, Expected("greedy,loaded,stream", PASS, "identical"))
    texts = [answer.raise_for_status().json()["choices"][0]["text"] for answer in told]
    assert texts[0] != texts[1], "the penalty is in force"


def test_a_draft_with_other_tokens_is_right_and_useless(
    bench: Bench, plain: str, tmp_path: Path
) -> None:
    """vLLM compares only how many tokens there are; verifying throws nearly all guesses away."""
    with bench.vllm(tmp_path / "engine", bench.drafting("other_tokens")) as url:
        found = bench.require(tmp_path, plain, url, Expected("greedy", PASS, "identical", "sure"))
    assert all(0 < rate < 0.1 for rate in found.arms("acceptance_rate"))


FLEET = """
fleet: refused
models:
  tiny: {{target: {models}/target, context: {context}, drafts: {{draft_model: {models}/draft}}}}
{engine}
workers:
  - {{name: plain, model: tiny, engine: vllm, profile: plain, port: {ports[0]}}}
  - {{name: guess, model: tiny, engine: vllm, profile: guess, port: {ports[1]}, args: {args}}}
"""


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (f"{{hf-overrides: {json.dumps(ROPE)}}}", "differ in more than speculation"),
        ("{kv-cache-dtype: fp8}", "differ in more than speculation"),
        ("{kv-cache-dtype: bfloat16}", "fills the cache with garbage"),
        ("{load-format: dummy}", "load-format dummy is lossy"),
    ],
    ids=["rope_theta", "fp8_cache", "bfloat16_cache", "dummy_weights"],
)
def test_a_fleet_whose_arms_differ_so_is_refused(
    args: str, words: str, bench: Bench, tmp_path: Path
) -> None:
    """Nothing is started."""
    write_profile(tmp_path, "guess", f"method: draft_model\ngamma: {GAMMA}")
    facts = {"models": bench.models, "context": CONTEXT, "ports": (free_port(), free_port())}
    yaml = FLEET.format(engine=engine_yaml(bench.python), args=args, **facts)
    fleet = TestFleet(tmp_path, yaml)
    done = fleet.run("gate", str(fleet.file), "--candidate", "guess")
    assert done.returncode == REFUSED, done.stdout + done.stderr
    assert words in done.stdout + done.stderr
    assert not fleet.processes()


# Made wrong by a proxy before an engine that works.

UNDER_LOAD = ("drop@2", "repeat@2", "swap@2")
BY_A_PROXY: Mapping[str, Expected] = {
    "none": Expected("greedy,loaded,stream,penalties,limits", PASS, "identical"),
    **{fault: Expected("greedy,loaded", FAIL, DIFFER) for fault in UNDER_LOAD},
    "token:1e-4": Expected("greedy", FAIL, DIFFER, "many"),
    "empty": Expected("greedy", FAIL, "empty"),
    "no_penalties": Expected("greedy,penalties", FAIL, "penalties"),
    "leftover": Expected("greedy", FAIL, DIFFER),
    "leftover:6": Expected("greedy", ENGINE_ERROR, ANOTHER),
    "stop_drafting:6": Expected("greedy", ENGINE_ERROR, ANOTHER),
}


@pytest.mark.parametrize("fault", BY_A_PROXY)
def test_made_wrong_by_a_proxy(
    fault: str, bench: Bench, plain: str, right: str, request: pytest.FixtureRequest
) -> None:
    folder: Path = request.getfixturevalue("tmp_path")
    name = fault.partition(":")[0]
    other = str(request.getfixturevalue("turned")) if name == "leftover" else plain
    with proxy(right, fault, folder, "--other", other) as url:
        found = bench.require(folder, plain, url, BY_A_PROXY[fault])
    if fault in UNDER_LOAD:
        assert min(found.forks("concurrency")) > 1
    if fault == "token:1e-4":
        assert len(found.forks("question")) == 1, "in both arms together"


def test_a_suite_that_plain_fails_is_not_one_that_it_does_not_serve(
    bench: Bench, plain: str, right: str, tmp_path: Path
) -> None:
    """Without its sampled neighbours `mixed` shows nothing: such a run cannot pass."""
    expected = Expected("greedy,mixed", INCONCLUSIVE, "sampled neighbours")
    with proxy(plain, "no_sampling", tmp_path) as one, proxy(right, "none", tmp_path) as other:
        bench.require(tmp_path, one, other, expected)


# llama.cpp: its own route, its own counters.


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    return tiny_weights(tmp_path_factory.mktemp("gguf"))


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("none", Expected("greedy,stream", PASS, "identical")),
        ("swap", Expected("greedy", FAIL, DIFFER)),
        ("token:1e-2", Expected("greedy", FAIL, DIFFER)),
        ("empty", Expected("greedy", FAIL, "empty")),
    ],
)
def test_llama_cpp_made_wrong_by_a_proxy(
    fault: str, expected: Expected, bench: Bench, weights: Mapping[str, Path], tmp_path: Path
) -> None:
    with (
        llama(tmp_path / "plain", weights) as plain,
        llama(tmp_path / "right", weights, "draft") as right,
        proxy(right, fault, tmp_path) as url,
    ):
        bench.require(tmp_path, plain, url, expected)


def test_llama_cpp_does_not_draft_with_a_draft_of_other_tokens(
    bench: Bench, weights: Mapping[str, Path], tmp_path: Path
) -> None:
    """It says so in its log alone, and serves."""
    with (
        llama(tmp_path / "plain", weights) as plain,
        llama(tmp_path / "other", weights, "other_tokens") as other,
    ):
        bench.require(tmp_path, plain, other, Expected("greedy", INCONCLUSIVE, NOT_DRAFTED))
