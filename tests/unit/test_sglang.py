"""SGLang: what its goldens and refusal cases do not show."""

import json
from typing import Any

import pytest

from adapters import sglang
from adapters.checkpoint import Checkpoint, Vocabulary
from adapters.explain import explain
from adapters.flag import load_flags
from adapters.launch import Model, WorkerSpec
from adapters.literature import LITERATURE
from adapters.profile import Profile
from adapters.sglang.words import ALGORITHMS, NEAREST, OURS
from adapters.support import example, ideal_worker
from tests.unit.scripted import codes

DRAFTS = {
    "draft_model": "org/draft",
    "eagle": "org/eagle",
    "eagle3": "org/eagle3",
    "dflash": "org/dflash",
}
VERSIONS = [dialect.name for dialect in sglang.SUPPORTED]
TREE = {"branches": 4, "tokens": 16}


def profile(method: str, native: dict[str, Any] | None = None, **fields: Any) -> Profile:
    spec = {"method": method} if method == "none" else {"method": method, "gamma": 4, **fields}
    data = {"profile": "p", "speculation": spec, "engine": {"sglang": native or {}}}
    return Profile.model_validate_json(json.dumps(data))


def worker(version: str = "0.5.23", **fields: Any) -> WorkerSpec:
    settings: dict[str, Any] = {
        "name": "w",
        "engine_version": version,
        "command": ("sglang",),
        "model": Model("small", "org/target", 4096, DRAFTS),
        "port": 8000,
    }
    return WorkerSpec(**settings | fields)


def option(launched: Profile, name: str, spec: WorkerSpec | None = None) -> str | None:
    argv = sglang.render(launched, spec or worker()).argv
    return argv[argv.index(f"--{name}") + 1] if f"--{name}" in argv else None


# Launching.


@pytest.mark.parametrize(
    ("command", "argv"),
    [
        (("sglang",), ("sglang", "serve", "--model-path", "org/target")),
        (
            ("/v/bin/python3.12",),
            ("/v/bin/python3.12", "-m", "sglang.launch_server", "--model-path", "org/target"),
        ),
    ],
)
def test_a_python_runs_the_server_module(command: tuple[str, ...], argv: tuple[str, ...]) -> None:
    made = sglang.render(profile("ngram"), worker(command=command))
    assert made.argv[: len(argv)] == argv


def test_revision_and_context_are_written_where_given() -> None:
    model = Model("small", "org/target", None, {}, "abc")
    arguments = sglang.render(profile("ngram"), worker(model=model)).arguments
    assert arguments[:5] == (
        "--served-model-name",
        "small",
        "--revision",
        "abc",
        "--enable-metrics",
    )


def test_a_plain_worker_has_nothing_of_speculation() -> None:
    arguments = sglang.render(profile("none"), worker()).arguments
    assert not [a for a in arguments if "specul" in a or "max-running" in a]


@pytest.mark.parametrize("layer", ["native", "args"])
def test_the_users_number_of_requests_is_kept(layer: str) -> None:
    name = "max-running-requests"
    native = {name: 200} if layer == "native" else {}
    spec = worker(args={name: 200} if layer == "args" else {})
    argv = sglang.render(profile("eagle3", native), spec).argv
    assert argv.count(f"--{name}") == 1
    assert option(profile("eagle3", native), name, spec) == "200"
    assert option(profile("eagle3"), name) == "48"


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ("sglang version: 0.5.23\ngit revision: 1234567\n", "0.5.23"),
        ("0.5.14.post1\n", "0.5.14.post1"),
        ("WARNING 2026.1 of something\n0.5.10rc0\n", "0.5.10rc0"),
        ("sglang: command not found\n", None),
    ],
)
def test_the_version_in_the_output(output: str, version: str | None) -> None:
    assert sglang.read_version(output) == version


def test_the_version_is_asked_of_the_program_or_its_python() -> None:
    assert sglang.version_commands(("sglang",)) == (("sglang", "version"),)
    (argv,) = sglang.version_commands(("/v/bin/python",))
    compile(argv[2], "version", "exec")


# Methods and their numbers.


def test_each_method_is_had_or_has_a_nearest_one() -> None:
    assert {*ALGORITHMS, *NEAREST} >= {"suffix", "medusa", "lookahead", "mlp_speculator", "custom"}
    for method in ("suffix", "medusa", "mlp_speculator"):
        (problem,) = sglang.check(profile(method), worker())
        assert (problem.code, problem.hint) == ("no-method", NEAREST[method])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("method", "fields", "numbers"),
    [
        ("eagle", {}, ("4", "1", "5")),
        ("eagle3", {"tree": TREE}, ("4", "4", "17")),
        ("mtp", {}, ("4", "1", "5")),
        ("draft_model", {}, ("4", "1", "5")),
        ("dflash", {}, ("1", "1", "5")),
        ("ngram", {}, ("5", "1", "5")),
    ],
)
def test_the_three_numbers_are_written_together(
    method: str, fields: dict[str, Any], numbers: tuple[str, ...], version: str
) -> None:
    """SGLang dies of two of them; n-gram steps are derived, from 0.5.14 on."""
    made, spec = profile(method, **fields), worker(version)
    names = ("num-steps", "eagle-topk", "num-draft-tokens")
    found = tuple(option(made, f"speculative-{name}", spec) for name in names)
    if codes(sglang.check(made, spec)) == ["no-method"]:
        assert (method, version) == ("dflash", "0.5.10")
    elif method == "ngram" and version in ("0.5.10", "0.5.11"):
        assert found == (None, *numbers[1:])
    else:
        assert found == numbers


@pytest.mark.parametrize(
    ("method", "first"), [("dflash", "0.5.11"), ("dspark", "0.5.16"), ("ngram", "0.5.10")]
)
def test_a_method_is_had_from_its_first_version_on(method: str, first: str) -> None:
    seen = [
        v for v in VERSIONS if "no-method" not in codes(sglang.check(profile(method), worker(v)))
    ]
    assert seen[0] == first


def test_a_path_of_the_trie_holds_the_match_and_the_guesses() -> None:
    made = profile("ngram", lookup={"min": 1, "max": 6})
    assert option(made, "speculative-ngram-max-trie-depth") == "10"
    assert codes(sglang.check(made, worker())) == []


def test_a_least_match_that_was_asked_for_is_told() -> None:
    problems = sglang.check(profile("ngram", lookup={"min": 3, "max": 6}), worker())
    assert [(p.code, p.severity) for p in problems] == [("lookup-min", "warning")]
    assert sglang.check(profile("ngram"), worker()) == []
    effects = [s.effect for s in sglang.settings(profile("ngram"), worker()) if s.effect]
    assert any("no least" in effect for effect in effects)
    assert any("further up in a prompt is not copied" in effect for effect in effects)


def test_a_shared_pool_is_what_there_is() -> None:
    assert sglang.check(profile("ngram", pool="shared"), worker()) == []
    assert codes(sglang.check(profile("ngram", pool="request"), worker())) == ["ngram-pool"]


@pytest.mark.parametrize(
    ("asked", "version", "written"),
    [
        ("fp8", "0.5.23", "fp8_e4m3"),
        ("fp8_e5m2", "0.5.18", "fp8_e5m2"),
        ("bfloat16", "0.5.20", "bfloat16"),
        ("auto", "0.5.18", "auto"),
        ("auto", "0.5.10", None),
    ],
)
def test_the_type_of_a_drafts_cache(asked: str, version: str, written: str | None) -> None:
    made, spec = profile("eagle3", kv_cache_dtype=asked), worker(version)
    assert sglang.check(made, spec) == []
    assert option(made, "speculative-draft-kv-cache-dtype", spec) == written
    paths = [s.path for s in sglang.settings(made, spec)]
    assert ("speculation", "kv_cache_dtype") in paths


@pytest.mark.parametrize("name", ["tp-size", "tensor-parallel-size", "tp"])
@pytest.mark.parametrize("version", ["0.5.10", "0.5.23"])
def test_a_drafts_tensor_parallel_size_is_the_targets(name: str, version: str) -> None:
    if name == "tp":  # an alias of some versions
        assert load_flags("sglang", "0.5.22").find("tensor-parallel-size") is not None
        name = "tensor_parallel_size"
    spec = worker(version, args={name: 2})
    made = profile("eagle3", tensor_parallel=2)
    assert sglang.check(made, spec) == []
    assert ("speculation", "tensor_parallel") in [s.path for s in sglang.settings(made, spec)]
    assert codes(sglang.check(profile("eagle3", tensor_parallel=1), spec)) == ["draft-tp"]


# Versions nobody has looked at.


@pytest.mark.parametrize(
    "version", ["0", "0.1", "0.4.9", "0.5.0", "0.5.2", "0.5.9", "0.6", "9.9", "nightly", ""]
)
def test_any_version_has_an_answer_to_every_method(version: str) -> None:
    spec = ideal_worker(sglang, version)
    for made in filter(None, map(example, LITERATURE)):
        problems = sglang.check(made, spec) + sglang.check_arguments({}, version)
        assert "unknown-version" in codes(problems)
        assert explain(sglang, made, spec).accounts
        assert sglang.render(made, spec).argv
        assert isinstance(sglang.limits(made, version), dict)
        is_known = made.speculation.method in ALGORITHMS
        if is_known and version.startswith(("0.1", "0.4", "0.5")) and version != "0.5.9":
            assert "version-too-old" in codes(problems)


@pytest.mark.parametrize(
    ("method", "version", "found"),
    [
        ("ngram", "0.5.9", ["version-too-old"]),
        ("eagle3", "0.5.9", []),
        ("dflash", "0.5.9", ["version-too-old"]),
        ("dflash", "0.5.10", ["no-method"]),
        ("suffix", "0.4.9", ["no-method"]),
        ("ngram", "nightly", []),
        ("none", "0", []),
    ],
)
def test_old_versions_by_method(method: str, version: str, found: list[str]) -> None:
    assert codes(sglang.check(profile(method), worker(version))) == found


@pytest.mark.parametrize("version", ["0.5.9", "0.5.12", "0.5.20", "9.9", "nightly"])
def test_messages_name_the_version_that_was_given(version: str) -> None:
    (problem,) = sglang.check_arguments({"zzz": 1}, version)[-1:]
    assert problem.message == f"SGLang {version} has no option 'zzz'"


# Options in full, and objects.


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("name", "code", "hint"),
    [
        ("tp", "unknown-option", "write tp-size"),
        ("dp", "unknown-option", "write dp-size"),
        ("pp", "unknown-option", "write pp-size"),
        ("attn_cp", "unknown-option", "write attn-cp-size"),
        ("--max-running", "unknown-option", "write max-running-requests"),
        ("served-model", "option-is-ours", "it is the model's name in the fleet"),
        (
            "max-context-length",
            "unknown-option",
            "did you mean 'context-length'? it comes from models.<name>.context",
        ),
        ("spec", "unknown-option", "see the engine's own --help"),
        ("json-model-override-args.rope", "unknown-option", "write json-model-override-args: {"),
    ],
)
def test_an_option_is_written_in_full(version: str, name: str, code: str, hint: str) -> None:
    (problem,) = sglang.check_arguments({name: 2}, version)
    assert (problem.code, problem.hint[: len(hint)]) == (code, hint)


@pytest.mark.parametrize("version", VERSIONS)
def test_expert_parallelism_has_its_short_form_as_an_alias(version: str) -> None:
    assert sglang.check_arguments({"ep": 2}, version) == []


OBJECTS = [(v, name) for v in VERSIONS for name in sorted(load_flags("sglang", v).config_keys)]


def test_every_version_has_options_that_take_an_object() -> None:
    always = {
        "extra_metric_labels",
        "hisparse_config",
        "json_model_override_args",
        "kv_events_config",
        "limit_mm_data_per_request",
        "mm_process_config",
        "model_loader_extra_config",
        "modelexpress_config",
        "preferred_sampling_params",
    }
    assert [v for v in VERSIONS if not always <= {n for w, n in OBJECTS if w == v}] == []


@pytest.mark.parametrize(("version", "name"), OBJECTS)
def test_an_object_is_a_mapping_or_json(version: str, name: str) -> None:
    rights: list[Any] = [{"rope": 1}, '{"rope": 1}', {}]
    for right in rights:
        assert sglang.check_arguments({name: right}, version) == []
    wrongs: list[Any] = ["{rope: 1}", "rope=1", "[1]", "", 3, [{}]]
    for wrong in wrongs:
        assert codes(sglang.check_arguments({name: wrong}, version)) == ["shell-json"]
    spec = worker(version, args={name: {"rope": 1}})
    assert option(profile("none"), name.replace("_", "-"), spec) == '{"rope":1}'


# What does not go together.


@pytest.mark.parametrize(
    ("method", "version", "options", "found"),
    [
        ("eagle3", "0.5.23", {"enable-dp-attention": True, "dp-size": 2}, []),
        ("draft_model", "0.5.23", {"attn-dp-size": 2}, ["data-parallel"]),
        ("dflash", "0.5.23", {"attn-dp-size": 2}, ["data-parallel"]),
        ("dflash", "0.5.23", {"attn-dp-size": 2, "enable-dp-lm-head": True}, []),
        ("dflash", "0.5.22", {"attn-dp-size": 2, "enable-dp-lm-head": True}, ["data-parallel"]),
        ("dspark", "0.5.22", {"attn-dp-size": 2, "enable-dp-lm-head": True}, []),
        ("eagle3", "0.5.23", {"pp-size": 2}, ["pipeline-parallel"]),
        ("mtp", "0.5.23", {"pp-size": 2, "disaggregation-mode": "prefill"}, []),
        ("dspark", "0.5.23", {"pp-size": 2, "disaggregation-mode": "prefill"}, []),
        ("mtp", "0.5.20", {"pp-size": 2, "disaggregation-mode": "prefill"}, ["pipeline-parallel"]),
        (
            "eagle3",
            "0.5.23",
            {"pp-size": 2, "disaggregation-mode": "prefill"},
            ["pipeline-parallel"],
        ),
        ("ngram", "0.5.10", {"enable-lora": True}, []),
        ("eagle3", "0.5.18", {"enable-lora": True}, ["lora"]),
        ("eagle3", "0.5.19", {"enable-lora": True}, []),
        ("ngram", "0.5.23", {"enable-mixed-chunk": True}, ["mixed-chunk"]),
        ("eagle3", "0.5.18", {"enable-mixed-chunk": True}, ["mixed-chunk"]),
        ("eagle3", "0.5.19", {"enable-mixed-chunk": True}, []),
        ("eagle3", "0.5.23", {"speculative-use-rejection-sampling": True}, []),
        (
            "eagle",
            "0.5.23",
            {"speculative-use-rejection-sampling": True, "speculative-token-map": "t.json"},
            ["rejection-sampling"],
        ),
        ("eagle3", "0.5.23", {"speculative-use-block-verification": True}, []),
        ("dflash", "0.5.23", {"speculative-use-block-verification": True}, []),
        ("dflash", "0.5.23", {"speculative-draft-window-size": 4}, ["draft-window"]),
        ("dflash", "0.5.23", {"speculative-draft-window-size": 5}, []),
        (
            "ngram",
            "0.5.23",
            {
                "speculative-ngram-external-corpus-path": "c.jsonl",
                "speculative-ngram-external-sam-budget": 4,
            },
            [],
        ),
    ],
)
def test_options_with_a_method(
    method: str, version: str, options: dict[str, Any], found: list[str]
) -> None:
    assert codes(sglang.check(profile(method), worker(version, args=options))) == found


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"page-size": 16, "attention-backend": "triton"}, []),
        ({"page-size": 16, "attention-backend": "flashinfer"}, []),
        ({"page-size": 1, "attention-backend": "torch_native"}, []),
        ({"page-size": 16, "attention-backend": "torch_native"}, ["tree-attention"]),
        ({"prefill-attention-backend": "trtllm_mha"}, ["tree-attention"]),
    ],
)
def test_backends_of_a_tree(options: dict[str, Any], found: list[str]) -> None:
    assert codes(sglang.check(profile("eagle", tree=TREE), worker(args=options))) == found


def test_pipeline_stages_can_be_asked_for_by_variable() -> None:
    spec = worker(args={"pp-size": 2}, env={"SGLANG_ENABLE_PP_SPEC": "1"})
    assert sglang.check(profile("mtp"), spec) == []


def test_all_three_numbers_natively_are_ours() -> None:
    native = {
        "speculative-num-steps": 4,
        "speculative-eagle-topk": 1,
        "speculative-num-draft-tokens": 5,
    }
    found = codes(sglang.check(profile("eagle3", native), worker()))
    assert found == ["option-is-ours"] * 3
    some = {name: native[name] for name in list(native)[:2]}
    found = codes(sglang.check(profile("eagle3", some), worker()))
    assert found == ["partial-triple"] * 2


def test_tuning_in_the_fleet_may_be_for_other_workers() -> None:
    args = {"speculative-draft-attention-backend": "fa3"}
    assert sglang.check(profile("none"), worker(args=args)) == []
    assert codes(sglang.check(profile("none", args), worker())) == ["option-unused"]


@pytest.mark.parametrize(
    ("value", "found"),
    [(1.0, []), ("1", []), (0.5, ["lossy"]), ("0.5", ["lossy"]), ("much", ["option-value"])],
)
def test_thresholds_below_one_are_lossy(value: Any, found: list[str]) -> None:
    native = {"speculative-accept-threshold-single": value}
    assert codes(sglang.check(profile("eagle3", native), worker())) == found


@pytest.mark.parametrize("value", [0.5, "0.5"])
def test_thresholds_do_not_go_with_rejection_sampling(value: Any) -> None:
    args = {"speculative-use-rejection-sampling": True, "speculative-accept-threshold-acc": value}
    assert codes(sglang.check(profile("eagle3"), worker(args=args))) == ["rejection-sampling"]


@pytest.mark.parametrize("value", ["1", "much", True, [1]])
def test_a_threshold_that_is_none_below_one_is_no_obstacle(value: Any) -> None:
    args = {"speculative-use-rejection-sampling": True, "speculative-accept-threshold-acc": value}
    assert sglang.check(profile("eagle3"), worker(args=args)) == []


@pytest.mark.parametrize(
    ("version", "name", "code"),
    [
        ("0.5.10", "cuda-graph-bs", None),
        ("0.5.18", "cuda-graph-bs", None),
        ("0.5.20", "cuda-graph-bs", "renamed-option"),
        ("0.5.20", "cuda-graph-max-bs", "renamed-option"),
        ("0.5.10", "speculative-dflash-draft-window-size", "unknown-option"),
        ("0.5.18", "speculative-dflash-draft-window-size", None),
        ("0.5.20", "speculative_dflash_draft_window_size", "renamed-option"),
        ("0.5.10", "speculative-ngram-branch-length", "removed-option"),
        ("0.5.20", "speculative-skip-dp-mlp-sync", None),
        ("0.5.23", "speculative-skip-dp-mlp-sync", "removed-option"),
        ("0.5.20", "nsa-decode-backend", "renamed-option"),
    ],
)
def test_retired_options_by_version(version: str, name: str, code: str | None) -> None:
    flag = load_flags("sglang", version if version != "0.5.23" else "0.5.22").find(name)
    value: Any = True if flag is None or flag.kind == "switch" else 8
    assert codes(sglang.check_arguments({name: value}, version)) == ([code] if code else [])


def test_what_a_renamed_option_is_called_now_exists() -> None:
    table = load_flags("sglang", "0.5.22")
    for name in ("cuda-graph-bs", "cuda-graph-max-bs", "mamba-scheduler-strategy"):
        (problem,) = sglang.check_arguments({name: 1}, "0.5.23")
        assert table.find(problem.hint.removeprefix("write ")) is not None


@pytest.mark.parametrize(
    ("name", "value", "version", "code"),
    [
        ("SGLANG_SIMULATE_ACC_LEN", "3", "0.5.23", "lossy"),
        ("SGL_SIMULATE_ACC_METHOD", "x", "0.5.10", "lossy"),
        ("SGLANG_ENABLE_SPEC_V2", "1", "0.5.13", None),
        ("SGLANG_ENABLE_SPEC_V2", "1", "0.5.14", "dead-variable"),
        ("SGL_NGRAM_FORCE_GREEDY_VERIFY", "true", "0.5.13", "lossy"),
        ("SGLANG_NGRAM_FORCE_GREEDY_VERIFY", "0", "0.5.13", None),
        ("SGLANG_NGRAM_FORCE_GREEDY_VERIFY", "0", "0.5.14", "dead-variable"),
        ("SGLANG_USE_MODELSCOPE", "1", "0.5.23", None),
    ],
)
def test_variables(name: str, value: str, version: str, code: str | None) -> None:
    assert codes(sglang.check_environment({name: value}, version)) == ([code] if code else [])


def test_what_we_write_is_known_to_the_newest_parser() -> None:
    """But for what is refused under a name that only other versions have."""
    table = load_flags("sglang", "0.5.22")
    assert [name for name in OURS if table.find(name) is None] == []


# Facts of weights.


def facts(**fields: Any) -> Checkpoint:
    return Checkpoint("m", "huggingface", **fields)


def test_a_context_that_the_model_was_made_for() -> None:
    def found(context: int, **fields: Any) -> list[str]:
        model = Model("small", "/m/t", context, {}, None, facts(context=2048))
        return codes(sglang.check(profile("none"), worker(model=model, **fields)))

    assert found(2048) == []
    assert found(4096) == ["context-length"]
    assert found(4096, args={"json-model-override-args": "{}"}) == []
    assert found(4096, env={"SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "1"}) == []


VOCABULARY = Vocabulary(("<s>", "a"))


@pytest.mark.parametrize(
    ("draft", "version", "found"),
    [
        ({"vocabulary_size": 2048, "vocabulary": VOCABULARY}, "0.5.23", []),
        ({"vocabulary_size": 2112, "vocabulary": VOCABULARY}, "0.5.23", ["vocabulary-size"]),
        ({"vocabulary_size": 2112, "vocabulary": VOCABULARY}, "0.5.14", []),
        ({"vocabulary_size": 2112}, "0.5.23", []),  # compared for every engine
    ],
)
def test_embeddings_of_draft_and_target(
    draft: dict[str, Any], version: str, found: list[str]
) -> None:
    target = facts(vocabulary_size=2048, vocabulary=VOCABULARY)
    model = Model("small", "/m/t", None, DRAFTS, None, target, {"draft_model": facts(**draft)})
    assert codes(sglang.check(profile("draft_model"), worker(version, model=model))) == found


def test_targets_without_facts_are_not_compared() -> None:
    model = Model("small", "/m/t", None, DRAFTS, None, None, {"draft_model": facts()})
    assert sglang.check(profile("draft_model"), worker(model=model)) == []


def test_gemma_4s_assistant_runs_as_mtp_without_a_schedule() -> None:
    assistant = facts(architecture="Gemma4AssistantForCausalLM")
    model = Model("small", "/m/t", None, {"mtp": "/m/a"}, None, None, {"mtp": assistant})
    assert sglang.check(profile("mtp", draft="mtp"), worker(model=model)) == []


# Limits.


def test_a_plain_worker_has_no_limits() -> None:
    assert sglang.limits(profile("none"), "0.5.23") == {}


@pytest.mark.parametrize(
    ("method", "version", "field", "is_limited"),
    [
        ("eagle3", "0.5.10", "min_p", True),
        ("ngram", "0.5.23", "frequency_penalty", True),
        ("ngram", "0.5.23", "logprobs", False),
        ("dflash", "0.5.17", "logprobs", True),
        ("dflash", "0.5.18", "logprobs", False),
        ("dflash", "0.5.16", "response_format", True),
        ("dspark", "0.5.17", "response_format", False),
        ("eagle3", "0.5.16", "response_format", False),
    ],
)
def test_limits_by_method_and_version(
    method: str, version: str, field: str, is_limited: bool
) -> None:
    assert (field in sglang.limits(profile(method), version)) is is_limited


def test_a_cpu_answers_greedily_while_speculating() -> None:
    assert "temperature" in sglang.limits(profile("ngram", {"device": "cpu"}), "0.5.23")
    assert "temperature" not in sglang.limits(profile("ngram"), "0.5.23")
