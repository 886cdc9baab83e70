"""TensorRT-LLM: its YAML file says what was meant, whatever the text."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from adapters import tensorrt_llm
from adapters.explain import explain
from adapters.launch import Model
from adapters.profile import Profile
from tests.unit.scripted import codes
from tests.unit.test_tensorrt_llm import DRAFTS, EAGLE3, NEW, OLD, native, profile, worker

TREE = {"gamma": 4, "tree": {"branches": 4, "tokens": 4}}


def read(made: Profile, spec: Any) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(tensorrt_llm.render(made, spec).files["serve.yaml"])
    return content


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(st.text(), st.text())
@example("a\x85b", "\u2028")
@example("  two  spaces " * 20, "\n\ttab: #x")
@example("=", "\ufeff\U0001f600\x00\x7f")
def test_every_text_is_read_as_it_was_meant(value: str, key: str) -> None:
    model = Model("small", "org/target", 4096, {**DRAFTS, "eagle3": f"/m/{value}"}, f"r{value}")
    made = native(EAGLE3, kv_cache_config={"dtype": value}, model_kwargs={key: value})
    content = read(made, worker(model=model))
    assert content["revision"] == f"r{value}"
    assert content["kv_cache_config"] == {"dtype": value}
    assert content["model_kwargs"] == {key: value}
    assert content["speculative_config"]["speculative_model"] == f"/m/{value}"


# Two spellings of one key.


def test_a_second_spelling_of_the_speculative_config_is_told() -> None:
    data = {"speculative-config": {"load_format": "auto"}, "speculative_config": {"greedy": 1}}
    made = profile(EAGLE3, engine={"tensorrt_llm": data})
    (problem,) = tensorrt_llm.check(made, worker())
    assert problem.code == "option-twice"
    assert problem.path == ("engine", "tensorrt_llm", "speculative_config")


def test_a_second_spelling_of_a_key_in_it_is_told() -> None:
    made = native(EAGLE3, speculative_config={"load-format": "auto", "load_format": "auto"})
    (problem,) = tensorrt_llm.check(made, worker())
    assert (problem.code, problem.path[-1]) == ("option-twice", "load_format")


# Random weights.


@pytest.mark.parametrize("version", [OLD, NEW])
@pytest.mark.parametrize("word", ["dummy", "DUMMY"])
def test_random_weights_are_lossy(word: str, version: str) -> None:
    assert codes(tensorrt_llm.check_arguments({"load_format": word}, version)) == ["lossy"]
    assert codes(tensorrt_llm.check(native(EAGLE3, load_format=word), worker(version))) == ["lossy"]
    drafts = native(EAGLE3, speculative_config={"load_format": word})
    assert codes(tensorrt_llm.check(drafts, worker(version))) == ["lossy"]
    assert tensorrt_llm.check_arguments({"load_format": "auto"}, version) == []


# A tree's keys all have a fate.


@pytest.mark.parametrize("method", ["eagle", "eagle3"])
@pytest.mark.parametrize("version", [OLD, NEW])
@pytest.mark.parametrize("tokens", [4, 12])
def test_both_keys_of_a_tree_are_accounted_for(method: str, version: str, tokens: int) -> None:
    spec = {"method": method, **TREE, "tree": {"branches": 4, "tokens": tokens}}
    made = Profile.model_validate_json(json.dumps({"profile": "p", "speculation": spec}))
    accounts = explain(tensorrt_llm, made, worker(version)).accounts
    fates = {account.key: account.fate for account in accounts}
    assert "unsaid" not in fates.values()
    assert {"speculation.tree.branches", "speculation.tree.tokens"} <= set(fates)
