"""Every adapter offers the whole contract; what differs between them is only what it says."""

import contextlib
import inspect
import re
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any, get_type_hints

import pytest

from adapters import ADAPTERS
from adapters.checkpoint import Checkpoint
from adapters.contract import Adapter, Api
from adapters.dialect import Dialect
from adapters.exchange import AS_USUAL, Draws, EngineAnswerError, How, Reply
from adapters.flag import load_flags
from adapters.launch import Model, WorkerSpec
from adapters.metric import NAMES
from adapters.profile import Profile
from adapters.reading import read_profile
from orchestrator.shipped import shipped

ENGINES = sorted(ADAPTERS)
CONSTANTS = sorted(name for name in Adapter.__annotations__ if name != "api")
NGRAM = Profile.model_validate(
    {"profile": "p", "speculation": {"method": "ngram", "gamma": 4}}, strict=False
)
PLAIN = Profile.model_validate({"profile": "plain", "speculation": {"method": "none"}})


def functions(protocol: type) -> list[str]:
    return sorted(n for n, v in vars(protocol).items() if inspect.isfunction(v) and n[0] != "_")


def missing(module: object, protocol: type) -> list[str]:
    """Names of functions that the module lacks, or has with other parameters or types."""
    return [name for name in functions(protocol) if not matches(module, protocol, name)]


def matches(module: object, protocol: type, name: str) -> bool:
    function: Callable[..., Any] | None = vars(module).get(name)
    if function is None:
        return False
    declared = inspect.signature(getattr(protocol, name))
    wanted = [p.name for p in declared.parameters.values() if p.name != "self"]
    if list(inspect.signature(function).parameters) != wanted:
        return False
    return get_type_hints(function) == get_type_hints(getattr(protocol, name))


def worker(engine: str, version: str | None = None, **fields: Any) -> WorkerSpec:
    adapter = ADAPTERS[engine]
    version = version or adapter.SUPPORTED[-1].name
    drafts = {"draft_model": "/m/draft.gguf", "eagle3": "/m/head.gguf"}
    model = Model("small", "/m/target.gguf", 2048, drafts)
    return WorkerSpec("w", version, (adapter.COMMANDS[0],), model, 8000, **fields)


@pytest.mark.parametrize("engine", ENGINES)
def test_every_function_is_there_with_the_contracts_signature(engine: str) -> None:
    assert missing(ADAPTERS[engine], Adapter) == []
    assert missing(ADAPTERS[engine].api, Api) == []


@pytest.mark.parametrize("engine", ENGINES)
def test_every_constant_is_there(engine: str) -> None:
    assert [name for name in CONSTANTS if name not in vars(ADAPTERS[engine])] == []


def test_a_missing_or_wrong_function_is_named() -> None:
    def identify(extra: int) -> None:
        """With a parameter too many."""

    module = ModuleType("half")
    module.__dict__.update({"identify": identify, "complete": None})
    assert missing(module, Api) == functions(Api)


@pytest.mark.parametrize("engine", ENGINES)
def test_dialects_are_ordered_do_not_overlap_and_have_option_tables(engine: str) -> None:
    supported: tuple[Dialect, ...] = ADAPTERS[engine].SUPPORTED
    assert supported
    for dialect in supported:
        assert dialect.since < dialect.until
        assert load_flags(engine, dialect.name).flags
    assert list(supported) == sorted(supported, key=lambda d: d.since)
    bounds = [bound for d in supported for bound in (d.since, d.until)]
    assert bounds == sorted(bounds)


@pytest.mark.parametrize("engine", ENGINES)
def test_metrics_are_ours_and_each_is_another_counter(engine: str) -> None:
    metrics = ADAPTERS[engine].METRICS
    assert set(metrics) <= set(NAMES)
    assert len(set(metrics.values())) == len(metrics)


@pytest.mark.parametrize("engine", ENGINES)
def test_counts_in_answers_are_ours(engine: str) -> None:
    counts = ADAPTERS[engine].ANSWER_COUNTS
    assert set(counts) <= {"completion", "drafted", "accepted"}
    assert all(place.count(".") == 1 for place in counts.values())


@pytest.mark.parametrize(
    ("engine", "reason"),
    [
        (engine, reason)
        for engine in ENGINES
        for reason in ADAPTERS[engine].limits(NGRAM, worker(engine).engine_version).values()
    ],
)
def test_every_limit_has_a_reason_in_a_sentence(engine: str, reason: str) -> None:
    assert reason.startswith(ADAPTERS[engine].TITLE)
    assert len(reason.split()) >= 4
    assert not reason.endswith(".")  # it is joined to others with semicolons


@pytest.mark.parametrize("engine", ENGINES)
def test_health_is_a_path_and_commands_are_names(engine: str) -> None:
    adapter = ADAPTERS[engine]
    assert re.fullmatch(r"/[a-z/]+", adapter.HEALTH)
    assert adapter.COMMANDS
    assert not any("/" in command for command in adapter.COMMANDS)


@pytest.mark.parametrize("engine", ENGINES)
def test_packages_are_names_of_distributions(engine: str) -> None:
    packages = ADAPTERS[engine].PACKAGES
    assert packages
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", package) for package in packages)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_most_at_once_is_what_is_given_by_any_name(engine: str) -> None:
    names = {
        "llama_cpp": ("parallel", "np"),
        "sglang": ("max-running-requests", "max_running_requests"),
        "tensorrt_llm": ("max_batch_size", "max-batch-size"),
        "vllm": ("max-num-seqs", "max_num_seqs"),
    }
    for name in names[engine]:
        assert ADAPTERS[engine].most_at_once({name: 3}) == 3
    default = ADAPTERS[engine].most_at_once({})
    assert default is None or default > 1


@pytest.mark.parametrize("engine", ENGINES)
def test_wide_arguments_are_options_that_no_version_refuses(engine: str) -> None:
    adapter = ADAPTERS[engine]
    arguments = adapter.wide_arguments(5)
    for dialect in adapter.SUPPORTED if arguments else ():
        assert adapter.check_arguments(arguments or {}, dialect.name) == []


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("model", [None, "bfloat16", "float16"])
def test_the_type_of_logits_is_known_or_none(engine: str, model: str | None) -> None:
    facts = Checkpoint("/m/target", "huggingface", dtype=model)
    spec = replace(worker(engine), model=Model("small", "/m/target", facts=facts))
    expected = "float32" if engine == "llama_cpp" and model else model
    assert ADAPTERS[engine].logit_type(spec) == expected
    if engine != "llama_cpp":
        given = replace(spec, args={"dtype": "float32"})
        assert ADAPTERS[engine].logit_type(given) == "float32"


@pytest.mark.parametrize("engine", ENGINES)
def test_the_newest_dialects_own_name_is_a_known_version(engine: str) -> None:
    """It stands in for the version wherever the engine cannot be asked."""
    adapter = ADAPTERS[engine]
    for dialect in adapter.SUPPORTED:
        assert adapter.check_arguments({}, dialect.name) == []


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("version", ["0.0.1", "99999999", "nightly"])
def test_an_unknown_version_warns_and_is_still_rendered(engine: str, version: str) -> None:
    adapter, spec = ADAPTERS[engine], worker(engine, version)
    (problem,) = adapter.check_arguments({}, version)
    assert problem.severity == "warning"
    assert problem.path == ()
    assert version in problem.message
    assert not any(p.is_fatal for p in adapter.check(PLAIN, spec))
    assert adapter.render(PLAIN, spec).argv


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("output", ["", "\n", "version:", "command not found", "not found"])
def test_output_without_a_version_has_none(engine: str, output: str) -> None:
    assert ADAPTERS[engine].read_version(output) is None


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("path", sorted(shipped("profiles").glob("*.yaml")), ids=lambda p: p.stem)
def test_shipped_profiles_are_refused_with_a_reason_or_rendered(engine: str, path: Any) -> None:
    profile = read_profile(path).value
    assert profile is not None
    spec = worker(engine)
    problems = ADAPTERS[engine].check(profile, spec)
    for problem in problems:
        assert problem.message
        assert problem.path[0] in ("speculation", "engine")
    if not any(p.is_fatal for p in problems):
        launch = ADAPTERS[engine].render(profile, spec)
        assert (launch.host, launch.port) == ("127.0.0.1", 8000)
        assert "8000" in launch.address
        assert "8000" not in launch.command + launch.arguments


@pytest.mark.parametrize("engine", ENGINES)
def test_rendering_twice_is_the_same_launch(engine: str) -> None:
    spec = worker(engine)
    assert ADAPTERS[engine].render(NGRAM, spec) == ADAPTERS[engine].render(NGRAM, spec)


METHODS = ("none", "ngram", "suffix", "draft_model", "eagle3", "mtp")


def speculation(method: str) -> dict[str, Any]:
    return {"method": method} if method == "none" else {"method": method, "gamma": 4}


def written(engine: str, method: str, **native: Any) -> set[str]:
    """The options that draftgate itself writes for a method."""
    data: dict[str, Any] = {"profile": "p", "speculation": speculation(method)}
    data["engine"] = {engine: native}
    profile, spec = Profile.model_validate(data), worker(engine)
    if any(p.is_fatal for p in ADAPTERS[engine].check(profile, spec)):
        return set()
    return {a[2:] for a in ADAPTERS[engine].render(profile, spec).argv if a.startswith("--")}


OPTIONS = [
    (engine, method, option)
    for engine in ENGINES
    for method in METHODS
    for option in sorted(written(engine, method))
] + [
    ("llama_cpp", "ngram", option)
    for kind in ("ngram-mod", "ngram-map-k", "ngram-map-k4v")
    for option in sorted(written("llama_cpp", "ngram", **{"spec-type": kind}))
]


@pytest.mark.parametrize(("engine", "method", "option"), sorted(set(OPTIONS)))
def test_no_option_is_written_twice(engine: str, method: str, option: str) -> None:
    """What draftgate writes is refused natively, or written once with the value that is given."""
    table = load_flags(engine, ADAPTERS[engine].SUPPORTED[-1].name)
    flag = table.find(option)
    assert flag is not None, f"{engine} has no option {option}"
    value: Any = flag.choices[0] if flag.choices else (True if flag.kind == "switch" else "1")
    found = ADAPTERS[engine].check_arguments({option: value}, worker(engine).engine_version)
    if not found:
        profile = Profile.model_validate({"profile": "p", "speculation": speculation(method)})
        argv = ADAPTERS[engine].render(profile, worker(engine, args={option: value})).argv
        assert argv.count(f"--{flag.name}") == 1
        assert argv[argv.index(f"--{flag.name}") + 1] == value
        return
    assert [p.code for p in found] == ["option-is-ours"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("given", ["short", "long"])
def test_an_alias_is_the_same_option_in_both_layers(engine: str, given: str) -> None:
    """The fleet's `args:` win over a profile's; an option under two names is written once."""
    table = load_flags(engine, ADAPTERS[engine].SUPPORTED[-1].name)
    flag = table.find("parallel" if engine == "llama_cpp" else "tensor-parallel-size")
    assert flag is not None
    names = (flag.aliases[0], flag.name)
    one, other = names if given == "short" else reversed(names)
    profile = Profile.model_validate(
        {"profile": "p", "speculation": {"method": "none"}, "engine": {engine: {one: 2}}}
    )
    text = ADAPTERS[engine].render(profile, worker(engine, args={other: 1})).text()
    pattern = flag.name.replace("-", "[-_]")
    assert re.findall(rf"{pattern}:?\s+(\S+)", text) == ["1"]


STRANGE = [
    "null",
    "[]",
    "{}",
    "5",
    '"ok"',
    "true",
    '{"data": null}',
    '{"data": [5]}',
    '{"data": [{"id": "m"}]}',
    '{"choices": [null]}',
    '{"choices": [{"logprobs": null, "message": null, "text": 5}]}',
    '{"choices": [{"logprobs": {"top_logprobs": [null], "content": [5]}}]}',
    '{"choices": [{"logprobs": {"top_logprobs": [{" the": -1.0}]}}]}',
    '{"usage": {"completion_tokens": null}}',
    '{"tokens_predicted": null}',
    '{"timings": null, "tokens": null, "content": null}',
    '{"timings": 5, "tokens": 5, "content": 5, "prompt": 5}',
    '{"completion_probabilities": [{"top_logprobs": [{}]}]}',
    '{"completion_probabilities": [{"top_logprobs": null}]}',
    "not JSON",
    "<html>",
    "",
]
CONVERSATIONS: dict[str, Callable[[Api], Any]] = {
    "identify": lambda api: api.identify(),
    "complete": lambda api: api.complete("m"),
    "prove": lambda api: api.prove("m", NGRAM),
    "generate": lambda api: api.generate("m", {"prompt": "a", "max_tokens": 4}),
    "chat": lambda api: api.generate("m", {"messages": [{"role": "user", "content": "a"}]}),
    "stream": lambda api: api.generate("m", {"prompt": "a", "max_tokens": 4}, How(stream=True)),
    "margins": lambda api: api.generate("m", {"prompt": "a"}, How(own_margins=True)),
    "candidates": lambda api: api.candidates("m", (1, 2)),
    "score": lambda api: api.score("m", (1, 2), 1),
    "wide": lambda api: api.wide("m", (1, 2), 2),
    "sample": lambda api: api.sample("m", (1, 2), Draws(2, 2, 1.0, 0)),
}


UNASKED = "unasked"


def converse(conversation: Any, status: int, text: str) -> Any:
    """Answer every call alike; returns the result, or that nothing was asked."""
    try:
        call = next(conversation)
    except StopIteration:
        return UNASKED
    for _ in range(8):
        try:
            call = conversation.send(Reply(call, status, text))
        except StopIteration as stop:
            return stop.value
    raise AssertionError("the conversation does not end")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("subject", CONVERSATIONS)
def test_a_stranger_on_the_port_is_an_engine_answer_error(engine: str, subject: str) -> None:
    """Whatever answers there: a result, or the one error that callers translate."""
    for text in STRANGE:
        with contextlib.suppress(EngineAnswerError):
            converse(CONVERSATIONS[subject](ADAPTERS[engine].api), 200, text)


# What an engine cannot do is not asked of it.
NEVER_ASKED = {("llama_cpp", "score"), ("tensorrt_llm", "score"), ("tensorrt_llm", "wide")}


@pytest.mark.parametrize(
    ("engine", "subject"),
    [(e, s) for e in ENGINES for s in CONVERSATIONS if (e, s) not in NEVER_ASKED],
)
@pytest.mark.parametrize("status", [400, 404, 500, 503])
def test_a_refusal_is_an_engine_answer_error(engine: str, subject: str, status: int) -> None:
    conversation = CONVERSATIONS[subject](ADAPTERS[engine].api)
    with pytest.raises(EngineAnswerError, match=f"answered {status}: no such model"):
        converse(conversation, status, "no such\n model")


@pytest.mark.parametrize(("engine", "subject"), sorted(NEVER_ASKED))
def test_what_an_engine_cannot_do_is_not_asked(engine: str, subject: str) -> None:
    assert converse(CONVERSATIONS[subject](ADAPTERS[engine].api), 500, "") is UNASKED


@pytest.mark.parametrize("engine", ENGINES)
def test_answers_are_asked_for_whole_and_without_a_cache_by_default(engine: str) -> None:
    default = inspect.signature(ADAPTERS[engine].api.generate).parameters["how"].default
    assert default == AS_USUAL == How(stream=False, own_margins=False, keep_cache=False)
