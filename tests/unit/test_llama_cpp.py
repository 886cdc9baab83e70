"""llama.cpp: what its goldens do not show."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from adapters import llama_cpp
from adapters.launch import Model, WorkerSpec
from adapters.profile import Profile
from tests.unit.scripted import codes

DRAFTS = {"draft_model": "/m/draft.gguf", "eagle3": "/m/head.gguf"}


def profile(speculation: dict[str, Any], **fields: Any) -> Profile:
    data = {"profile": "p", "speculation": speculation, **fields}
    return Profile.model_validate_json(json.dumps(data))


def ngram(**native: Any) -> Profile:
    lookup = {"min": 3, "max": 3}
    spec = {"method": "ngram", "gamma": 4, "lookup": lookup}
    return profile(spec, engine={"llama_cpp": native})


PLAIN = profile({"method": "none"})


def worker(**fields: Any) -> WorkerSpec:
    settings: dict[str, Any] = {
        "name": "w",
        "engine_version": "b11434",
        "command": ("llama-server",),
        "model": Model("small", "/m/target.gguf", 2048, DRAFTS),
        "port": 8000,
    }
    return WorkerSpec(**settings | fields)


def after(option: str, argv: Sequence[str]) -> str:
    return argv[list(argv).index(option) + 1]


# Launching.


@pytest.mark.parametrize(
    ("target", "option"),
    [("/m/target.gguf", "--model"), ("org/repo-GGUF:Q4_K_M", "--hf-repo")],
)
def test_a_target_is_a_file_or_a_repository(target: str, option: str) -> None:
    argv = llama_cpp.render(PLAIN, worker(model=Model("small", target))).argv
    assert argv[:3] == ("llama-server", option, target)
    assert "--ctx-size" not in argv


def test_a_draft_from_the_hub_is_not_taken_for_a_path() -> None:
    made = profile({"method": "draft_model", "gamma": 4})
    spec = worker(model=Model("small", "/m/t.gguf", None, {"draft_model": "org/draft-GGUF"}))
    if not llama_cpp.check(made, spec):
        argv = llama_cpp.render(made, spec).argv
        assert after("--spec-draft-hf", argv) == "org/draft-GGUF"
        assert "--spec-draft-model" not in argv


def test_a_revision_is_not_dropped_in_silence() -> None:
    spec = worker(model=Model("small", "org/repo-GGUF", None, {}, "abc123"))
    assert llama_cpp.check(PLAIN, spec) or "abc123" in llama_cpp.render(PLAIN, spec).text()


@pytest.mark.parametrize(
    ("args", "context"),
    [
        ({}, "2048"),
        ({"parallel": 1}, "2048"),
        ({"parallel": 4}, "8192"),
        ({"-np": 4}, "8192"),
        ({"n_parallel": 4}, None),
        ({"parallel": 4, "kv-unified": True}, "2048"),
        ({"parallel": 4, "-kvu": True}, "2048"),
        ({"parallel": 4, "kv-unified": False}, "8192"),
        ({"parallel": 4, "no-kv-unified": True}, "8192"),
        ({"parallel": -1}, "2048"),
    ],
)
def test_every_slot_gets_the_models_context(args: dict[str, Any], context: str | None) -> None:
    if context is None:
        assert codes(llama_cpp.check_arguments(args, "b11434")) == ["unknown-option"]
        return
    assert llama_cpp.check_arguments(args, "b11434") == []
    assert after("--ctx-size", llama_cpp.render(PLAIN, worker(args=args)).argv) == context


def test_a_profiles_slots_count_and_the_fleets_win() -> None:
    argv = llama_cpp.render(ngram(parallel=4), worker(args={"parallel": 2})).argv
    assert (after("--ctx-size", argv), after("--parallel", argv)) == ("4096", "2")
    assert argv.count("--parallel") == 1


@pytest.mark.parametrize("name", ["spec-type", "spec_type", "--spec-type"])
def test_the_ngram_type_is_read_by_any_name_and_written_once(name: str) -> None:
    """--spec-type accumulates: written twice it would be two types."""
    made = ngram(**{name: "ngram-mod"})
    assert codes(llama_cpp.check(made, worker())) == ["short-match"]
    argv = llama_cpp.render(made, worker()).argv
    assert argv.count("--spec-type") == 1
    assert after("--spec-type", argv) == "ngram-mod"


@pytest.mark.parametrize(
    "value", ["none", "draft-simple", "ngram-simple,none", "ngram-simple, ngram-mod", "", 5, ["a"]]
)
def test_other_types_are_refused(value: Any) -> None:
    assert [p for p in llama_cpp.check(ngram(**{"spec-type": value}), worker()) if p.is_fatal]


@pytest.mark.parametrize(
    ("speculation", "spec_type"),
    [
        ({"method": "none"}, "ngram-mod"),
        ({"method": "draft_model", "gamma": 4}, "ngram-map-k"),
        ({"method": "draft_model", "gamma": 4}, "ngram-cache,ngram-map-k"),
    ],
)
def test_a_type_that_leaves_out_the_methods_own_is_refused(
    speculation: dict[str, Any], spec_type: str
) -> None:
    made = profile(speculation, engine={"llama_cpp": {"spec-type": spec_type}})
    assert "option-is-ours" in codes(llama_cpp.check(made, worker()))


def test_a_methods_own_type_may_be_named() -> None:
    made = profile(
        {"method": "draft_model", "gamma": 4}, engine={"llama_cpp": {"spec-type": "draft-simple"}}
    )
    assert llama_cpp.check(made, worker()) == []
    assert after("--spec-type", llama_cpp.render(made, worker()).argv) == "draft-simple"


@pytest.mark.parametrize(
    "option",
    [
        {"spec-draft-hf": "org/draft"},
        {"hf-repo-draft": "org/draft"},
        {"spec-default": True},
        {"-md": "/m/draft.gguf"},
        {"model-draft": "/m/draft.gguf"},
        {"fim-qwen-7b-spec": True},
        {"spec-draft-n-max": 9},
        {"draft-max": 9},
    ],
)
def test_nothing_makes_a_plain_profile_speculate(option: dict[str, Any]) -> None:
    made = profile({"method": "none"}, engine={"llama_cpp": option})
    assert [p for p in llama_cpp.check(made, worker()) if p.is_fatal]
    assert [p for p in llama_cpp.check_arguments(option, "b11434") if p.is_fatal]


@pytest.mark.parametrize(
    "option",
    [
        {"model-url": "http://x/y.gguf"},
        {"docker-repo": "ai/model"},
        {"hf-repo": "a/b"},
        {"-m": "/x.gguf"},
        {"no-slots": True},
        {"-c": 5},
    ],
)
def test_the_model_and_the_address_are_the_fleets(option: dict[str, Any]) -> None:
    assert [p for p in llama_cpp.check_arguments(option, "b11434") if p.is_fatal]


@pytest.mark.parametrize("option", ["spec-synth-len", "spec_synth_len", "--spec-synth-len"])
@pytest.mark.parametrize("is_lossless", [True, False])
def test_synthetic_acceptance_is_lossy_by_any_name(option: str, is_lossless: bool) -> None:
    spec = {"method": "ngram", "gamma": 4, "lookup": {"min": 3, "max": 3}}
    native = {"llama_cpp": {option: 3}}
    (problem,) = llama_cpp.check(profile(spec, lossless=is_lossless, engine=native), worker())
    assert (problem.code, problem.is_fatal) == ("lossy", is_lossless)


@pytest.mark.parametrize("option", [{"spec-synth-len": 3}, {"spec-synth-rates": "0.5"}])
def test_synthetic_acceptance_does_not_come_in_through_the_fleets_args(
    option: dict[str, Any],
) -> None:
    """Lossless profiles run with them too, so only a profile may ask for it."""
    assert [p for p in llama_cpp.check_arguments(option, "b11434") if p.is_fatal]


def test_a_schedule_becomes_a_limit_for_the_router() -> None:
    schedule = [{"batch": "1-4", "gamma": 3}, {"batch": "5+", "gamma": 0}]
    spec = {"method": "ngram", "gamma": 5, "lookup": {"min": 3, "max": 3}, "schedule": schedule}
    (problem,) = llama_cpp.check(profile(spec), worker())
    assert problem.severity == "warning"
    assert "within 4 requests at once" in problem.message
    launch = llama_cpp.render(profile(spec), worker())
    assert launch.batch_limit == 4
    assert after("--spec-ngram-simple-size-m", launch.argv) == "3"


def test_a_schedule_that_starts_with_0_is_an_error() -> None:
    schedule = [{"batch": "1", "gamma": 0}, {"batch": "2+", "gamma": 5}]
    spec = {"method": "eagle3", "gamma": 5, "schedule": schedule}
    (problem,) = llama_cpp.check(profile(spec), worker())
    assert problem.severity == "error"


def test_a_schedule_with_one_gamma_is_no_schedule() -> None:
    spec = {"method": "eagle3", "gamma": 5, "schedule": [{"batch": "1+", "gamma": 3}]}
    assert llama_cpp.check(profile(spec), worker()) == []
    launch = llama_cpp.render(profile(spec), worker())
    assert launch.batch_limit is None
    assert after("--spec-draft-n-max", launch.argv) == "3"


def test_the_version_is_asked_of_the_program() -> None:
    command = ("python", "-m", "x")
    argvs = ((*command, "--version"), (*command, "--help"))
    assert llama_cpp.version_commands(command) == argvs


def test_mtp_uses_the_targets_own_layers_unless_a_draft_is_named() -> None:
    own = llama_cpp.render(profile({"method": "mtp", "gamma": 2}), worker()).argv
    assert "--spec-draft-model" not in own
    made = profile({"method": "mtp", "gamma": 2, "draft": "eagle3"})
    assert after("--spec-draft-model", llama_cpp.render(made, worker()).argv) == "/m/head.gguf"


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ("version: 11434 (515e8551)\nbuilt with gcc\n", "11434"),
        ("version: 0.1.0-dev (build 11434, commit 515e855)\n", "11434"),
        ("version: 0.1.0-dev (build 1, commit 7e4c0a9)\nbuilt with GNU\n", None),
        ("version: 0 (unknown)\n", None),
        ("version: 1 (x)\n", None),
        ("version: 11434.5 (x)\n", None),
        ("--spec-type none,draft-simple,draft-dspark\n--spec-synth-len L\n", "b11434"),
        ("--spec-type none,draft-simple,draft-dspark\n", "b10434"),
        ("--spec-type none,draft-simple,draft-eagle3\n", "b9442"),
        ("--spec-type none,ngram-simple\n", "b9093"),
        ("load_backend: loaded\nversion: 11549 (x)\n", "11549"),
        ("error", None),
    ],
)
def test_the_version_in_the_output(output: str, version: str | None) -> None:
    assert llama_cpp.read_version(output) == version
