"""llama.cpp: what becomes of every key, of old names and variables, and of what files show.

What is refused in one word each stands in tests/refusals/llama_cpp-*.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from adapters import llama_cpp
from adapters.checkpoint import Checkpoint, Head, HeadKind, Vocabulary
from adapters.embedded.flag import FLAGS, ArgumentError, parse
from adapters.flag import Flag, load_flags
from adapters.launch import Model, WorkerSpec
from adapters.llama_cpp.names import OURS, names_of
from adapters.problem import Path
from adapters.profile import Profile
from adapters.setting import values
from tests.unit.scripted import codes

DIALECTS = [dialect.name for dialect in llama_cpp.SUPPORTED]
METHODS = ("draft_model", "eagle3", "mtp", "dflash", "dspark")
DRAFTS = {name: f"/m/{name}.gguf" for name in METHODS}
LOOKUP = {"min": 3, "max": 3}


def profile(speculation: Mapping[str, Any], **native: Any) -> Profile:
    data = {"profile": "p", "speculation": speculation, "engine": {"llama_cpp": native}}
    return Profile.model_validate_json(json.dumps(data))


def worker(version: str = "b11434", **fields: Any) -> WorkerSpec:
    model = Model("small", "/m/target.gguf", 2048, DRAFTS)
    return WorkerSpec("w", version, ("llama-server",), replace(model, **fields), 8000)


def fatal(made: Profile, spec: WorkerSpec | None = None) -> list[str]:
    return codes([p for p in llama_cpp.check(made, spec or worker()) if p.is_fatal])


def leaves(data: Mapping[str, Any], root: Path = ("speculation",)) -> Iterator[Path]:
    for key, value in data.items():
        if isinstance(value, dict):
            yield from leaves(value, (*root, key))
        else:
            yield (*root, key)


# Every key has a fate.

WHOLE: list[dict[str, Any]] = [
    {"method": "ngram", "gamma": 4},
    {"method": "ngram", "gamma": 16, "lookup": {"min": 16, "max": 20}, "pool": "shared"},
    {"method": "ngram", "gamma": 4, "lookup": LOOKUP, "pool": "request", "device": "gpu"},
    {"method": "draft_model", "gamma": 4, "kv_cache_dtype": "auto", "tensor_parallel": 1},
    {"method": "draft_model", "gamma": 4, "kv_cache_dtype": "fp8", "tensor_parallel": 2},
    {"method": "draft_model", "gamma": 4, "parallel": True, "other_vocabulary": True},
    {"method": "eagle3", "gamma": 3, "kv_cache_dtype": "bfloat16", "parallel": True},
    {"method": "eagle3", "gamma": 3, "tree": {"branches": 2, "tokens": 8}},
    {"method": "mtp", "gamma": 2, "draft": "mtp"},
    {"method": "dflash", "gamma": 4, "schedule": [{"batch": "1+", "gamma": 3}]},
    {"method": "dspark", "gamma": 4, "draft": "dspark"},
]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("speculation", WHOLE, ids=lambda s: "-".join(s))
def test_every_key_is_a_setting_or_a_problem(speculation: dict[str, Any], dialect: str) -> None:
    made, spec = profile(speculation), worker(dialect)
    told = {setting.path for setting in llama_cpp.settings(made, spec)}
    told |= {problem.path for problem in llama_cpp.check(made, spec)}
    data = made.speculation.model_dump(mode="json", exclude_none=True)
    if "schedule" in data:
        data["schedule"] = None
    untold = [path for path in leaves(data) if not any(path[: len(t)] == t for t in told if t)]
    assert untold == []


def test_settings_are_what_is_launched() -> None:
    for speculation in WHOLE:
        made = profile(speculation)
        if fatal(made):
            continue
        argv = llama_cpp.render(made, worker()).argv
        pairs = dict(pairwise(argv))
        for name, value in values(llama_cpp.settings(made, worker())).items():
            assert pairs[f"--{name}"] == str(value)
            assert argv.count(f"--{name}") == 1


@pytest.mark.parametrize(
    ("kind", "word"),
    [("float32", "f32"), ("float16", "f16"), ("bfloat16", "bf16"), ("iq4_nl", "iq4_nl")],
)
def test_a_drafts_cache_has_llama_cpps_own_word(kind: str, word: str) -> None:
    made = profile({"method": "draft_model", "gamma": 4, "kv_cache_dtype": kind})
    found = values(llama_cpp.settings(made, worker()))
    assert found["spec-draft-type-k"] == found["spec-draft-type-v"] == word


@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16"])
def test_a_whole_cache_needs_no_flash_attention(kind: str) -> None:
    made = profile(
        {"method": "draft_model", "gamma": 4, "kv_cache_dtype": kind}, **{"flash-attn": "off"}
    )
    assert fatal(made) == []


@pytest.mark.parametrize("method", METHODS)
def test_each_draft_method_has_its_type(method: str) -> None:
    draft = {"draft": method} if method in ("mtp", "dspark") else {}
    made = profile({"method": method, "gamma": 2, **draft})
    assert fatal(made) == []
    found = values(llama_cpp.settings(made, worker()))
    own = "draft-simple" if method == "draft_model" else f"draft-{method}"
    assert (found["spec-type"], found["spec-draft-model"]) == (own, DRAFTS[method])
    assert (found["spec-draft-n-max"], found["spec-draft-n-min"]) == (2, 0)


def test_types_stand_in_the_order_in_which_they_are_tried() -> None:
    spec = {"method": "ngram", "gamma": 20, "lookup": {"min": 18, "max": 18}}
    made = profile(spec, **{"spec-type": "ngram-mod,ngram-map-k4v,ngram-simple"})
    assert fatal(made) == []
    found = values(llama_cpp.settings(made, worker()))
    assert found["spec-type"] == "ngram-simple,ngram-map-k4v,ngram-mod"
    sizes = {name: value for name, value in found.items() if name != "spec-type"}
    assert sizes == {
        "spec-ngram-simple-size-n": 18,
        "spec-ngram-simple-size-m": 20,
        "spec-ngram-map-k4v-size-n": 18,
        "spec-ngram-map-k4v-size-m": 20,
        "spec-ngram-mod-n-match": 18,
        "spec-ngram-mod-n-min": 1,
        "spec-ngram-mod-n-max": 20,
    }


def test_a_length_beside_a_draft_is_the_profiles_but_not_the_fleets() -> None:
    native = {"spec-type": "ngram-simple,draft-simple", "spec-ngram-simple-size-n": 6}
    made = profile({"method": "draft_model", "gamma": 4}, **native)
    assert fatal(made) == ["lookup-above-gamma"]
    assert fatal(profile({"method": "draft_model", "gamma": 6}, **native)) == []
    (problem,) = llama_cpp.check_arguments({"spec-ngram-simple-size-n": 6}, "b11434")
    assert problem.code == "option-is-ours"
    alone = {"method": "draft_model", "gamma": 6}
    assert fatal(profile(alone, **{"spec-ngram-simple-size-n": 6})) == ["option-is-ours"]


@pytest.mark.parametrize(
    ("spec_type", "pool", "is_fit"),
    [
        (None, "request", True),
        (None, "shared", True),
        ("ngram-map-k", "request", True),
        ("ngram-mod", "request", False),
        ("ngram-map-k,ngram-cache", "request", False),
        ("ngram-mod", "shared", True),
        ("ngram-cache", "shared", False),
        ("ngram-mod,ngram-map-k", "shared", False),
        ("ngram-mod,ngram-map-k", None, True),
    ],
)
def test_a_pool_and_a_type_must_agree(
    spec_type: str | None, pool: str | None, is_fit: bool
) -> None:
    spec = {"method": "ngram", "gamma": 8, "lookup": LOOKUP} | ({"pool": pool} if pool else {})
    made = profile(spec, **({"spec-type": spec_type} if spec_type else {}))
    assert ("ngram-pool" not in fatal(made)) == is_fit


# Options beside the speculation.


@pytest.mark.parametrize(
    ("gamma", "args", "found"),
    [
        (6, {}, []),
        (6, {"parallel": 4, "batch-size": 28}, []),
        (6, {"parallel": 4, "batch-size": 27}, ["batch-too-small"]),
        (6, {"-np": 64, "ubatch-size": 448}, []),
        (6, {"-np": 64, "-ub": 447}, ["verify-split"]),
        (6, {"batch-size": 27}, ["batch-too-small"]),  # 4 slots where none are given
    ],
)
def test_all_slots_guesses_must_fit_one_batch(
    gamma: int, args: dict[str, Any], found: list[str]
) -> None:
    made = profile({"method": "ngram", "gamma": gamma, "lookup": LOOKUP})
    assert codes(llama_cpp.check(made, replace(worker(), args=args))) == found


@pytest.mark.parametrize(
    ("kind", "is_anchored"),
    [("ngram-simple", False), ("ngram-map-k", True), ("ngram-map-k4v", True)],
)
@pytest.mark.parametrize("args", [{"context-shift": True}, {"no-context-shift": False}])
def test_a_shifted_context_kills_maps(kind: str, is_anchored: bool, args: dict[str, Any]) -> None:
    made = profile({"method": "ngram", "gamma": 4, "lookup": LOOKUP}, **{"spec-type": kind})
    found = fatal(made, replace(worker(), args=args))
    assert found == (["context-shift"] if is_anchored else [])


@pytest.mark.parametrize(
    ("speculation", "option", "is_unused"),
    [
        ({"method": "none"}, {"spec-draft-threads": 2}, True),
        ({"method": "none"}, {"-td": 2}, True),
        ({"method": "ngram", "gamma": 4, "lookup": LOOKUP}, {"device-draft": "none"}, True),
        ({"method": "ngram", "gamma": 4, "lookup": LOOKUP}, {"lookup-cache-static": "f"}, True),
        ({"method": "draft_model", "gamma": 4}, {"spec-draft-threads": 2}, False),
        ({"method": "draft_model", "gamma": 4}, {"draft-p-split": 0.2}, True),
        ({"method": "draft_model", "gamma": 4}, {"spec-ngram-map-k-min-hits": 2}, True),
        ({"method": "none"}, {"threads": 2}, False),
    ],
)
def test_an_option_that_nothing_reads_is_told(
    speculation: dict[str, Any], option: dict[str, Any], is_unused: bool
) -> None:
    found = llama_cpp.check(profile(speculation, **option), worker())
    assert codes(found) == (["option-unused"] if is_unused else [])
    assert not any(p.is_fatal for p in found)


# Versions, old names, variables.


@pytest.mark.parametrize("version", ["b10276", "10305", "b9093", "2"])
def test_a_build_that_counts_no_drafts_is_refused(version: str) -> None:
    (problem,) = llama_cpp.check_arguments({}, version)
    assert (problem.code, problem.is_fatal) == ("version-too-old", True)


@pytest.mark.parametrize("version", ["0", "1", "0.1.0", "b11550"])
def test_what_is_not_a_known_build_is_a_warning(version: str) -> None:
    (problem,) = llama_cpp.check_arguments({}, version)
    assert (problem.code, problem.is_fatal) == ("unknown-version", False)


@pytest.mark.parametrize("version", ["b10306", "10661", "b10662", "11549"])
def test_known_builds_pass(version: str) -> None:
    assert llama_cpp.check_arguments({}, version) == []


def test_what_a_newer_build_has_is_unknown_to_an_older_one() -> None:
    assert codes(llama_cpp.check_arguments({"spec-draft-sampling": "greedy"}, "b10661")) == [
        "unknown-option"
    ]
    assert llama_cpp.check_arguments({"spec-draft-sampling": "greedy"}, "b10662") == []
    assert llama_cpp.check_arguments({"mlock": True}, "b10661") == []
    assert codes(llama_cpp.check_arguments({"mlock": True}, "b10662")) == ["renamed-option"]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("name", "code"),
    [
        *((name, "renamed-option") for name in ("draft", "draft-n", "draft-max", "--draft-min")),
        *((f"spec-ngram-{name}", "renamed-option") for name in ("size-n", "size_m", "min-hits")),
        *((name, "renamed-option") for name in ("draft-model", "spec-draft-conf-min")),
        *((name, "removed-option") for name in ("ctx-size-draft", "-cd", "spec-replace")),
        *((name, "removed-option") for name in ("mtp", "eagle3", "dflash", "spec-ngram-adaptive")),
    ],
)
def test_an_old_name_has_advice_wherever_it_stands(name: str, code: str, dialect: str) -> None:
    (problem,) = llama_cpp.check_arguments({name: 4}, dialect)
    assert (problem.code, problem.path, problem.is_fatal) == (code, (name,), True)
    assert problem.hint
    made = profile({"method": "none"}, **{name: 4})
    (beside,) = llama_cpp.check(made, worker(dialect))
    assert (beside.code, beside.hint) == (code, problem.hint)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("variable", "code"),
    [
        ("LLAMA_ARG_DRAFT_MAX", "dead-variable"),
        ("LLAMA_ARG_DRAFT_MIN", "dead-variable"),
        ("LLAMA_ARG_SPEC_TYPE", "option-is-ours"),
        ("LLAMA_ARG_SPEC_DRAFT_MODEL", "option-is-ours"),
        ("LLAMA_ARG_MODEL", "option-is-ours"),
        ("LLAMA_ARG_PORT", "option-is-ours"),
        ("LLAMA_ARG_N_PARALLEL", "option-by-variable"),
        ("LLAMA_ARG_NO_REPACK", "option-by-variable"),
        ("LLAMA_ARG_N_PARALEL", "unknown-variable"),
        ("LLAMA_ARG_WHATEVER_ELSE_ONE_LIKES", "unknown-variable"),
    ],
)
def test_a_variable_is_no_way_past_the_checks(variable: str, code: str, dialect: str) -> None:
    (problem,) = llama_cpp.check_environment({variable: "1"}, dialect)
    assert (problem.code, problem.path, problem.is_fatal) == (code, (variable,), True)
    assert problem.hint


def test_synthetic_acceptance_by_variable_is_lossy_where_it_exists() -> None:
    variables = {"LLAMA_ARG_SPEC_SYNTH_LEN": "3"}
    assert codes(llama_cpp.check_environment(variables, "b11434")) == ["lossy"]
    assert codes(llama_cpp.check_environment(variables, "b10434")) == ["unknown-variable"]


def test_other_variables_are_free() -> None:
    free = {"LLAMA_API_KEY": "k", "HF_TOKEN": "t", "GGML_NO_BACKTRACE": "1", "PATH": "/bin"}
    assert llama_cpp.check_environment(free, "b11434") == []


def test_a_request_cannot_choose_its_speculation() -> None:
    made = profile({"method": "ngram", "gamma": 4, "lookup": LOOKUP})
    limits = llama_cpp.limits(made, "b11434")
    assert {"speculative.n_max", "speculative.type", "logprobs"} < set(limits)
    assert llama_cpp.limits(profile({"method": "none"}), "b11434") == {}


# What files show.


def gguf(**fields: Any) -> Checkpoint:
    return Checkpoint("/m/x.gguf", "gguf", **fields)


def words(count: int, **fields: Any) -> Checkpoint:
    return gguf(vocabulary=Vocabulary(tuple(f"t{i}" for i in range(count)), **fields))


def pair(method: str, target: Checkpoint | None, draft: Checkpoint | None, gamma: int = 4) -> Any:
    made = profile({"method": method, "gamma": gamma, "draft": method})
    spec = worker(facts=target, draft_facts={method: draft} if draft else {})
    return [p for p in llama_cpp.check(made, spec) if p.is_fatal]


@pytest.mark.parametrize(
    ("target", "draft", "found"),
    [
        (words(200), words(200), []),
        (words(200), words(72), []),
        (words(201), words(72), ["vocabulary-size"]),
        (words(72), words(201), ["vocabulary-size"]),
        (words(9, model="bpe"), words(9, model="unigram"), ["vocabulary-mismatch"]),
        (words(9, model="bpe"), words(9), []),
        (words(9, adds_bos=True, bos=1), words(9, adds_bos=True, bos=2), ["vocabulary-mismatch"]),
        (words(9, adds_bos=True, bos=1), words(9, adds_bos=True, bos=1), []),
        (words(9, adds_bos=True, bos=1), words(9, bos=2), []),
        (words(9, adds_bos=False, bos=1), words(9, adds_bos=False, bos=2), []),
        (words(9, adds_eos=False), words(9, adds_eos=True), ["vocabulary-mismatch"]),
        (words(9, adds_eos=True, eos=3), words(9, adds_eos=True, eos=4), ["vocabulary-mismatch"]),
        (words(9), None, []),
        (None, words(9), []),
        (words(9), gguf(), []),
    ],
)
def test_the_vocabulary_of_a_draft_model(
    target: Checkpoint | None, draft: Checkpoint | None, found: list[str]
) -> None:
    assert codes(pair("draft_model", target, draft)) == found


def test_other_drafts_are_not_asked_for_their_vocabulary() -> None:
    assert pair("eagle3", words(300), words(9)) == []


def head(kind: HeadKind, **fields: Any) -> Checkpoint:
    return gguf(head=Head(kind, **fields))


@pytest.mark.parametrize(
    ("method", "draft", "gamma", "found"),
    [
        ("eagle3", head("eagle3", layers=(2, 9, 15)), 4, []),
        ("eagle3", head("eagle3", layers=(2, 9)), 4, ["head-layers"]),
        ("eagle3", head("eagle3"), 4, []),
        ("dflash", head("dflash", length=8), 7, []),
        ("dflash", head("dflash", length=8), 8, ["gamma-trained"]),
        ("dspark", head("dspark", length=8), 8, []),
        ("dspark", head("dspark", length=8), 9, ["gamma-trained"]),
        ("dspark", head("dspark"), 9, []),
        ("mtp", gguf(mtp_layers=1), 9, []),
        ("mtp", gguf(mtp_layers=2), 2, []),
        ("mtp", gguf(mtp_layers=2), 3, ["gamma-trained"]),
    ],
)
def test_what_a_head_can_guess(
    method: str, draft: Checkpoint, gamma: int, found: list[str]
) -> None:
    assert codes(pair(method, None, draft, gamma)) == found


@pytest.mark.parametrize(("layers", "found"), [(0, []), (1, []), (3, []), (2, ["gamma-trained"])])
def test_mtp_layers_of_the_target(layers: int, found: list[str]) -> None:
    """That there are any is asked by adapters/fit/pairing.py."""
    made = profile({"method": "mtp", "gamma": 3})
    assert fatal(made, worker(facts=gguf(mtp_layers=layers))) == found


@pytest.mark.parametrize(
    ("speculation", "architecture", "found"),
    [
        ({"method": "ngram", "gamma": 4, "lookup": LOOKUP}, "dream", ["no-rollback"]),
        ({"method": "ngram", "gamma": 4, "lookup": LOOKUP}, "mamba2", []),
        ({"method": "none"}, "dream", []),
    ],
)
def test_a_model_that_remembers_no_tokens(
    speculation: dict[str, Any], architecture: str, found: list[str]
) -> None:
    spec = worker(facts=gguf(architecture=architecture))
    assert fatal(profile(speculation), spec) == found


@pytest.mark.parametrize(
    ("context", "trained", "found"),
    [(2048, 2048, []), (2049, 2048, ["context-length"]), (None, 9, []), (9, None, [])],
)
def test_a_slot_gets_no_more_than_the_models_context(
    context: int | None, trained: int | None, found: list[str]
) -> None:
    spec = worker(context=context, facts=gguf(context=trained))
    assert fatal(profile({"method": "none"}), spec) == found


def test_both_files_must_be_gguf() -> None:
    folder = Checkpoint("/m/folder", "huggingface")
    found = pair("draft_model", folder, folder)
    assert codes(found) == ["not-gguf", "not-gguf"]
    paths = [problem.path for problem in found]
    assert paths == [("models", "small", "target"), ("models", "small", "drafts", "draft_model")]
    assert fatal(profile({"method": "none"}), worker(facts=folder)) == ["not-gguf"]


# The option tables and the embedded server's parser are two accounts of one program.


class FullDisk:
    """A disk on which every path is a file."""

    def read(self, path: str) -> str:
        return ""

    def is_file(self, path: str) -> bool:
        return True

    def is_directory(self, path: str) -> bool:
        return True


def takes(flag: Flag, value: str) -> bool:
    count = 2 if flag.kind == "values" else 1
    try:
        parse(["-m", "m.gguf", f"--{flag.name}", *[value] * count], {}, FullDisk())
    except ArgumentError:
        return False
    return True


NUMBERS = [flag for flag in load_flags("llama_cpp", "b11434").flags.values() if flag.rule.kinds]
REFUSED = {flag.names[0].lstrip("-") for flag in FLAGS if flag.status == "refused"}
HONOURED = [flag for flag in NUMBERS if flag.name not in REFUSED and takes(flag, "1")]


def test_nearly_every_number_is_honoured_by_the_embedded_server() -> None:
    assert len(HONOURED) > 80
    assert len(NUMBERS) - len(HONOURED) < 8


@pytest.mark.parametrize("flag", HONOURED, ids=lambda flag: flag.name)
def test_a_number_is_a_number_to_both(flag: Flag) -> None:
    assert not takes(flag, "lots")
    low, high = flag.rule.minimum, flag.rule.maximum
    if low is not None:
        assert takes(flag, f"{low:.0f}")
        assert not takes(flag, f"{low - 1:.0f}")
    if high is not None:
        assert takes(flag, f"{high:.0f}")
        assert not takes(flag, f"{high + 1:.0f}")


def test_both_know_the_same_variables() -> None:
    known = {v for v in names_of("b11434").variables if v.startswith("LLAMA_ARG_")}
    embedded = {v for flag in FLAGS for v in flag.variables if v.startswith("LLAMA_ARG_")}
    assert known - embedded == set()
    # b11549 is newer
    assert embedded - known == {"LLAMA_ARG_MOE_CACHE_MIB", "LLAMA_ARG_SLOT_SAVE_PATH"}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_names_are_options_or_are_gone(dialect: str) -> None:
    names = names_of(dialect)
    assert set(names.variables.values()) <= set(names.table.flags) | set(names.removed)
    assert all(names.table.find(name) is None for name in names.removed)
    assert [name for name in OURS if names.table.find(name) is None] == []


def test_a_second_spelling_of_the_types_is_told() -> None:
    spec = {"method": "ngram", "gamma": 8, "lookup": LOOKUP}
    made = profile(spec, **{"spec-type": "ngram-map-k", "spec_type": "ngram-simple"})
    (problem,) = llama_cpp.check(made, worker())
    assert (problem.code, problem.path[-1]) == ("option-twice", "spec_type")


@pytest.mark.parametrize("name", ["ssl-key-file", "ssl-cert-file", "api-prefix"])
@pytest.mark.parametrize("version", DIALECTS)
def test_a_worker_speaks_plain_http_without_a_prefix(name: str, version: str) -> None:
    assert codes(llama_cpp.check_arguments({name: "/x"}, version)) == ["option-is-ours"]
    variable = f"LLAMA_ARG_{name.upper().replace('-', '_')}"
    assert codes(llama_cpp.check_environment({variable: "/x"}, version)) == ["option-is-ours"]


def test_another_vocabulary_is_an_error_whatever_a_fleet_allows() -> None:
    made = profile({"method": "draft_model", "gamma": 4, "other_vocabulary": True})
    problems = llama_cpp.check(made, worker())
    assert [(p.code, p.severity) for p in problems] == [("other-vocabulary", "error")]
