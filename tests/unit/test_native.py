"""A profile that no fleet has given an engine version yet: native options, and its method."""

import pytest

from adapters.document import parse_document
from adapters.native import method_problems, native_problems
from adapters.problem import path_text
from adapters.profile import Profile
from adapters.reading import check_profile, read_model


def problems(engine: str) -> list[str]:
    yaml = f"profile: p\nspeculation: {{method: ngram, gamma: 4}}\nengine: {engine}"
    profile = read_model(parse_document(yaml, "p.yaml"), Profile).value
    assert profile is not None
    return [f"{path_text(p.path)}: {p.message}" for p in native_problems(profile)]


def test_what_no_version_knows_is_told() -> None:
    told = problems("{vllm: {max_num_seq: 8}}")
    assert told == ["engine.vllm.max_num_seq: vLLM 0.33 has no option 'max_num_seq'"]


@pytest.mark.parametrize(
    "engine",
    [
        "{}",
        "{vllm: {max-num-seqs: 8}}",
        "{vllm: {speculative_config: {fly_window_size: 4}}}",  # 0.33 knows it, and calls it lossy
        "{llama_cpp: {spec-type: ngram-mod}}",
    ],
)
def test_what_some_version_takes_is_left_to_the_fleet(engine: str) -> None:
    told = problems(engine)
    assert told == [] or "lossy" in told[0]


@pytest.mark.parametrize(
    ("speculation", "runs"),
    [
        ("{method: none}", True),
        ("{method: ngram, gamma: 4}", True),
        ("{method: eagle, gamma: 4}", True),
        ("{method: lookahead, gamma: 3, window: 4, candidates: 4}", True),
        ("{method: mlp_speculator, gamma: 3}", False),
    ],
)
def test_a_method_that_no_engine_runs_is_told(speculation: str, runs: bool) -> None:
    text = f"profile: p\nspeculation: {speculation}\nengine: {{vllm: {{max-num-seqs: 8}}}}\n"
    profile = check_profile(parse_document(text, "p.yaml")).value
    assert profile is not None
    assert [p.code for p in method_problems(profile)] == ([] if runs else ["no-engine-runs-it"])
