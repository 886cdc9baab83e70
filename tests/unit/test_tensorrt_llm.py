"""TensorRT-LLM: what its goldens do not show, and conversations with scripted replies.

Nobody could run it here; the replies are as its source makes them (docs/verified.md).
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from adapters import tensorrt_llm
from adapters.checkpoint import Checkpoint
from adapters.exchange import Call, EngineAnswerError, Generation, Reply
from adapters.explain import explain
from adapters.launch import Model, WorkerSpec
from adapters.literature import LITERATURE, Entry
from adapters.problem import Problem
from adapters.profile import Drafted, Profile, Tier
from adapters.support import example, ideal_worker
from adapters.tensorrt_llm import conversation
from adapters.tensorrt_llm.conversation import UNKNOWN
from tests.unit.scripted import codes, talk

DRAFTS = {
    name: f"/m/{name}" for name in ("draft_model", "eagle", "eagle3", "medusa", "dflash", "dspark")
}
OLD, NEW = "1.2.1", "1.4.0rc4"
UNKNOWN_VERSIONS = ("0", "0.21.0", "1.0", "1.1.0rc5", "9.9", "nightly", "")
ROOT = Path(__file__).parents[2]
NGRAM = {"method": "ngram", "gamma": 4, "lookup": {"min": 1, "max": 3}}
EAGLE3 = {"method": "eagle3", "gamma": 4}
MTP = {"method": "mtp", "gamma": 3}


def profile(speculation: Mapping[str, Any], **fields: Any) -> Profile:
    data = {"profile": "p", "speculation": speculation, **fields}
    return Profile.model_validate_json(json.dumps(data))


def native(speculation: Mapping[str, Any], **options: Any) -> Profile:
    return profile(speculation, engine={"tensorrt_llm": options})


def worker(version: str = NEW, **fields: Any) -> WorkerSpec:
    settings: dict[str, Any] = {
        "name": "w",
        "engine_version": version,
        "command": ("trtllm-serve",),
        "model": Model("small", "org/target", 4096, DRAFTS),
        "port": 8000,
    }
    return WorkerSpec(**settings | fields)


def file_of(made: Profile, spec: WorkerSpec) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(tensorrt_llm.render(made, spec).files["serve.yaml"])
    return content


def check(speculation: Mapping[str, Any], version: str, **fields: Any) -> list[Problem]:
    return tensorrt_llm.check(profile(speculation), worker(version, **fields))


# Launching.


@pytest.mark.parametrize(
    ("command", "argv"),
    [
        (("trtllm-serve",), ("trtllm-serve", "org/target")),
        (
            ("/v/bin/python3",),
            ("/v/bin/python3", "-m", "tensorrt_llm.commands.serve", "serve", "org/target"),
        ),
    ],
)
def test_a_python_runs_the_server_module(command: tuple[str, ...], argv: tuple[str, ...]) -> None:
    assert tensorrt_llm.render(profile(NGRAM), worker(command=command)).argv[: len(argv)] == argv


def test_the_file_is_named_and_travels_with_the_launch() -> None:
    launch = tensorrt_llm.render(profile(NGRAM), worker())
    assert launch.arguments[-2:] == ("--config", "@files/serve.yaml")
    assert launch.placed("/run/w").arguments[-1] == "/run/w/serve.yaml"


@pytest.mark.parametrize("version", [OLD, NEW])
def test_the_models_revision_and_context_are_in_the_file(version: str) -> None:
    model = Model("small", "org/target", 2048, {}, "abc123")
    content = file_of(profile({"method": "none"}), worker(version, model=model))
    assert (content["revision"], content["max_seq_len"]) == ("abc123", 2048)
    bare = Model("small", "org/target", None, {})
    assert "max_seq_len" not in file_of(profile({"method": "none"}), worker(version, model=bare))


def test_only_newer_versions_have_an_option_for_the_served_name() -> None:
    assert "--served_model_name" in tensorrt_llm.render(profile(NGRAM), worker(NEW)).arguments
    assert "--served_model_name" not in tensorrt_llm.render(profile(NGRAM), worker(OLD)).arguments


def test_a_plain_worker_is_counted_too_and_has_no_speculation() -> None:
    content = file_of(profile({"method": "none"}), worker())
    assert content["return_perf_metrics"] is content["enable_iter_perf_stats"] is True
    assert "speculative_config" not in content


def test_the_tensorrt_backend_has_no_key_for_the_statistics_of_steps() -> None:
    medusa = profile({"method": "medusa", "gamma": 3})
    launch = tensorrt_llm.render(medusa, worker(OLD))
    assert launch.arguments[:2] == ("--backend", "tensorrt")
    assert "enable_iter_perf_stats" not in file_of(medusa, worker(OLD))


@pytest.mark.parametrize("backend", ["tensorrt", "trt"])
def test_a_plain_worker_may_have_the_backend_of_those_it_is_compared_with(backend: str) -> None:
    plain, spec = profile({"method": "none"}), worker(OLD, args={"backend": backend})
    assert tensorrt_llm.check_arguments(spec.args, OLD) == []
    assert tensorrt_llm.render(plain, spec).arguments[:2] == ("--backend", "tensorrt")


def test_each_option_has_one_place() -> None:
    options = {"tp_size": 2, "tool_parser": "qwen3", "trust-remote-code": True, "telemetry": False}
    launch = tensorrt_llm.render(profile(NGRAM), worker(args=options))
    content = yaml.safe_load(launch.files["serve.yaml"])
    assert (content["tensor_parallel_size"], content["trust_remote_code"]) == (2, True)
    assert launch.arguments[2:5] == ("--tool_parser", "qwen3", "--no-telemetry")
    assert "--tensor_parallel_size" not in launch.arguments


def test_a_flag_that_takes_several_values_is_repeated() -> None:
    options = {"custom-module-dirs": ["a", "b"], "allow_request_chat_template": True}
    arguments = tensorrt_llm.render(profile(NGRAM), worker(args=options)).arguments
    once = ("--custom_module_dirs", "a", "--custom_module_dirs", "b")
    assert arguments[2:7] == (*once, "--allow_request_chat_template")


@pytest.mark.parametrize("names", [("tp_size", "tensor-parallel-size"), ("max_batch_size",) * 2])
def test_the_fleets_options_win_by_any_name(names: tuple[str, str]) -> None:
    made = native(NGRAM, **{names[0]: 2})
    content = file_of(made, worker(args={names[1]: 4}))
    assert content[names[1].replace("-", "_")] == 4


def test_the_file_is_the_same_text_each_time() -> None:
    made = native(EAGLE3, max_batch_size=64, kv_cache_config={"dtype": "fp8"})
    assert tensorrt_llm.render(made, worker()) == tensorrt_llm.render(made, worker())


# Schedules, read as each engine reads them.


def upper(lengths: Mapping[int, int], batch: int) -> int:
    """The first key that is not below the batch; 0 beyond the last."""
    return next((lengths[key] for key in sorted(lengths) if batch <= key), 0)


def lower(lengths: Mapping[int, int], batch: int) -> int:
    """The last key that is not above the batch; 0 below the first."""
    return next((lengths[key] for key in sorted(lengths, reverse=True) if batch >= key), 0)


TIERS = {
    "one": [("1+", 4)],
    "two": [("1-8", 4), ("9+", 2)],
    "three": [("1", 4), ("2-31", 3), ("32+", 1)],
    "up again": [("1-4", 4), ("5-8", 1), ("9+", 3)],
    "beyond the batch": [("1-16", 4), ("17-90", 2), ("91+", 1)],
}
OFF = {"off": [("1-8", 4), ("9+", 0)], "off in between": [("1-8", 4), ("9-20", 0), ("21+", 2)]}
CASES = [
    *[(NEW, m, upper, TIERS) for m in ("draft_model", "eagle3", "mtp", "suffix", "dflash")],
    *[(NEW, "ngram", reading, {**TIERS, **OFF}) for reading in (upper, lower)],
    *[(OLD, m, lower, {**TIERS, **OFF}) for m in ("ngram", "draft_model")],
]


def tiers_of(made: Profile) -> tuple[Tier, ...]:
    assert isinstance(made.speculation, Drafted)
    return made.speculation.schedule or ()


@pytest.mark.parametrize(
    ("version", "method", "reading", "name", "tiers"),
    [(v, m, r, name, tiers) for v, m, r, all_ in CASES for name, tiers in all_.items()],
)
def test_the_engine_reads_the_schedule_that_the_profile_has(
    version: str, method: str, reading: Any, name: str, tiers: list[tuple[str, int]]
) -> None:
    schedule = [{"batch": batch, "gamma": gamma} for batch, gamma in tiers]
    speculation: dict[str, Any] = {"method": method, "gamma": 4, "schedule": schedule}
    if method == "suffix":
        speculation["cached_requests"] = 0
    made, spec = profile(speculation), worker(version, args={"max_batch_size": 64})
    assert not any(p.is_fatal for p in tensorrt_llm.check(made, spec))
    config = file_of(made, spec)["speculative_config"]
    lengths = config["draft_len_schedule"]
    for batch in range(1, 65):
        tier = next(t for t in tiers_of(made) if (t.batch.last or 64) >= batch)
        assert reading(lengths, batch) == tier.gamma, batch
    length = config.get("max_draft_len", config.get("num_nextn_predict_layers"))
    assert lengths[min(lengths)] == length == 4
    assert tensorrt_llm.render(made, spec).batch_limit is None


@pytest.mark.parametrize("method", ["eagle3", "mtp", "draft_model", "suffix"])
@pytest.mark.parametrize("tiers", OFF.values(), ids=OFF)
def test_a_one_engine_decoder_does_not_come_back_from_gamma_0(
    method: str, tiers: list[tuple[str, int]]
) -> None:
    """Where the fleet accepts the loss, it is written as 1, which the engine survives."""
    schedule = [{"batch": batch, "gamma": gamma} for batch, gamma in tiers]
    speculation = {"method": method, "gamma": 4, "schedule": schedule}
    speculation |= {"cached_requests": 0} if method == "suffix" else {}
    found = [p for p in check(speculation, NEW) if p.code == "schedule-ends-in-zero"]
    assert [p.severity for p in found] == ["lost"]
    lengths = file_of(profile(speculation), worker())["speculative_config"]["draft_len_schedule"]
    assert min(lengths.values()) == 1


@pytest.mark.parametrize(
    ("args", "end"),
    [({}, 2048), ({"max_batch_size": 32}, 32), ({"max-batch-size": 4}, 9)],
)
def test_the_open_range_ends_at_max_batch_size(args: dict[str, Any], end: int) -> None:
    schedule = [{"batch": "1-8", "gamma": 4}, {"batch": "9+", "gamma": 1}]
    made = profile({**EAGLE3, "schedule": schedule})
    config = file_of(made, worker(args=args))["speculative_config"]
    assert config["draft_len_schedule"] == {8: 4, end: 1}


@pytest.mark.parametrize(("version", "method"), [(OLD, "eagle3"), (OLD, "mtp"), (NEW, "dspark")])
def test_without_a_native_schedule_the_router_keeps_the_first_range(
    version: str, method: str
) -> None:
    off = [{"batch": "1-8", "gamma": 3}, {"batch": "9+", "gamma": 0}]
    speculation = {"method": method, "gamma": 4, "schedule": off}
    problems = check(speculation, version)
    assert [(p.code, p.severity) for p in problems] == [("schedule-by-router", "warning")]
    launch = tensorrt_llm.render(profile(speculation), worker(version))
    config = yaml.safe_load(launch.files["serve.yaml"])["speculative_config"]
    assert launch.batch_limit == 8
    assert "draft_len_schedule" not in config
    assert config.get("max_draft_len", config.get("num_nextn_predict_layers")) == 3


@pytest.mark.parametrize(
    ("tiers", "code"),
    [
        ([("1-8", 4), ("9+", 2)], "schedule-method"),
        ([("1-8", 0), ("9+", 2)], "schedule-method"),
        ([("1+", 4)], None),
    ],
)
def test_what_the_router_cannot_do_alone_is_lost(
    tiers: list[tuple[str, int]], code: str | None
) -> None:
    schedule = [{"batch": batch, "gamma": gamma} for batch, gamma in tiers]
    problems = check({**EAGLE3, "schedule": schedule}, OLD)
    assert [(p.code, p.severity) for p in problems] == ([(code, "lost")] if code else [])


@pytest.mark.parametrize("first", [0, 2])
@pytest.mark.parametrize(
    ("version", "speculation"),
    [
        (NEW, EAGLE3),
        (NEW, NGRAM),
        (NEW, MTP),
        (OLD, NGRAM),
        (NEW, {"method": "dflash", "gamma": 4}),
    ],
)
def test_the_first_range_must_have_the_largest_gamma(
    version: str, speculation: Mapping[str, Any], first: int
) -> None:
    schedule = [{"batch": 1, "gamma": first}, {"batch": "2+", "gamma": 3}]
    (problem,) = check({**speculation, "schedule": schedule}, version)
    assert (problem.code, problem.severity) == ("schedule-first", "lost")
    assert f"gamma {first}, and TensorRT-LLM wants the largest, 3, there" in problem.message


def test_trees_have_no_schedule() -> None:
    schedule = [{"batch": "1-8", "gamma": 4}, {"batch": "9+", "gamma": 2}]
    tree = {"branches": 2, "tokens": 8}
    assert codes(check({**EAGLE3, "schedule": schedule, "tree": tree}, NEW)) == ["schedule-method"]


@pytest.mark.parametrize(
    ("graphs", "code"),
    [({}, ["schedule-graphs"]), ({"max_batch_size": 512}, []), ({"batch_sizes": [1, 200]}, [])],
)
def test_ranges_without_a_cuda_graph_are_told(graphs: dict[str, Any], code: list[str]) -> None:
    schedule = [{"batch": "1-150", "gamma": 4}, {"batch": "151+", "gamma": 2}]
    made = native({**EAGLE3, "schedule": schedule}, cuda_graph_config=graphs)
    assert codes(tensorrt_llm.check(made, worker())) == code


# Methods.


def test_each_version_spells_the_draft_model_in_its_own_way() -> None:
    made = profile({"method": "draft_model", "gamma": 4})
    kinds = [file_of(made, worker(v))["speculative_config"]["decoding_type"] for v in (OLD, NEW)]
    assert kinds == ["DraftTarget", "Draft_Target"]


def test_the_length_of_mtp_is_where_each_version_reads_it() -> None:
    """1.2 copies num_nextn_predict_layers over max_draft_len."""
    configs = [file_of(profile(MTP), worker(v))["speculative_config"] for v in (OLD, NEW)]
    lengths = [{k: v for k, v in c.items() if "len" in k or "layers" in k} for c in configs]
    assert lengths == [{"num_nextn_predict_layers": 3}, {"max_draft_len": 3}]


@pytest.mark.parametrize(
    ("pool", "is_public"), [(None, False), ("request", False), ("shared", True)]
)
def test_a_pool_is_private_unless_it_is_asked_for(pool: str | None, is_public: bool) -> None:
    made = profile({**NGRAM, "pool": pool})
    assert file_of(made, worker())["speculative_config"]["is_public_pool"] is is_public


def test_parallel_drafts_are_another_class() -> None:
    made = profile({"method": "draft_model", "gamma": 8, "parallel": True})
    assert file_of(made, worker())["speculative_config"]["decoding_type"] == "PARD"


@pytest.mark.parametrize(
    ("cached", "batch", "slots", "code"),
    [
        (512, 64, 512, []),
        (5000, 64, 1024, [("pool-size", "lost")]),
        (32, 64, 32, [("pool-size", "error")]),
        (512, 2000, 512, [("pool-size", "error")]),
    ],
)
def test_a_shared_suffix_pool(cached: int, batch: int, slots: int, code: list[Any]) -> None:
    made = profile({"method": "suffix", "gamma": 8, "cached_requests": cached})
    spec = worker(args={"max_batch_size": batch, "max_num_tokens": 100_000})
    found = [p for p in tensorrt_llm.check(made, spec) if p.code == "pool-size"]
    assert [(p.code, p.severity) for p in found] == code
    assert file_of(made, spec)["speculative_config"]["global_pool_size"] == slots


def test_the_shipped_suffix_profile_starts_with_and_without_a_pool() -> None:
    text = (ROOT / "profiles/suffix.yaml").read_text("utf-8")
    made = Profile.model_validate(yaml.safe_load(text))
    for batch, slots in [(2048, None), (512, 1024)]:
        spec = worker(args={"max_batch_size": batch, "max_num_tokens": 100_000})
        problems = tensorrt_llm.check(made, spec)
        assert {p.severity for p in problems} == {"warning"}
        assert codes(problems).count("pool-size") == 1
        config = file_of(made, spec)["speculative_config"]
        assert (config["enable_global_pool"], config.get("global_pool_size")) == (
            slots is not None,
            slots,
        )


def test_defaults_of_a_suffix_tree_are_told_and_wishes_refused() -> None:
    bare = check({"method": "suffix", "gamma": 8, "cached_requests": 0}, NEW)
    assert {p.severity for p in bare} == {"warning"}
    wish = check({"method": "suffix", "gamma": 8, "cached_requests": 0, "max_depth": 24}, NEW)
    assert [p.path[-1] for p in wish if p.is_fatal] == ["max_depth"]
    none = check({"method": "suffix", "gamma": 8, "cached_requests": 0, "min_probability": 0}, NEW)
    assert [p.path[-1] for p in none] == ["max_depth", "max_factor"]


# Versions nobody has looked at.


@pytest.mark.parametrize("version", UNKNOWN_VERSIONS)
def test_any_version_has_an_answer_to_every_method(version: str) -> None:
    spec = ideal_worker(tensorrt_llm, version)
    for made in filter(None, map(example, LITERATURE)):
        problems = tensorrt_llm.check(made, spec) + tensorrt_llm.check_arguments({}, version)
        assert ("version-too-old" in codes(problems)) == (version[:1] in ("0", "1"))
        assert "unknown-version" in codes(problems)
        assert explain(tensorrt_llm, made, spec).accounts
        assert tensorrt_llm.render(made, spec).argv
        assert isinstance(tensorrt_llm.limits(made, version), dict)


@pytest.mark.parametrize("version", ["1.2.0rc1", "1.3.0rc9", NEW, "9.9", "nightly"])
def test_messages_name_the_version_that_was_given(version: str) -> None:
    options: dict[str, Any] = {"max_batch": 1, "kv_cache_dtype": "fp8", "log_levle": "info"}
    made = native(EAGLE3, speculative_config={"max_window": 3}, kv_cache_config={"dtipe": 1})
    spec = worker(version)
    problems = tensorrt_llm.check_arguments(options, version) + tensorrt_llm.check(made, spec)
    said = [p.message for p in problems if p.code in ("unknown-option", "renamed-option")]
    assert len(said) == 5
    assert [text for text in said if f"TensorRT-LLM {version} " not in text] == []


# Keys of the decoding classes.


@pytest.mark.parametrize("version", [OLD, NEW])
@pytest.mark.parametrize("entry", LITERATURE, ids=lambda entry: entry.name)
def test_no_key_that_is_rendered_may_be_given_natively(entry: Entry, version: str) -> None:
    made, spec = example(entry), ideal_worker(tensorrt_llm, version)
    if made is None or "no-method" in codes(tensorrt_llm.check(made, spec)):
        return
    for key, value in file_of(made, spec)["speculative_config"].items():
        engine = {"tensorrt_llm": {"speculative_config": {key: value}}}
        given = made.model_copy(update={"engine": engine})
        found = [p for p in tensorrt_llm.check(given, spec) if p.path[-1] == key]
        assert codes(found) == ["option-is-ours"], key


@pytest.mark.parametrize("version", [OLD, NEW])
def test_hints_offer_no_key_that_is_draftgates(version: str) -> None:
    for key in ("zzz", "max_draft_le", "decoding_typ", "speculative_mod"):
        made = native(EAGLE3, speculative_config={key: 1})
        (problem,) = [p for p in tensorrt_llm.check(made, worker(version)) if p.path[-1] == key]
        assert problem.code == "unknown-option"
        if problem.hint.startswith("known: "):
            assert "max_draft_len" not in problem.hint
            assert "decoding_type" not in problem.hint
        elif "load_format" not in problem.hint:
            assert "set speculation." in problem.hint
    (problem,) = tensorrt_llm.check_arguments({"max_seq_le": 9}, version)
    assert problem.hint == "did you mean 'max_seq_len'? it comes from models.<name>.context"


# A context above the model's own.


@pytest.mark.parametrize(
    ("method", "version", "fields", "found"),
    [
        (NGRAM, NEW, {}, ["lost"]),
        ({"method": "none"}, OLD, {}, ["lost"]),
        (NGRAM, NEW, {"env": {"TLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}}, ["warning"]),
        (NGRAM, OLD, {"env": {"TLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}}, ["lost"]),
        (
            NGRAM,
            NEW,
            {"args": {"env_overrides": {"TLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}}},
            ["warning"],
        ),
        ({"method": "medusa", "gamma": 3}, OLD, {}, ["warning"]),
    ],
)
def test_a_longer_context_than_the_models(
    method: Mapping[str, Any], version: str, fields: dict[str, Any], found: list[str]
) -> None:
    def said(context: int | None) -> list[str]:
        facts = Checkpoint("m", "huggingface", context=2048)
        model = Model("small", "org/target", context, DRAFTS, None, facts)
        problems = tensorrt_llm.check(profile(method), worker(version, model=model, **fields))
        return [p.severity for p in problems if p.code == "context-length"]

    assert said(2049) == found
    assert said(2048) == said(None) == []


@pytest.mark.parametrize(
    ("layers", "gamma", "options", "code"),
    [
        (1, 4, {}, []),
        (3, 3, {}, []),
        (3, 4, {}, ["mtp-layers"]),
        (1, 4, {"speculative_config": {"use_mtp_vanilla": True}}, ["mtp-layers"]),
    ],
)
def test_only_a_single_mtp_layer_is_run_again(
    layers: int, gamma: int, options: dict[str, Any], code: list[str]
) -> None:
    facts = Checkpoint("org/target", "huggingface", mtp_layers=layers)
    model = Model("small", "org/target", 4096, DRAFTS, facts=facts)
    made = native({"method": "mtp", "gamma": gamma}, **options)
    assert codes(tensorrt_llm.check(made, worker(model=model))) == code


@pytest.mark.parametrize(
    ("ranks", "asked", "code"), [(2, 2, []), (1, 2, ["draft-tp"]), (4, 1, ["draft-tp"])]
)
def test_a_draft_is_split_as_its_target_is(ranks: int, asked: int, code: list[str]) -> None:
    speculation = {"method": "draft_model", "gamma": 4, "tensor_parallel": asked}
    assert codes(check(speculation, NEW, args={"tp_size": ranks})) == code


@pytest.mark.parametrize("version", [OLD, NEW])
@pytest.mark.parametrize(
    ("key", "value"), [("parallel", True), ("kv_cache_dtype", "fp8"), ("kv_cache_dtype", "auto")]
)
def test_what_an_eagle3_head_cannot_have(version: str, key: str, value: Any) -> None:
    lost = [p.severity for p in check({**EAGLE3, key: value}, version)]
    assert lost == ([] if value == "auto" else ["lost"])


def test_mtp_layers_of_another_checkpoint_came_with_1_3() -> None:
    speculation = {**MTP, "draft": "eagle3"}
    assert codes(check(speculation, OLD)) == ["mtp-draft"]
    assert check(speculation, NEW) == []


# Native options.


@pytest.mark.parametrize("version", [OLD, NEW])
@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"model": "x"}, "option-is-ours"),
        ({"served-model-name": "x"}, "option-is-ours"),
        ({"extra_llm_api_options": "x.yaml"}, "option-is-ours"),
        ({"speculative_config": {"decoding_type": "MTP"}}, "option-is-ours"),
        ({"grpc": True}, "option-is-ours"),
        ({"checkpoint_loader": "x"}, "option-is-ours"),
        ({"free_gpu_memory_fraction": 0.8}, "renamed-option"),
        ({"use_cuda_graph": True}, "renamed-option"),
        ({"max_batch_size": "64"}, "option-value"),
        ({"max_batch_size": 0}, "option-value"),
        ({"enable_chunked_prefill": "yes"}, "option-value"),
        ({"guided_decoding_backend": "outlines"}, "option-value"),
        ({"kv_cache_config": {"dtipe": "fp8"}}, "unknown-option"),
        ({"kv_cache_config": {"max_tokens": "5"}}, "option-value"),
        ({"cuda_graph_config": {"batch_sizes": 8}}, "option-value"),
        ({"backend": "_autodeploy"}, "option-value"),
        ({"log_level": "loud"}, "option-value"),
        ({"max_batchsize": 8}, "unknown-option"),
    ],
)
def test_refused_options_of_a_fleet(version: str, options: dict[str, Any], code: str) -> None:
    problems = tensorrt_llm.check_arguments(options, version)
    assert codes(problems) == [code]
    assert problems[0].is_fatal
    assert problems[0].path[0] == next(iter(options))


@pytest.mark.parametrize("version", [OLD, NEW])
@pytest.mark.parametrize(
    "options",
    [
        {"max_batch_size": 64, "max_num_tokens": None},
        {"cuda_graph_config": None},
        {"cuda_graph_config": {"batch_sizes": [1, 2, 4]}},
        {"kv_cache_config": {"enable_block_reuse": False, "free_gpu_memory_fraction": 0.8}},
        {"guided_decoding_backend": "xgrammar"},
        {"tool_parser": "qwen3", "log_level": "info", "chat_template": "t.jinja"},
    ],
)
def test_known_options_of_a_fleet(version: str, options: dict[str, Any]) -> None:
    assert tensorrt_llm.check_arguments(options, version) == []


def test_an_option_by_two_names_is_told() -> None:
    problems = tensorrt_llm.check_arguments({"tp_size": 2, "tensor_parallel_size": 4}, NEW)
    assert codes(problems) == ["option-twice"]


@pytest.mark.parametrize(
    ("version", "speculation", "extra", "code"),
    [
        (NEW, EAGLE3, {"max_draft_len": 8}, "option-is-ours"),
        (NEW, EAGLE3, {"speculative_model_dir": "/m"}, "option-is-ours"),
        (NEW, EAGLE3, {"max_concurrency": 8}, "option-is-ours"),
        (NEW, EAGLE3, {"use_dynamic_tree": True}, "option-is-ours"),
        (NEW, {"method": "suffix", "gamma": 4, "cached_requests": 0, "min_probability": 0},
         {"max_matching_ngram_size": 3}, "option-is-ours"),
        (OLD, EAGLE3, {"allow_advanced_sampling": False}, "option-is-ours"),
        (NEW, EAGLE3, {"allow_advanced_sampling": True}, "removed-option"),
        (NEW, MTP, {"num_nextn_predict_layers": 3}, "renamed-option"),
        (NEW, MTP, {"mtp_eagle_one_model": True}, "removed-option"),
        (NEW, MTP, {"relaxed_topk": "3"}, "option-value"),
        (NEW, MTP, {"sa_config": {"threshold": 0}}, "option-value"),
        (NEW, MTP, {"advanced_sampling_mode": "none"}, "option-value"),
        (NEW, NGRAM, {"acceptance_rate_threshold": 0.3}, "ignored-option"),
        (NEW, MTP, {"acceptance_rate_threshold": 0.3}, "acceptance-gate"),
        (OLD, NGRAM, {"acceptance_window": 100}, "acceptance-gate"),
        (NEW, MTP, 5, "bad-value"),
    ],
)  # fmt: skip
def test_refused_keys_of_the_decoding_class(
    version: str, speculation: dict[str, Any], extra: Any, code: str
) -> None:
    found = tensorrt_llm.check(native(speculation, speculative_config=extra), worker(version))
    assert code in codes(found)


def test_a_plain_profile_takes_no_speculative_config() -> None:
    made = native({"method": "none"}, speculative_config={"enable_penalty": True})
    assert codes(tensorrt_llm.check(made, worker())) == ["option-is-ours"]


def test_a_trees_branches_are_given_natively_for_mtp() -> None:
    extra = {"use_dynamic_tree": True, "dynamic_tree_max_topK": 4}
    assert tensorrt_llm.check(native(MTP, speculative_config=extra), worker()) == []


@pytest.mark.parametrize(
    ("speculation", "options", "code"),
    [
        (EAGLE3, {"pp_size": 2}, "pipeline-parallel"),
        (EAGLE3, {"cp_size": 2}, "context-parallel"),
        (EAGLE3, {"enable_lora": True}, "lora"),
        (EAGLE3, {"attn_backend": "FLASHINFER"}, "attention-backend"),
        (EAGLE3, {"max_batch_size": 2000}, "token-budget"),
        ({"method": "draft_model", "gamma": 8, "parallel": True},
         {"max_batch_size": 1000}, "token-budget"),
        (NGRAM, {"disable_overlap_scheduler": False}, "overlap-scheduler"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("layer", ["profile", "fleet"])
def test_combinations_are_seen_in_both_layers(
    speculation: dict[str, Any], options: dict[str, Any], code: str, layer: str
) -> None:
    made = native(speculation, **options) if layer == "profile" else profile(speculation)
    spec = worker(args=options if layer == "fleet" else {})
    assert codes(tensorrt_llm.check(made, spec)) == [code]
    plain = native({"method": "none"}, **options)
    assert tensorrt_llm.check(plain, worker()) == []


@pytest.mark.parametrize("batch", [1638, 64])
def test_a_budget_that_is_enough(batch: int) -> None:
    assert check(EAGLE3, NEW, args={"max_batch_size": batch}) == []


def test_attention_data_parallelism_counts_a_ranks_own_batch() -> None:
    schedule = [{"batch": "1-8", "gamma": 4}, {"batch": "9+", "gamma": 2}]
    found = check({**EAGLE3, "schedule": schedule}, NEW, args={"enable_attention_dp": True})
    assert codes(found) == ["schedule-attention-dp"]


@pytest.mark.parametrize(
    ("speculation", "extra", "options", "is_refused"),
    [
        (MTP, {}, {}, False),
        (MTP, {"sa_config": {}}, {}, True),
        ({**EAGLE3, "tree": {"branches": 40, "tokens": 80}}, {}, {}, True),
        ({**EAGLE3, "tree": {"branches": 32, "tokens": 80}}, {}, {}, False),
        ({"method": "dflash", "gamma": 4}, {}, {"guided_decoding_backend": "xgrammar"}, True),
        ({"method": "dflash", "gamma": 4}, {}, {}, False),
        (EAGLE3, {}, {"guided_decoding_backend": "xgrammar"}, False),
    ],
)
def test_rejection_sampling(
    speculation: dict[str, Any], extra: dict[str, Any], options: dict[str, Any], is_refused: bool
) -> None:
    extra = {"use_rejection_sampling": True, **extra}
    made = native(speculation, speculative_config=extra, **options)
    found = codes(tensorrt_llm.check(made, worker()))
    assert found == (["rejection-sampling"] if is_refused else [])


@pytest.mark.parametrize(
    ("version", "is_broken"), [("1.3.0rc15", True), ("1.3.0rc16", False), ("1.4.0rc1", False)]
)
def test_guided_decoding_and_gamma_0(version: str, is_broken: bool) -> None:
    schedule = [{"batch": "1-8", "gamma": 4}, {"batch": "9+", "gamma": 0}]
    args = {"guided_decoding_backend": "xgrammar"}
    found = codes(check({**EAGLE3, "schedule": schedule}, version, args=args))
    assert ("guided-schedule" in found) is is_broken


def test_a_fleets_options_of_the_other_backend_are_refused_with_the_method() -> None:
    found = check({"method": "medusa", "gamma": 3}, OLD, args={"cuda_graph_config": {}})
    assert codes(found) == ["backend"]
    assert check(EAGLE3, OLD, args={"cuda_graph_config": {}}) == []


def test_forced_acceptance_is_always_refused() -> None:
    name = "TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS"
    assert codes(tensorrt_llm.check_environment({name: "2", "HOME": "/"}, NEW)) == ["lossy"]
    assert tensorrt_llm.check_environment({"HOME": "/"}, NEW) == []


# Versions and limits.


@pytest.mark.parametrize("version", ["1.3.0rc2", "1.3.0rc29", "1.4.0rc4", "1.4.1"])
def test_candidates_are_spoken_to_as_1_3(version: str) -> None:
    assert tensorrt_llm.check_arguments({}, version) == []
    assert codes(tensorrt_llm.check_arguments({"sampler_type": "auto"}, version)) == [
        "removed-option"
    ]


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ("[TensorRT-LLM] TensorRT LLM version: 1.2.1\nUsage: trtllm-serve [OPTIONS]\n", "1.2.1"),
        ("2026-07-22 INFO a\n[TensorRT-LLM] TensorRT-LLM version: 1.3.0rc22\n", "1.3.0rc22"),
        ("1.4.0rc1\n", "1.4.0rc1"),
        ("tensorrt-llm not found\n", None),
        ("Usage: trtllm-serve [OPTIONS]\n  --port INTEGER  8000 or 1.5\n", None),
    ],
)
def test_the_version_in_the_output(output: str, version: str | None) -> None:
    assert tensorrt_llm.read_version(output) == version


def test_the_version_is_asked_of_the_program_or_its_python() -> None:
    assert tensorrt_llm.version_commands(("trtllm-serve",)) == (("trtllm-serve", "--help"),)
    (argv,) = tensorrt_llm.version_commands(("/v/bin/python",))
    assert argv[:2] == ("/v/bin/python", "-c")
    compile(argv[2], "version", "exec")


def limited(speculation: dict[str, Any], version: str, **extra: Any) -> set[str]:
    made = native(speculation, speculative_config=extra)
    return set(tensorrt_llm.limits(made, version))


def test_limits() -> None:
    always = {"logprobs", "top_logprobs", "lora_request"}
    penalties = {"repetition_penalty", "presence_penalty", "frequency_penalty"}
    assert limited({"method": "none"}, NEW) == set()
    assert limited(EAGLE3, OLD) == limited(NGRAM, NEW) == always
    assert limited(EAGLE3, NEW) == always | penalties
    assert limited(EAGLE3, NEW, enable_penalty=True) == always
    filters = limited(EAGLE3, NEW, enable_penalty=True, advanced_sampling_mode="no_topk")
    assert filters == always | {"top_k", "min_p"}


# Speaking to it.

COUNTERS = """\
trtllm_spec_decode_num_draft_tokens_total{{engine_type="undefined"}} {drafted}
trtllm_spec_decode_num_accepted_tokens_total{{engine_type="undefined"}} {accepted}
"""
NO_COUNTERS = 'trtllm_generation_tokens_total{engine_type="undefined"} 5.0\n'
STEPS = [
    {"iter": 1, "numActiveRequests": 1},
    {"iter": 2, "specDecodingStats": {"numDraftTokens": 4, "numAcceptedTokens": 3}},
    {"iter": 3, "specDecodingStats": {"numDraftTokens": 4, "numAcceptedTokens": 1}},
]


def completion(length: float | None) -> dict[str, Any]:
    choice = {"token_ids": [5] * 48, "avg_decoded_tokens_per_iter": length}
    return {"choices": [choice], "usage": {"prompt_tokens": 48, "completion_tokens": 48}}


def body_of(call: Call) -> Mapping[str, Any]:
    assert call.body is not None
    return call.body


def test_identity() -> None:
    models = {"object": "list", "data": [{"id": "small", "owned_by": "tensorrt_llm"}]}
    calls, identity = talk(conversation.identify(), [{"version": "1.2.1"}, models])
    assert [c.path for c in calls] == ["/version", "/v1/models"]
    assert (identity.version, identity.models, identity.weights) == ("1.2.1", ("small",), None)


def test_vllm_is_not_taken_for_it() -> None:
    """At an address that somebody gave, each adapter asks in turn."""
    models = {"object": "list", "data": [{"id": "small", "owned_by": "vllm"}]}
    with pytest.raises(EngineAnswerError, match="owned by vllm"):
        talk(conversation.identify(), [{"version": "0.32.0"}, models])


def test_a_completion() -> None:
    (call,), fingerprint = talk(conversation.complete("small"), [completion(1.0)])
    assert fingerprint == ""
    assert body_of(call)["temperature"] == 0


def test_a_completion_of_nothing_is_an_error() -> None:
    answer = {"choices": [], "usage": {"completion_tokens": 0}}
    with pytest.raises(EngineAnswerError, match="completed nothing"):
        talk(conversation.complete("small"), [answer])


@pytest.mark.parametrize(
    ("replies", "counts"),
    [
        ([COUNTERS.format(drafted=4, accepted=1), 2.0, [],
          COUNTERS.format(drafted=44, accepted=31)], (40, 30)),
        (["", 1.0, [], COUNTERS.format(drafted=8, accepted=0)], (8, 0)),
        ([NO_COUNTERS, 1.5, STEPS, NO_COUNTERS], (8, 4)),
        ([NO_COUNTERS, 1.5, [json.dumps(step) for step in STEPS], NO_COUNTERS], (8, 4)),
        ([COUNTERS.format(drafted=0, accepted=0), 3.0, [], COUNTERS.format(drafted=0, accepted=0)],
         (None, 32)),
        ([NO_COUNTERS, 1.0, STEPS[:1], NO_COUNTERS], (None, None)),
        ([NO_COUNTERS, None, [], NO_COUNTERS], (None, None)),
    ],
    ids=["counters", "first drafts", "steps", "steps as text", "length", "plain", "silent"],
)  # fmt: skip
def test_proof(replies: list[Any], counts: tuple[int | None, int | None]) -> None:
    """1.2 fills no counters; then steps tell, and if these are silent, the tokens per step."""
    before, length, steps, after = replies
    script = [before, STEPS, completion(length), steps, after]
    calls, proof = talk(conversation.prove("small", profile(EAGLE3)), script)
    prom, json_ = "/prometheus/metrics", "/metrics"
    assert [c.path for c in calls] == [prom, json_, "/v1/completions", json_, prom]
    assert (proof.drafted, proof.accepted) == counts
    assert "logit_bias" not in body_of(calls[2])


def test_the_proof_of_a_lookup_makes_the_answer_repeat_itself() -> None:
    made = profile({**NGRAM, "lookup": {"min": 1, "max": 200}})
    calls, _ = talk(conversation.prove("small", made), ["", [], completion(1.0), [], ""])
    body = body_of(calls[2])
    assert len(body["prompt"]) > 200
    assert body["logit_bias"] == {str(body["prompt"][0]): 100}


def test_metrics_that_are_not_served_are_no_proof() -> None:
    """An engine that somebody else started may serve none; the tokens per step tell then."""
    held = conversation.prove("small", profile(EAGLE3))
    call = next(held)
    for _ in range(4):
        call = held.send(bare_reply(call))
    with pytest.raises(StopIteration) as stop:
        held.send(bare_reply(call))
    assert (stop.value.value.drafted, stop.value.value.accepted) == (None, 24)


def bare_reply(call: Call) -> Reply:
    body = json.dumps(completion(2.0)) if call.body else "[]"
    return Reply(call, 404 if "prometheus" in call.path else 200, body)


def test_generation_of_a_prompt_in_ids() -> None:
    choice = {"token_ids": [3, 4], "text": "", "finish_reason": "length"}
    (call,), answer = talk(
        conversation.generate("small", {"prompt": [1, 2], "max_tokens": 2}), [{"choices": [choice]}]
    )
    assert answer == Generation((1, 2), (3, 4), "", "length")
    assert body_of(call)["detokenize"] is False
    assert body_of(call)["repetition_penalty"] == 1


@pytest.mark.parametrize(
    ("told", "ids"),
    [
        ({"count": 3, "tokens": [1, 7, 8]}, (1, 7, 8)),
        ({"count": 2, "tokens": [7, 8]}, (UNKNOWN,) * 3),
    ],
)
def test_ids_of_a_text_prompt(told: dict[str, Any], ids: tuple[int, ...]) -> None:
    """A count that differs is of another text: it may not stand for what the engine read."""
    answer = {
        "choices": [{"token_ids": [3], "text": "", "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 1},
    }
    calls, found = talk(conversation.generate("small", {"prompt": "say"}), [answer, told])
    assert calls[1] == Call("/_internal/tokenize", {"prompt": "say"})
    assert found.prompt_ids == ids


def test_a_version_that_does_not_tokenize_leaves_the_ids_unknown() -> None:
    held = conversation.generate("small", {"prompt": "say"})
    answer = {"choices": [{"token_ids": [3]}], "usage": {"prompt_tokens": 2}}
    call = held.send(Reply(next(held), 200, json.dumps(answer)))
    with pytest.raises(StopIteration) as stop:
        held.send(Reply(call, 404, "Not Found"))
    assert stop.value.value.prompt_ids == (UNKNOWN, UNKNOWN)


def test_what_newer_ones_count_for_an_answer_is_kept() -> None:
    told = {"total_draft_tokens": 12, "total_accepted_draft_tokens": 9, "num_spec_steps": 3}
    choice = {"token_ids": [3], "finish_reason": "stop", "speculative_decoding": told}
    _, answer = talk(conversation.generate("small", {"prompt": [1]}), [{"choices": [choice]}])
    assert (answer.drafted, answer.accepted) == (12, 9)


def test_a_chat_has_no_token_ids() -> None:
    answer = {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}
    with pytest.raises(EngineAnswerError, match="write the line with `prompt`"):
        talk(conversation.generate("small", {"messages": []}), [answer])


def test_candidates_know_the_id_of_the_best_alone() -> None:
    choice = {"token_ids": [9], "logprobs": {"top_logprobs": [{" b": -1.5, " a": -0.25}]}}
    (call,), found = talk(conversation.candidates("small", (1, 2)), [{"choices": [choice]}])
    assert [(c.token, c.logprob, c.text) for c in found] == [
        (9, -0.25, " a"),
        (UNKNOWN, -1.5, " b"),
    ]
    assert body_of(call)["prompt"] == [1, 2]


def test_candidates_after_unknown_ids_are_not_asked_for() -> None:
    with pytest.raises(EngineAnswerError, match="does not tell the ids"):
        next(conversation.candidates("small", (1, UNKNOWN)))
