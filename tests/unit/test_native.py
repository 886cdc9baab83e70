"""Native options of a profile that no fleet has given a version yet."""

import pytest

from adapters.document import parse_document
from adapters.native import native_problems
from adapters.problem import path_text
from adapters.profile import Profile
from adapters.reading import read_model


def problems(engine: str) -> list[str]:
    yaml = f"profile: p\nspeculation: {{method: ngram, gamma: 4}}\nengine: {engine}"
    profile = read_model(parse_document(yaml, "p.yaml"), Profile).value
    assert profile is not None
    return [f"{path_text(p.path)}: {p.message}" for p in native_problems(profile)]


def test_what_no_version_knows_is_told() -> None:
    told = problems("{vllm: {max_num_seq: 8}}")
    assert told == ["engine.vllm.max_num_seq: vllm 0.33.0 has no option 'max_num_seq'"]


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
