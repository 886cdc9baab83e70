"""vLLM: rules beside those that tests/refusals shows, and where they must keep still."""

import json
from typing import Any

import pytest

from adapters import vllm
from adapters.checkpoint import Checkpoint, Vocabulary
from adapters.launch import Model, WorkerSpec
from adapters.problem import Problem
from adapters.profile import Profile
from adapters.vllm.asked import size
from tests.unit.scripted import codes

DRAFTS = {
    name: f"org/{name}" for name in ("draft_model", "eagle", "eagle3", "medusa", "dflash", "dspark")
}
V1, V2 = {"VLLM_USE_V2_MODEL_RUNNER": "0"}, {"VLLM_USE_V2_MODEL_RUNNER": "1"}


def profile(method: str, native: Any = None, extra: Any = None, **fields: Any) -> Profile:
    options = dict(native or {}) | ({"speculative_config": extra} if extra is not None else {})
    speculation = {"method": method, **({} if method == "none" else {"gamma": 4}), **fields}
    data = {"profile": "p", "speculation": speculation, "engine": {"vllm": options}}
    return Profile.model_validate_json(json.dumps(data))


PLAIN = {"profile": "plain", "speculation": {"method": "none"}}


def found(made: Profile, version: str = "0.32", **fields: Any) -> list[Problem]:
    """But for what is said of every speculating worker on a CPU."""
    model = fields.pop("model", Model("small", "org/target", 4096, DRAFTS))
    problems = vllm.check(made, WorkerSpec("w", version, ("vllm",), model, 8000, **fields))
    return [p for p in problems if p.code != "sampling-cpu"]


@pytest.mark.parametrize(
    ("method", "version", "is_told"),
    [("ngram", "0.32.0+cpu", True), ("ngram", "0.32.0", False), ("none", "0.32.0+cpu", False)],
)
def test_sampling_on_a_cpu_is_warned_of(method: str, version: str, is_told: bool) -> None:
    made = profile(method) if method != "none" else Profile.model_validate(PLAIN)
    model = Model("small", "org/target", 4096, DRAFTS)
    problems = vllm.check(made, WorkerSpec("w", version, ("vllm",), model, 8000))
    assert [(p.code, p.severity) for p in problems] == [("sampling-cpu", "warning")] * is_told


@pytest.mark.parametrize("version", ["0.31", "0.32", "0.33"])
@pytest.mark.parametrize(
    "method", ["ngram", "suffix", "draft_model", "eagle", "eagle3", "mtp", "dflash", "dspark"]
)
def test_nothing_is_said_of_what_is_fine(method: str, version: str) -> None:
    assert found(profile(method), version) == []


@pytest.mark.parametrize(
    ("method", "version", "env", "code"),
    [
        ("ngram", "0.32", V2, None),
        ("ngram", "0.32+cpu", V2, "model-runner"),
        ("medusa", "0.32", V2, "model-runner"),
        ("dspark", "0.32+cpu", {}, "model-runner"),
        ("dspark", "0.33", {}, None),
        ("suffix", "0.33", V1, None),
        ("suffix", "0.33", {"VLLM_USE_V2_MODEL_RUNNER": "maybe"}, None),
    ],
)
def test_model_runners(method: str, version: str, env: dict[str, str], code: str | None) -> None:
    assert codes(found(profile(method), version, env=env)) == ([code] if code else [])


SCHEDULE = [{"batch": "1-4", "gamma": 4}, {"batch": "5+", "gamma": 0}]


@pytest.mark.parametrize(
    ("method", "version", "fields", "code"),
    [
        ("ngram", "0.32", {}, None),
        ("eagle", "0.31", {}, None),
        ("dflash", "0.32", {}, None),
        ("dspark", "0.32", {}, "schedule-method"),
        ("dflash", "0.33", {}, None),
        ("dspark", "0.33", {}, None),
        ("suffix", "0.33", {}, "schedule-method"),
        ("ngram", "0.31", {}, "schedule-slow"),
        ("ngram", "0.32", {"env": V1}, "schedule-slow"),
        ("ngram", "0.32", {"env": V1, "args": {"enforce-eager": True}}, None),
        ("ngram", "0.32+cpu", {}, None),
        ("ngram", "0.32", {"args": {"max-num-seqs": 4}}, "schedule-unreachable"),
        ("ngram", "0.32", {"args": {"max-num-seqs": 5}}, None),
    ],
)
def test_schedules(method: str, version: str, fields: dict[str, Any], code: str | None) -> None:
    made = profile(method, schedule=SCHEDULE)
    assert codes(found(made, version, **fields)) == ([code] if code else [])


@pytest.mark.parametrize(
    ("version", "env", "is_fine"),
    [("0.32", {}, False), ("0.33", {}, True), ("0.33", V1, False), ("0.33+cpu", {}, False)],
)
def test_schedules_of_lookup_on_the_gpu(version: str, env: dict[str, str], is_fine: bool) -> None:
    problems = found(profile("ngram", schedule=SCHEDULE, device="gpu"), version, env=env)
    told = set(codes(problems)) - {"no-gpu"}
    assert told == (set() if is_fine else {"schedule-method"})


@pytest.mark.parametrize("version", ["0.31", "0.32", "0.33"])
@pytest.mark.parametrize("schedule", [[("1-4", 0), ("5+", 4)], [("1+", 0)]], ids=str)
def test_a_schedule_that_never_drafts_for_one(schedule: Any, version: str) -> None:
    tiers = [{"batch": batch, "gamma": gamma} for batch, gamma in schedule]
    problems = found(profile("eagle3", schedule=tiers), version, args={"max-num-seqs": 8})
    assert [(p.code, p.severity) for p in problems] == [("schedule-first", "error")]
    lost = found(profile("suffix", schedule=tiers), version)
    assert [(p.code, p.severity) for p in lost] == [("schedule-method", "lost")]


@pytest.mark.parametrize(
    ("args", "gamma", "severity"),
    [
        ({}, 4, None),
        ({}, 7, None),
        ({}, 8, "warning"),
        ({}, 15, "warning"),
        ({}, 16, "error"),
        ({"max-num-seqs": 16}, 4, None),
        ({"max-num-seqs": 512}, 4, "warning"),
        ({"max-num-batched-tokens": "8K"}, 4, None),
        ({"max-num-batched-tokens": "2K"}, 4, "warning"),
        ({"max-num-batched-tokens": 512}, 4, "error"),
        ({"max-num-seqs": 16, "max-num-batched-tokens": 80}, 4, None),
        ({"max-num-seqs": 16, "max-num-batched-tokens": 79}, 4, "error"),
    ],
)
def test_loras_token_budget(args: dict[str, Any], gamma: int, severity: str | None) -> None:
    made = profile("eagle3", gamma=gamma)
    problems = found(made, args={"enable-lora": True, **args})
    assert [p.severity for p in problems] == ([severity] if severity else [])
    assert codes(problems) == (["lora-tokens"] if severity else [])


@pytest.mark.parametrize(
    ("method", "fields", "version", "slots"),
    [
        ("draft_model", {}, "0.32", 1),
        ("draft_model", {"parallel": True}, "0.32", 4),
        ("eagle3", {"parallel": True}, "0.32", 3),
        ("eagle3", {}, "0.32", 0),
        ("dflash", {}, "0.32", 4),
        ("dspark", {}, "0.32", 3),
        ("ngram", {}, "0.33", 0),
        ("eagle3", {}, "0.33", 4),
        ("dflash", {}, "0.33", 5),
    ],
)
def test_draft_slots(method: str, fields: dict[str, Any], version: str, slots: int) -> None:
    made = profile(method, **fields)
    if slots:
        assert codes(found(made, version, args={"max-num-batched-tokens": slots})) == [
            "draft-slots"
        ]
    assert found(made, version, args={"max-num-batched-tokens": slots + 1}) == []


@pytest.mark.parametrize(
    ("method", "extra", "args", "version", "code"),
    [
        ("dspark", {"enable_adaptive_verification": True}, {"enable-lora": True}, "0.32", "lora"),
        (
            "dspark",
            {"enable_adaptive_verification": True},
            {"pipeline-parallel-size": 2},
            "0.32",
            "pipeline-parallel",
        ),
        ("eagle3", {}, {"async-scheduling": True}, "0.32", None),
        ("eagle3", {}, {"async-scheduling": True, "pp": 2}, "0.33+cpu", "async-scheduling"),
        ("eagle3", {}, {"async-scheduling": True, "pp": 2}, "0.33", None),
        ("ngram", {}, {"async-scheduling": True}, "0.33", "async-scheduling"),
        ("draft_model", {}, {"kv-cache-dtype": "fp8"}, "0.32", "draft-cache-inherited"),
        ("draft_model", {"kv_cache_dtype": "auto"}, {"kv-cache-dtype": "fp8"}, "0.32", None),
        ("draft_model", {}, {"kv-sharing-fast-prefill": True}, "0.32", None),
        ("ngram", {}, {"override-generation-config": '{"min_p": 0.1}'}, "0.32", "sampling-default"),
        ("ngram", {}, {"override-generation-config.min_p": 0.1}, "0.32", "sampling-default"),
        ("ngram", {}, {"override-generation-config.top_k": 20}, "0.32", None),
        ("ngram", {}, {"override_generation_config.logit_bias": {}}, "0.32", "sampling-default"),
        ("ngram", {}, {"override-generation-config": {"top_k": 20}}, "0.32", None),
        ("ngram", {"parallel_drafting": False}, {}, "0.32", None),
        ("eagle", {"parallel_drafting": True}, {}, "0.32", None),
    ],
)
def test_what_goes_together(
    method: str, extra: Any, args: dict[str, Any], version: str, code: str | None
) -> None:
    assert codes(found(profile(method, extra=extra), version, args=args)) == (
        [code] if code else []
    )


@pytest.mark.parametrize(
    ("args", "fields", "extra", "count"),
    [
        ({"kv-cache-dtype": "auto", "dtype": "float32"}, {}, {}, 0),
        ({"kv-cache-dtype": "bfloat16", "dtype": "float32"}, {"kv_cache_dtype": "fp8"}, {}, 1),
        ({"kv-cache-dtype": "bfloat16"}, {"kv_cache_dtype": "float16"}, {}, 2),
        (
            {"kv_cache_dtype": "bfloat16", "dtype": "bfloat16"},
            {"kv_cache_dtype": "bfloat16"},
            {},
            0,
        ),
        ({"dtype": "half"}, {"kv_cache_dtype": "float16"}, {}, 0),
        ({}, {"kv_cache_dtype": "fp8_e5m2"}, {}, 0),
        ({}, {}, {"kv_cache_dtype": "int8_per_token_head"}, 1),
    ],
)
def test_types_that_the_cpu_build_makes_garbage_of(
    args: dict[str, Any], fields: dict[str, Any], extra: dict[str, Any], count: int
) -> None:
    made = profile("draft_model", extra=extra, **fields)
    assert codes(found(made, "0.32+cpu", args=args)).count("cache-type-cpu") == count
    assert "cache-type-cpu" not in codes(found(made, "0.32", args=args))


@pytest.mark.parametrize(
    ("method", "version", "args", "is_told"),
    [
        ("dflash", "0.33", {"max-num-batched-tokens": 50, "max-num-seqs": 16}, True),
        ("dspark", "0.33", {"max-num-batched-tokens": 50, "max-num-active-seqs": 16}, True),
        ("dflash", "0.33", {"max-num-batched-tokens": 80, "max-num-seqs": 16}, False),
        ("dflash", "0.33", {"max-num-batched-tokens": 50}, False),
        ("dflash", "0.32", {"max-num-batched-tokens": 50, "max-num-seqs": 16}, False),
        ("eagle3", "0.33", {"max-num-batched-tokens": 50, "max-num-seqs": 16}, False),
    ],
)
def test_block_drafters_lower_the_batch(
    method: str, version: str, args: dict[str, Any], is_told: bool
) -> None:
    problems = found(profile(method), version, args=args)
    assert codes(problems) == (["active-sequences"] if is_told else [])


def test_gpu_lookup_with_async_scheduling_is_fine() -> None:
    assert found(profile("ngram", device="gpu"), args={"async-scheduling": True}) == []


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        ({"kv-cache-dtype": "fp8", "kv_cache_dtype": "fp8"}, ["option-twice"]),
        ({"draft_sample_method": 5}, ["option-value"]),
        ({"enforce_eager": "maybe"}, ["option-value"]),
        ({"num_lookahead_tokens": 5}, ["removed-option"]),
        ({"parallel_drafting": True}, ["option-is-ours"]),
        ({"xpress_topc": 4}, ["unknown-option"]),
        ({"synthetic_acceptance_length": None}, []),
        ('{"draft_sample_method": "greedy"}', ["bad-value"]),
        ("method:dspark", ["shell-json"]),
        ("[" * 100_000, ["shell-json"]),
        ({"rejection_sample_method": "standard,synthetic"}, ["option-value"]),
        ({"rejection_sample_method": " synthetic"}, ["option-value"]),
        ({"rejection_sample_method": "Synthetic"}, ["option-value"]),
        ({"rejection_sample_method": "block"}, []),
        ('\\{\\"method\\": 1\\}', ["shell-json"]),
    ],
)
def test_keys_of_the_speculative_config(extra: Any, expected: list[str]) -> None:
    assert codes(found(profile("eagle3", extra=extra))) == expected


def test_json_text_is_to_be_a_mapping() -> None:
    (problem,) = found(profile("eagle3", extra='{"draft_sample_method": "greedy"}'))
    assert "YAML mapping" in problem.hint


def test_text_nested_without_end_is_refused_where_an_option_holds_it() -> None:
    deep = {"override-generation-config": "[" * 100_000}
    assert codes(found(profile("ngram", native=deep))) == ["shell-json", "arms-differ"]
    assert found(profile("ngram"), args=deep) == []
    assert codes(vllm.check_arguments(deep, "0.32.0")) == ["shell-json"]


def test_keys_given_twice_are_ours_once() -> None:
    made = profile("draft_model", extra={"kv_cache_dtype": "fp8"}, kv_cache_dtype="fp8")
    assert codes(found(made)) == ["option-is-ours"]


@pytest.mark.parametrize(
    ("extra", "gamma", "expected"),
    [
        ({"rejection_sample_method": "fly"}, 1, ["lossy", "fly-window"]),
        ({"rejection_sample_method": "fly", "fly_window_size": 3}, 4, ["lossy", "lossy"]),
        ({"synthetic_acceptance_length": 3}, 4, ["lossy", "wrong-method"]),
        (
            {"rejection_sample_method": "synthetic", "synthetic_acceptance_rates": [1, 1, 0, 0]},
            4,
            ["lossy", "lossy"],
        ),
    ],
)
def test_lossy_rules(extra: Any, gamma: int, expected: list[str]) -> None:
    assert codes(found(profile("eagle3", extra=extra, gamma=gamma), "0.33")) == expected


@pytest.mark.parametrize(
    ("name", "code", "hint"),
    [
        ("speculative_model", "renamed-option", "speculation.method"),
        ("--num-speculative-tokens", "renamed-option", "speculation.gamma"),
        ("use-v2-block-manager", "removed-option", "remove it"),
        ("disable-mm-embeds", "renamed-option", "enable-mm-embeds: false"),
        ("enable-custom-all-reduce", "renamed-option", "disable-custom-all-reduce: false"),
        ("disable-everything", "unknown-option", ""),
        ("max-num-seq", "unknown-option", "max-num-seqs"),
    ],
)
def test_names_of_other_ages(name: str, code: str, hint: str) -> None:
    (problem,) = vllm.check_arguments({name: True}, "0.32.0")
    assert problem.code == code
    assert hint in problem.hint


@pytest.mark.parametrize(
    ("option", "value", "code"),
    [
        ("max-num-seqs", "lots", "option-value"),
        ("max-num-seqs", 0, "option-value"),
        ("max-num-seqs", 8.5, "option-value"),
        ("max-num-batched-tokens", "8K", None),
        ("gpu-memory-utilization", 1.5, "option-value"),
        ("seed", "0", None),
        ("hf-overrides", {"a": 1}, None),
        ("disable-log-stats", True, "no-metrics"),
        ("load-format", "dummy", "lossy"),
        ("load_format", "DUMMY", "lossy"),
        ("load-format", "Dummy", "lossy"),
        ("load-format", "auto", None),
        ("uds", "/tmp/socket", "option-is-ours"),
        ("grpc", True, "option-is-ours"),
    ],
)
@pytest.mark.parametrize("version", ["0.31.0", "0.32.0", "0.33.0"])
def test_values_of_options(option: str, value: Any, code: str | None, version: str) -> None:
    assert codes(vllm.check_arguments({option: value}, version)) == ([code] if code else [])


@pytest.mark.parametrize(
    ("name", "value", "version", "code", "is_fatal"),
    [
        ("VLLM_USE_V1", "1", "0.32.0", "dead-variable", True),
        ("VLLM_USE_V2_MODEL_RUNER", "1", "0.32.0", "unknown-variable", True),
        ("VLLM_HOUSE_SCHEDULER", "1", "0.32.0", "unknown-variable", False),
        ("VLLM_ENGINE_ITERATION_TIMEOUT_S", "9", "0.32.0", "dead-variable", True),
        ("VLLM_BATCH_INVARIANT", "1", "0.32.0", "harmful-variable", False),
        ("VLLM_BATCH_INVARIANT", "1", "0.32.0+cpu", "harmful-variable", True),
        ("VLLM_SERVER_DEV_MODE", "1", "0.32.0", "harmful-variable", False),
        ("VLLM_KEEP_ALIVE_ON_ENGINE_DEATH", "1", "0.32.0", "harmful-variable", False),
        ("VLLM_TEST_FORCE_LOAD_FORMAT", "dummy", "0.32.0", "lossy", True),
        ("VLLM_PORT", "tcp://10.0.0.1:80", "0.32.0", "bad-value", True),
    ],
)
def test_variables(name: str, value: str, version: str, code: str, is_fatal: bool) -> None:
    (problem,) = vllm.check_environment({name: value}, version)
    assert (problem.code, problem.is_fatal, problem.path) == (code, is_fatal, (name,))


@pytest.mark.parametrize("version", ["0.31", "0.32", "0.33"])
def test_variables_that_are_fine(version: str) -> None:
    fine = {
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_SERVER_DEV_MODE": "0",
        "VLLM_BATCH_INVARIANT": "0",
        "VLLM_PORT": "8000",
        "HF_HUB_OFFLINE": "1",
    }
    assert vllm.check_environment(fine, version) == []


def facts(**fields: Any) -> Checkpoint:
    return Checkpoint("org/x", "huggingface", **fields)


@pytest.mark.parametrize(
    ("layers", "gamma", "architecture", "is_fine"),
    [
        (1, 5, "Glm4MoeForCausalLM", True),
        (2, 3, "Glm4MoeForCausalLM", False),
        (2, 2, "Glm4MoeForCausalLM", True),
        (3, 4, "MiMoV2ForCausalLM", True),
        (3, 4, None, False),
    ],
)
def test_mtp_layers(layers: int, gamma: int, architecture: str | None, is_fine: bool) -> None:
    target = facts(mtp_layers=layers, architecture=architecture)
    model = Model("small", "org/target", 4096, facts=target)
    problems = found(profile("mtp", gamma=gamma), model=model)
    assert codes(problems) == ([] if is_fine else ["gamma-multiple"])


@pytest.mark.parametrize(
    ("fields", "sizes", "is_refused"),
    [
        ({}, (151936, 152064), True),
        ({}, (152064, 152064), False),
        ({}, (None, 152064), False),
        ({"other_vocabulary": True}, (151936, 152064), False),
    ],
)
@pytest.mark.parametrize("version", ["0.31", "0.32", "0.33"])
def test_embeddings_of_one_vocabulary(
    fields: dict[str, Any], sizes: tuple[int | None, int], is_refused: bool, version: str
) -> None:
    draft, target = (
        facts(vocabulary_size=size, vocabulary=Vocabulary(("a", "b"))) for size in sizes
    )
    model = Model("small", "org/t", 4096, DRAFTS, facts=target, draft_facts={"draft_model": draft})
    problems = found(profile("draft_model", **fields), version, model=model)
    assert codes(problems) == (["vocabulary-size"] if is_refused else [])


@pytest.mark.parametrize(
    ("method", "fields", "is_told"),
    [
        ("draft_model", {}, True),
        ("eagle3", {"parallel": True}, True),
        ("eagle3", {}, False),
        ("ngram", {}, False),
    ],
)
def test_images_are_not_drafted_for(method: str, fields: dict[str, Any], is_told: bool) -> None:
    model = Model("small", "org/target", 4096, DRAFTS, facts=facts(is_multimodal=True))
    problems = found(profile(method, **fields), model=model)
    assert codes(problems) == (["multimodal"] if is_told else [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (8, 8),
        ("8", 8),
        ("8K", 8192),
        ("8k", 8000),
        ("25.6k", 25600),
        ("x", None),
        ("inf", None),
        (None, None),
    ],
)
def test_sizes(text: Any, expected: int | None) -> None:
    assert size({"n": text}, "n") == expected
    assert size({}, "n") is None
