"""What holds for any profile on any engine version, and for any text that is called a profile."""

import copy
import functools
import json
import string
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, Phase, assume, example, given, note, settings
from hypothesis import strategies as st

from adapters import ADAPTERS
from adapters.document import parse_document
from adapters.explain import explain
from adapters.launch import FILES, Launch, WorkerSpec
from adapters.problem import Problem
from adapters.profile import Profile
from adapters.reading import check_profile, read_model
from adapters.schedule import profile_problems
from adapters.setting import Setting
from orchestrator.fleet import Fleet
from tests.unit import drawn

VERSIONS = [(e, d.name) for e, adapter in ADAPTERS.items() for d in adapter.SUPPORTED]
every_version = pytest.mark.parametrize(("engine", "version"), VERSIONS)
# derandomised: the same examples in every run, so that a failure is not left to luck. Cases of a
# version hold a profile of every method: two of them are about thirty profiles.
quick = settings(
    max_examples=50,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def problems_of(engine: str, profile: Profile, worker: WorkerSpec) -> list[Problem]:
    """Everything that a fleet would be told of this worker."""
    adapter, version = ADAPTERS[engine], worker.engine_version
    return [
        *profile_problems(profile),
        *adapter.check(profile, worker),
        *adapter.check_arguments(worker.args, version),
        *adapter.check_environment(worker.env, version),
    ]


@functools.cache
def cases(engine: str, version: str) -> st.SearchStrategy[tuple[tuple[Profile, ...], WorkerSpec]]:
    """A profile of each method, and one worker that might run them."""
    return st.tuples(drawn.profiles(engine), drawn.workers(engine, version))


@every_version
@settings(quick, max_examples=2)
@given(data=st.data())
def test_any_profile_is_refused_with_reasons_or_rendered(
    engine: str, version: str, data: st.DataObject
) -> None:
    profiles, worker = data.draw(cases(engine, version))
    for profile in profiles:
        note(f"{profile}")
        before = copy.deepcopy((profile.model_dump(), asdict(worker)))
        problems = problems_of(engine, profile, worker)
        assert problems == problems_of(engine, profile, worker)
        for problem in problems:
            assert problem.message
            assert problem.code, problem
            json.dumps(problem.as_json())
        found = ADAPTERS[engine].settings(profile, worker)
        if not any(p.is_fatal for p in problems):
            launch = ADAPTERS[engine].render(profile, worker)
            assert launch == ADAPTERS[engine].render(profile, worker)
            assert_is_whole(launch)
            assert_is_told(launch, found)
        assert (profile.model_dump(), asdict(worker)) == before


@every_version
@settings(quick, max_examples=2)
@given(data=st.data())
def test_no_key_is_dropped_in_silence(engine: str, version: str, data: st.DataObject) -> None:
    """Each comes out as a setting or as a problem; what is honoured has a setting that says how."""
    profiles, worker = data.draw(cases(engine, version))
    for profile in profiles:
        note(f"{profile}")
        accounts = explain(ADAPTERS[engine], profile, worker).accounts
        assert [(a.key, a.value) for a in accounts if a.fate == "unsaid"] == []
        told = {setting.path for setting in ADAPTERS[engine].settings(profile, worker)}
        for account in accounts if profile.is_speculating else ():
            if account.path[0] == "speculation" and account.fate in ("honoured", "translated"):
                assert account.path in told


def assert_is_whole(launch: Launch) -> None:
    """Arguments and environment are text, and every file that is referred to is there."""
    assert all(isinstance(word, str) for word in launch.argv)
    assert all(isinstance(word, str) for pair in launch.env.items() for word in pair)
    words = [word for word in launch.argv if f"{FILES}/" in word]
    for word in words:
        assert any(word.endswith(f"{FILES}/{name}") for name in launch.files)
    assert len(words) >= len(launch.files)
    assert launch.placed("/run/w").argv == launch.placed("/run/w").placed("/elsewhere").argv


def assert_is_told(launch: Launch, found: tuple[Setting, ...]) -> None:
    """Each setting reaches the engine, by argv or file, as the value that it is."""
    configs = list(parsed(launch))
    for setting in found:
        if setting.name:
            assert is_argument(launch, setting) or is_key(configs, setting), setting


def parsed(launch: Launch) -> Iterator[Any]:
    """What the engine's parsers make of files, and of arguments that are JSON objects."""
    for name, text in launch.files.items():
        yield json.loads(text) if name.endswith(".json") else yaml.safe_load(text)
    for word in launch.arguments:
        if word.startswith("{"):
            yield json.loads(word)


def is_argument(launch: Launch, setting: Setting) -> bool:
    words, value = launch.arguments, setting.value
    at = [i for i, word in enumerate(words) if word == f"--{setting.name}"]
    if value is True and at:
        return True
    if value is False and f"--no-{setting.name}" in words:
        return True
    said = {str(value), json.dumps(value), json.dumps(value, separators=(",", ":"))}
    if isinstance(value, list):
        said.add(" ".join(str(item) for item in value))
        return any(
            words[i + 1] in said or list(words[i + 1 : i + 1 + len(value)]) == [*map(str, value)]
            for i in at
        )
    return any(words[i + 1] in said for i in at)


def is_key(configs: list[Any], setting: Setting) -> bool:
    """Whether a parsed file or object holds the key, at whatever depth, with this very value."""
    return any(is_in(config, setting.name.split("."), setting.value) for config in configs)


def is_in(config: Any, path: list[str], value: Any) -> bool:
    if not isinstance(config, dict):
        return False
    inner: Any = config
    for key in path:
        inner = inner.get(key, ...) if isinstance(inner, dict) else ...
    if inner is not ... and inner == value and type(inner) is type(value):
        return True
    return any(is_in(below, path, value) for below in config.values())


# Any text.

YAML_CHARACTERS = " \n:-{}[],&*!'\"#|>%@`?~.eE019abt\t\r\0\ufeff\u2028é😀"
KEYS = ["profile", "speculation", "method", "gamma", "lookup", "schedule", "batch", "engine"]
WHOLE = """\
profile: p
speculation:
  method: ngram
  gamma: 4
  lookup: {min: 2, max: 4}
  schedule: [{batch: 1-4, gamma: 4}, {batch: 5+, gamma: 0}]
engine: {vllm: {dtype: bfloat16}}
"""
texts = st.text(YAML_CHARACTERS, max_size=60) | st.text(max_size=40)
trees = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda below: (
        st.lists(below, max_size=4)
        | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=4), below, max_size=4)
    ),
    max_leaves=16,
)


def read_any(text: str) -> None:
    """As a profile and as a fleet: usable, or with problems that have places; never raises."""
    for model in (Profile, Fleet):
        document = parse_document(text, "any.yaml")
        reading = check_profile(document) if model is Profile else read_model(document, Fleet)
        assert reading.is_usable or any(p.is_fatal for p in reading.problems)
        for problem in reading.problems:
            assert problem.place
            assert problem.code
            assert str(problem).startswith("any.yaml:")
            json.dumps(problem.as_json())


@quick
@given(texts)
def test_any_text_is_read_without_an_exception(text: str) -> None:
    read_any(text)


@quick
@given(st.integers(0, len(WHOLE)), st.integers(0, 12), texts)
def test_a_profile_with_a_piece_torn_out_is_read_without_an_exception(
    start: int, length: int, piece: str
) -> None:
    read_any(WHOLE[:start] + piece + WHOLE[start + length :])


@quick
@given(trees, st.booleans())
@example(float("inf"), True)
def test_any_data_is_read_without_an_exception(data: Any, is_flow: bool) -> None:
    try:
        text = yaml.safe_dump(data, default_flow_style=is_flow, allow_unicode=True)
    except (yaml.YAMLError, UnicodeError):
        assume(False)
    read_any(text)


def test_the_characters_drawn_are_those_that_yaml_gives_a_meaning() -> None:
    assert set(string.punctuation) - set(YAML_CHARACTERS) == set("$()+/;<=\\^_")
