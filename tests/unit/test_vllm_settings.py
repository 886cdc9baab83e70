"""vLLM: every key of every method is said in its words, or refused."""

import json
from typing import Any

import pytest

from adapters import vllm
from adapters.checkpoint import Checkpoint
from adapters.explain import explain
from adapters.launch import Model, WorkerSpec
from adapters.profile import Profile
from adapters.setting import values
from adapters.vllm.settings import SCHEDULE as SCHEDULE_KEY

VERSIONS = ("0.31", "0.32", "0.33")
DRAFTED = {"draft": "d", "tensor_parallel": 1, "kv_cache_dtype": "fp8"}
TREE = {"branches": 2, "tokens": 8}
EVERY: dict[str, dict[str, Any]] = {
    "ngram": {"lookup": {"min": 2, "max": 5}, "pool": "request", "device": "gpu"},
    "suffix": {"max_depth": 8, "cached_requests": 0, "max_factor": 2.0, "min_probability": 0.5},
    "draft_model": {**DRAFTED, "parallel": True, "other_vocabulary": True},
    "eagle": {**DRAFTED, "tree": TREE},
    "eagle3": {**DRAFTED, "tree": TREE, "parallel": True},
    "mtp": DRAFTED,
    "medusa": DRAFTED,
    "mlp_speculator": DRAFTED,
    "dflash": DRAFTED,
    "dspark": DRAFTED,
    "lookahead": {"window": 4, "candidates": 4},
    "custom": {"proposer": "package.Proposer"},
}
SCHEDULE = [{"batch": "1-4", "gamma": 4}, {"batch": "5+", "gamma": 0}]


def profile(method: str, **fields: Any) -> Profile:
    data = {"profile": "p", "speculation": {"method": method, "gamma": 4, **fields}}
    return Profile.model_validate_json(json.dumps(data))


def worker(version: str = "0.32", **fields: Any) -> WorkerSpec:
    model = Model("small", "org/target", 4096, {"d": "org/draft", "draft_model": "org/draft"})
    settings = {"model": model, **fields}
    return WorkerSpec("w", version, ("vllm",), port=8000, **settings)


def config(made: Profile, spec: WorkerSpec | None = None) -> dict[str, Any]:
    return dict(values(vllm.settings(made, spec or worker())))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("schedule", [None, SCHEDULE], ids=["fixed", "scheduled"])
@pytest.mark.parametrize("method", EVERY)
def test_no_key_is_silently_dropped(method: str, schedule: Any, version: str) -> None:
    made = profile(method, **EVERY[method], **({"schedule": schedule} if schedule else {}))
    settings = vllm.settings(made, worker(version))
    said = {p.path for p in vllm.check(made, worker(version)) if p.is_fatal}
    for account in explain(vllm, made, worker(version)).accounts:
        if account.path[0] == "speculation" and ("speculation", "method") not in said:
            is_told = account.path in {s.path for s in settings}
            is_told |= any(path == account.path[: len(path)] for path in said)
            assert is_told, account.path


@pytest.mark.parametrize("version", [*VERSIONS, "0.33+cpu"])
@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("method", EVERY)
def test_no_launch_holds_a_schedule_that_is_lost(method: str, ranks: int, version: str) -> None:
    """What `degrade: allow` would start: the schedule is left out, and gamma with its message."""
    made = profile(method, **EVERY[method], schedule=SCHEDULE)
    spec = worker(version, args={"data-parallel-size": ranks})
    problems = vllm.check(made, spec)
    if any(p.code == "no-method" for p in problems):
        return
    lost = [p for p in problems if p.path == ("speculation", "schedule") and p.severity == "lost"]
    assert all("gamma stays 4" in p.message for p in lost)
    assert bool(lost) or ranks == 1
    argv = vllm.render(made, spec).argv
    config = json.loads(argv[argv.index("--speculative-config") + 1])
    assert (SCHEDULE_KEY in config) is not bool(lost)
    assert config["num_speculative_tokens"] == 4


@pytest.mark.parametrize("method", EVERY)
def test_keys_left_out_have_their_defaults_accounted_for(method: str) -> None:
    required = {
        key: value
        for key, value in EVERY[method].items()
        if key in ("draft", "window", "candidates", "proposer")
    }
    made = profile(method, **required)
    told = {s.path for s in vllm.settings(made, worker())}
    said = {p.path for p in vllm.check(made, worker())}
    for account in explain(vllm, made, worker()).accounts:
        if account.path[0] == "speculation" and ("speculation", "method") not in said:
            assert account.path in told, account.path


@pytest.mark.parametrize(
    ("method", "fields", "expected"),
    [
        ("ngram", {"device": "gpu"}, {"method": "ngram_gpu", "prompt_lookup_min": 2}),
        ("ngram", {}, {"method": "ngram", "prompt_lookup_max": 4}),
        ("custom", {"proposer": "a.B"}, {"method": "custom_class", "model": "a.B"}),
        ("draft_model", {"parallel": True}, {"parallel_drafting": True}),
        ("draft_model", {"other_vocabulary": True}, {"use_heterogeneous_vocab": True}),
        ("draft_model", {"kv_cache_dtype": "fp8_e5m2"}, {"kv_cache_dtype": "fp8_e5m2"}),
        ("eagle3", {"draft": "d", "parallel": True}, {"parallel_drafting": True}),
        ("eagle", {"draft": "d"}, {"method": "eagle", "model": "org/draft"}),
        ("dflash", {"draft": "d", "tensor_parallel": 1}, {"draft_tensor_parallel_size": 1}),
        ("mtp", {"draft": "d"}, {"method": "mtp", "model": "org/draft"}),
    ],
)
def test_a_key_in_vllms_words(
    method: str, fields: dict[str, Any], expected: dict[str, Any]
) -> None:
    found = config(profile(method, **fields))
    assert expected.items() <= found.items()


@pytest.mark.parametrize("method", ["mtp", "dspark"])
def test_a_drafter_in_the_target_has_no_model_of_its_own(method: str) -> None:
    assert config(profile(method)) == {"method": method, "num_speculative_tokens": 4}


def test_switches_that_are_off_are_left_out() -> None:
    found = config(profile("draft_model", parallel=False, other_vocabulary=False))
    assert set(found) == {"method", "model", "num_speculative_tokens"}


def test_native_keys_are_written_with_underscores() -> None:
    data = {
        "profile": "p",
        "speculation": {"method": "ngram", "gamma": 4},
        "engine": {"vllm": {"speculative_config": {"draft-sample-method": "greedy"}}},
    }
    made = Profile.model_validate_json(json.dumps(data))
    argv = vllm.render(made, worker()).argv
    assert '"draft_sample_method":"greedy"' in argv[argv.index("--speculative-config") + 1]


@pytest.mark.parametrize(
    ("version", "method", "env", "is_told"),
    [
        ("0.32", "ngram", {}, True),
        ("0.33", "ngram", {}, False),
        ("0.33", "ngram", {"VLLM_USE_V2_MODEL_RUNNER": "0"}, True),
        ("0.33+cpu", "ngram", {}, True),
        ("0.33", "suffix", {}, True),
        ("0.32", "eagle3", {}, False),
    ],
)
def test_who_turns_async_scheduling_off(
    version: str, method: str, env: dict[str, str], is_told: bool
) -> None:
    first, *_ = vllm.settings(profile(method), worker(version, env=env))
    assert ("async scheduling" in first.effect) is is_told


def test_the_gpus_lookup_keeps_async_scheduling() -> None:
    first, *_ = vllm.settings(profile("ngram", device="gpu"), worker())
    assert first.effect == ""


@pytest.mark.parametrize(
    ("version", "context", "env", "is_told"),
    [
        ("0.33", 1024, {}, True),
        ("0.33", 4096, {}, False),
        ("0.33", None, {}, False),
        ("0.32", 1024, {}, False),
        ("0.33", 1024, {"VLLM_USE_V2_MODEL_RUNNER": "0"}, False),
    ],
)
def test_a_shorter_draft_shortens_the_target_on_0_33(
    version: str, context: int | None, env: dict[str, str], is_told: bool
) -> None:
    facts = {"draft_model": Checkpoint("org/draft", "huggingface", context=context)}
    model = Model("small", "org/target", 4096, {"draft_model": "org/draft"}, draft_facts=facts)
    settings = vllm.settings(profile("draft_model"), worker(version, model=model, env=env))
    (draft,) = [s for s in settings if s.name == "model"]
    assert ("from 4096 to the draft's 1024" in draft.effect) is is_told


def test_plain_has_no_native_words() -> None:
    made = Profile.model_validate({"profile": "plain", "speculation": {"method": "none"}})
    assert values(vllm.settings(made, worker())) == {}


def test_limits_are_those_of_the_method() -> None:
    assert set(vllm.limits(profile("suffix"), "0.32")) == {"min_p", "logit_bias"}
    assert "response_format" in vllm.limits(profile("ngram", device="gpu"), "0.32")
    plain = Profile.model_validate({"profile": "plain", "speculation": {"method": "none"}})
    assert vllm.limits(plain, "0.32") == {}
