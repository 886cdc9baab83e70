"""vLLM: what its goldens do not show."""

import json
from typing import Any

import pytest

from adapters import vllm
from adapters.launch import Model, WorkerSpec
from adapters.profile import Profile
from tests.unit.scripted import codes

DRAFTS = {"draft_model": "/m/draft", "eagle3": "/m/head"}


def profile(speculation: dict[str, Any], **fields: Any) -> Profile:
    data = {"profile": "p", "speculation": speculation, **fields}
    return Profile.model_validate_json(json.dumps(data))


def ngram(**native: Any) -> Profile:
    return profile({"method": "ngram", "gamma": 4}, engine={"vllm": native})


def worker(**fields: Any) -> WorkerSpec:
    settings: dict[str, Any] = {
        "name": "w",
        "engine_version": "0.32",
        "command": ("vllm",),
        "model": Model("small", "org/target", 4096, DRAFTS),
        "port": 8000,
    }
    return WorkerSpec(**settings | fields)


def spec_config(launched: Profile, spec: WorkerSpec | None = None) -> dict[str, Any]:
    argv = vllm.render(launched, spec or worker()).argv
    config: dict[str, Any] = json.loads(argv[argv.index("--speculative-config") + 1])
    return config


# Launching.


@pytest.mark.parametrize(
    ("command", "argv"),
    [
        (("vllm",), ("vllm", "serve", "org/target")),
        (("/opt/bin/vllm",), ("/opt/bin/vllm", "serve", "org/target")),
        (
            ("/venv/bin/python3.11",),
            ("/venv/bin/python3.11", "-m", "vllm.entrypoints.openai.api_server", "--model"),
        ),
    ],
)
def test_a_python_runs_the_server_module(command: tuple[str, ...], argv: tuple[str, ...]) -> None:
    assert vllm.render(ngram(), worker(command=command)).argv[: len(argv)] == argv


def test_revision_and_context_are_written_where_given() -> None:
    model = Model("small", "org/target", None, {}, "abc123")
    arguments = vllm.render(ngram(), worker(model=model)).arguments
    assert arguments[:4] == ("--served-model-name", "small", "--revision", "abc123")
    assert "--max-model-len" not in arguments


def test_a_plain_profile_has_no_speculative_config() -> None:
    arguments = vllm.render(profile({"method": "none"}), worker()).arguments
    assert "--speculative-config" not in arguments


def test_the_open_range_ends_at_max_num_seqs_wherever_that_is_set() -> None:
    schedule = [{"batch": "1-8", "gamma": 4}, {"batch": "9+", "gamma": 0}]
    spec = {"method": "ngram", "gamma": 4, "schedule": schedule}
    key = "num_speculative_tokens_per_batch_size"
    assert spec_config(profile(spec))[key] == [[1, 8, 4], [9, 1024, 0]]
    assert spec_config(profile(spec), worker(args={"max_num_seqs": 64}))[key][-1] == [9, 64, 0]
    assert spec_config(profile(spec), worker(args={"max-num-seqs": 4}))[key][-1] == [9, 9, 0]
    native = profile(spec, engine={"vllm": {"max-num-seqs": 32}})
    assert spec_config(native)[key][-1] == [9, 32, 0]


def test_the_fleets_args_win_over_the_profiles_in_check_as_in_render() -> None:
    schedule = [{"batch": "1+", "gamma": 4}]
    spec = {"method": "ngram", "gamma": 4, "schedule": schedule}
    mild = profile(spec, engine={"vllm": {"data-parallel-size": 1}})
    wild = worker(args={"data-parallel-size": 2})
    argv = vllm.render(mild, wild).argv
    assert argv[argv.index("--data-parallel-size") + 1] == "2"
    assert codes(vllm.check(mild, wild)) == ["schedule-data-parallel"]


@pytest.mark.parametrize("name", ["data-parallel-size", "data_parallel_size", "-dp", "dp"])
def test_data_parallel_with_a_schedule_is_seen_by_any_name(name: str) -> None:
    schedule = [{"batch": "1+", "gamma": 4}]
    made = profile({"method": "ngram", "gamma": 4, "schedule": schedule})
    assert codes(vllm.check(made, worker(args={name: 2}))) == ["schedule-data-parallel"]


@pytest.mark.parametrize(
    ("extra", "code"),
    [
        ({"num_speculative_tokens": 5}, "option-is-ours"),
        ({"prompt-lookup-min": 5}, "option-is-ours"),
        ({"tensor_parallel_size": 1}, "option-is-ours"),
        ({"disable_by_batch_size": 8}, "renamed-option"),
        ({"acceptance_method": "strict"}, "renamed-option"),
        ({"metod": "strict"}, "unknown-option"),
        (5, "bad-value"),
        ([], "bad-value"),
    ],
)
def test_refused_speculative_config_keys(extra: Any, code: str) -> None:
    problems = vllm.check(ngram(speculative_config=extra), worker())
    assert codes(problems) == [code]
    assert problems[0].is_fatal


@pytest.mark.parametrize("key", ["rejection_sample_method", "rejection-sample-method"])
def test_accepting_by_dice_is_lossy(key: str) -> None:
    extra = {key: "synthetic", "synthetic_acceptance_length": 3}
    assert codes(vllm.check(ngram(speculative_config=extra), worker())) == ["lossy", "lossy"]


def test_all_of_a_suffix_trees_settings_are_written_out() -> None:
    assert spec_config(profile({"method": "suffix", "gamma": 16})) == {
        "method": "suffix",
        "num_speculative_tokens": 16,
        "suffix_decoding_max_tree_depth": 24,
        "suffix_decoding_max_cached_requests": 10000,
        "suffix_decoding_max_spec_factor": 1.0,
        "suffix_decoding_min_token_prob": 0.1,
    }


def test_a_plain_profile_takes_no_speculative_config() -> None:
    native = {"vllm": {"speculative_config": {"draft_sample_method": "greedy"}}}
    made = profile({"method": "none"}, engine=native)
    assert codes(vllm.check(made, worker())) == ["option-is-ours"]


def test_a_drafts_tensor_parallel_size_is_written() -> None:
    made = profile({"method": "eagle3", "gamma": 4, "tensor_parallel": 1})
    assert spec_config(made)["draft_tensor_parallel_size"] == 1


def test_a_key_may_hold_a_mapping() -> None:
    made = ngram(speculative_config={"draft_load_config": {"load_format": "dummy"}})
    assert vllm.check(made, worker()) == []


def test_speculative_config_keys_with_dashes_are_written_once() -> None:
    made = ngram(speculative_config={"draft-sample-method": "greedy"})
    assert vllm.check(made, worker()) == []
    config = spec_config(made)
    assert config.get("draft-sample-method", config.get("draft_sample_method")) == "greedy"


@pytest.mark.parametrize("name", ["speculative-config", "speculative_config", "-sc"])
def test_speculative_config_is_refused_or_read_by_any_name(name: str) -> None:
    made = ngram(**{name: {"num_speculative_tokens": 99}})
    assert codes(vllm.check(made, worker())) == ["option-is-ours"]


@pytest.mark.parametrize(
    ("speculation", "options", "code"),
    [
        ({"method": "suffix", "gamma": 4}, {"async-scheduling": True}, "async-scheduling"),
        ({"method": "ngram", "gamma": 4}, {"async_scheduling": True}, "async-scheduling"),
        ({"method": "ngram", "gamma": 4}, {"no-async-scheduling": False}, "async-scheduling"),
    ],
)
def test_async_scheduling_is_refused_for_lookups(
    speculation: dict[str, Any], options: dict[str, Any], code: str
) -> None:
    assert codes(vllm.check(profile(speculation), worker(args=options))) == [code]


@pytest.mark.parametrize(
    "options", [{"async-scheduling": False}, {"no-async-scheduling": True}, {}]
)
def test_async_scheduling_turned_off_is_fine(options: dict[str, Any]) -> None:
    assert vllm.check(ngram(), worker(args=options)) == []


@pytest.mark.parametrize(
    ("method", "asked", "ranks", "is_fine"),
    [
        ("draft_model", 2, 2, True),
        ("draft_model", 1, 2, False),
        ("draft_model", 1, 1, True),
        ("eagle3", 1, 2, True),
        ("eagle3", 2, 2, True),
        ("eagle3", 4, 2, False),
    ],
)
@pytest.mark.parametrize("name", ["tensor-parallel-size", "tensor_parallel_size", "-tp", "tp"])
def test_a_drafts_tensor_parallel_size(
    method: str, asked: int, ranks: int, is_fine: bool, name: str
) -> None:
    made = profile({"method": method, "gamma": 4, "tensor_parallel": asked})
    problems = vllm.check(made, worker(args={name: ranks}))
    assert codes(problems) == ([] if is_fine else ["draft-tp"])


def test_a_profiles_own_tensor_parallel_size_counts_too() -> None:
    native = {"vllm": {"tensor-parallel-size": 2}}
    made = profile({"method": "draft_model", "gamma": 4, "tensor_parallel": 2}, engine=native)
    assert vllm.check(made, worker()) == []


@pytest.mark.parametrize("version", ["0.31", "0.32", "0.33"])
def test_fly_is_known_from_0_33_and_lossy_there(version: str) -> None:
    made = ngram(speculative_config={"fly_window_size": 2})
    code = "lossy" if version == "0.33" else "unknown-option"
    assert codes(vllm.check(made, worker(engine_version=version))) == [code]


@pytest.mark.parametrize(
    ("command", "argv"),
    [
        (("vllm",), ("vllm", "--version")),
        (("/v/bin/vllm",), ("/v/bin/vllm", "--version")),
    ],
)
def test_the_version_is_asked_of_the_program(
    command: tuple[str, ...], argv: tuple[str, ...]
) -> None:
    assert vllm.version_commands(command) == (argv,)


def test_the_version_is_asked_of_the_python() -> None:
    (argv,) = vllm.version_commands(("/v/bin/python",))
    assert argv[:2] == ("/v/bin/python", "-c")
    compile(argv[2], "version", "exec")


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ("0.32.0\n", "0.32.0"),
        ("INFO 11-29 14:03:45.123 [a.py:1] using CPU\n0.32.0+cpu\n", "0.32.0+cpu"),
        ("vllm not found\n", None),
    ],
)
def test_the_version_in_the_output(output: str, version: str | None) -> None:
    assert vllm.read_version(output) == version
