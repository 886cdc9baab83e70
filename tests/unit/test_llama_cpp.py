"""llama.cpp: what its goldens do not show, and conversations with replies as it gives them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from pydantic import JsonValue

from adapters import llama_cpp
from adapters.exchange import Call, Candidate, EngineAnswerError, Generation
from adapters.launch import Model, WorkerSpec
from adapters.llama_cpp import conversation
from adapters.profile import Profile
from tests.unit.scripted import codes, talk

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


def require_body(call: Call) -> Mapping[str, Any]:
    assert call.body is not None
    return call.body


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


# Speaking to it.


@pytest.mark.parametrize(
    ("build", "version"),
    [("b11434-515e8551", "11434"), ("b11549-", "11549"), ("b0-unknown", "0"), (None, None)],
)
def test_identity(build: str | None, version: str | None) -> None:
    props = {"build_info": build, "model_path": "/m/target.gguf"}
    calls, identity = talk(conversation.identify(), [props, {"data": [{"id": "small"}]}])
    assert [c.path for c in calls] == ["/props", "/v1/models"]
    assert identity.version == version
    assert (identity.models, identity.weights) == (("small",), "/m/target.gguf")


def test_a_completion_gives_the_build() -> None:
    answer = {"tokens_predicted": 2, "system_fingerprint": "b11434-515e8551"}
    (call,), fingerprint = talk(conversation.complete("small"), [answer])
    assert fingerprint == "b11434-515e8551"
    assert require_body(call)["cache_prompt"] is False


def test_a_completion_of_nothing_is_an_error() -> None:
    with pytest.raises(EngineAnswerError, match="completed nothing"):
        talk(conversation.complete("small"), [{"tokens_predicted": 0}])


def slots(*speculative: bool) -> list[dict[str, Any]]:
    return [{"id": n, "speculative": flag} for n, flag in enumerate(speculative)]


@pytest.mark.parametrize(
    ("speculative", "timings", "drafted", "accepted"),
    [
        ((True,), {"draft_n": 90, "draft_n_accepted": 83}, 90, 83),
        ((True, True), {"draft_n": 90}, 90, 0),
        ((True,), {"predicted_n": 24}, 0, 0),
        ((False,), {"predicted_n": 24}, None, None),
    ],
)
def test_proof(
    speculative: tuple[bool, ...],
    timings: dict[str, int],
    drafted: int | None,
    accepted: int | None,
) -> None:
    replies = [slots(*speculative), {"tokens": [5, 6]}, {"timings": timings}]
    calls, proof = talk(conversation.prove("small", ngram()), replies)
    assert [c.path for c in calls] == ["/slots", "/tokenize", "/completion"]
    assert (proof.drafted, proof.accepted) == (drafted, accepted)


def test_a_slot_that_does_not_speculate_is_no_proof_although_another_drafts() -> None:
    replies = [
        slots(True, False),
        {"tokens": [5]},
        {"timings": {"draft_n": 90, "draft_n_accepted": 83}},
    ]
    _, proof = talk(conversation.prove("small", ngram()), replies)
    assert not proof.drafted
    assert proof.detail == "1 of 2 slots do not speculate"


@pytest.mark.parametrize(("least", "gamma"), [(2, 4), (3, 128), (200, 6)])
def test_the_proof_repeats_a_cycle_longer_than_match_and_guess(least: int, gamma: int) -> None:
    lookup = {"min": least, "max": least}
    made = profile({"method": "ngram", "gamma": gamma, "lookup": lookup})
    replies = [slots(True), {"tokens": [7, 8, 9]}, {"timings": {}}]
    calls, _ = talk(conversation.prove("small", made), replies)
    words = require_body(calls[1])["content"].split()
    assert len(set(words)) == len(words) > least + gamma
    assert require_body(calls[2])["prompt"] == [7, 8, 9] * 3


def test_the_proofs_grammar_leaves_one_token_at_a_time() -> None:
    """A model that may spell the words otherwise would find no match (tried on b11549)."""
    replies = [slots(True), {"tokens": [7, 8]}, {"timings": {}}]
    calls, _ = talk(conversation.prove("small", ngram()), replies)
    assert require_body(calls[2])["grammar"] == "root ::= (<[7]> <[8]>)+"


def test_a_draft_is_proved_without_a_grammar() -> None:
    """It would guess against it, and nothing would be accepted."""
    replies = [slots(True), {"tokens": [7, 8]}, {"timings": {}}]
    made = profile({"method": "draft_model", "gamma": 4})
    calls, _ = talk(conversation.prove("small", made), replies)
    assert "grammar" not in require_body(calls[2])


def test_generation_of_a_prompt() -> None:
    request: dict[str, JsonValue] = {"prompt": "say", "max_tokens": 8, "stop": ["x"]}
    answer = {"tokens": [3, 4], "content": "ab", "stop_type": "limit"}
    calls, found = talk(conversation.generate("small", request), [{"tokens": [2, 1]}, answer])
    assert [c.path for c in calls] == ["/tokenize", "/completion"]
    assert found == Generation((2, 1), (3, 4), "ab", "length")
    assert (found.drafted, found.accepted) == (None, None)
    body = require_body(calls[1])
    assert (body["n_predict"], body["stop"], body["return_tokens"]) == (8, ["x"], True)
    assert body["cache_prompt"] is False
    assert "max_tokens" not in body


@pytest.mark.parametrize(
    ("timings", "drafted", "accepted"),
    [({"draft_n": 6, "draft_n_accepted": 5}, 6, 5), ({"predicted_n": 8}, 0, 0)],
)
def test_generation_tells_what_was_drafted(
    timings: dict[str, int], drafted: int, accepted: int
) -> None:
    """llama.cpp leaves both counts out of an answer without drafts."""
    answer = {"tokens": [3], "content": "a", "stop_type": "eos", "timings": timings}
    _, found = talk(conversation.generate("m", {"prompt": "a"}), [{"tokens": [2]}, answer])
    assert (found.drafted, found.accepted) == (drafted, accepted)


@pytest.mark.parametrize(("stop_type", "reason"), [("eos", "stop"), ("word", "stop")])
def test_how_an_answer_ended(stop_type: str, reason: str) -> None:
    answer = {"tokens": [3], "content": "a", "stop_type": stop_type}
    _, found = talk(conversation.generate("m", {"prompt": "a"}), [{"tokens": [2]}, answer])
    assert found.finish_reason == reason


def test_generation_of_a_chat_reads_ids_beside_logprobs() -> None:
    request: dict[str, JsonValue] = {
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 4,
    }
    content = [{"id": 5, "token": "a", "logprob": 0.0, "top_logprobs": []}, {"id": 6}]
    message = {"content": "ab"}
    choice = {"message": message, "finish_reason": "stop", "logprobs": {"content": content}}
    replies = [{"prompt": "<user>hi"}, {"tokens": [2, 9]}, {"choices": [choice]}]
    calls, found = talk(conversation.generate("small", request), replies)
    assert [c.path for c in calls] == ["/apply-template", "/tokenize", "/v1/chat/completions"]
    assert found == Generation((2, 9), (5, 6), "ab", "stop")


def test_a_chat_answer_without_ids_although_it_has_text_is_an_error() -> None:
    """No ids would be compared as an empty answer."""
    request: dict[str, JsonValue] = {"messages": [{"role": "user", "content": "hi"}]}
    choice = {"message": {"content": "text"}, "finish_reason": "stop", "logprobs": None}
    replies = [{"prompt": "<user>hi"}, {"tokens": [2]}, {"choices": [choice]}]
    with pytest.raises(EngineAnswerError):
        talk(conversation.generate("small", request), replies)


def test_candidates_are_sorted() -> None:
    top = [
        {"id": 7, "token": "a", "logprob": -1.5},
        {"id": 9, "token": "b", "logprob": -0.25},
    ]
    answer = {"completion_probabilities": [{"top_logprobs": top}]}
    (call,), found = talk(conversation.candidates("small", (1, 2)), [answer])
    assert found == (Candidate(9, -0.25, "b"), Candidate(7, -1.5, "a"))
    assert require_body(call)["prompt"] == [1, 2]
