"""The JSON report: stable keys that the docs name, and nothing that JSON cannot hold."""

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.gate.evidence import Trial
from orchestrator.gate.report.data import MOST_CANDIDATES, as_json
from tests.unit.report_samples import MAKERS, failing, hostile, passing

DOCS = (Path(__file__).parents[2] / "docs" / "gate-reports.md").read_text(encoding="utf-8")


def encoded(trial: Trial) -> Any:
    return json.loads(json.dumps(as_json(trial), allow_nan=False))


def keys(value: Any) -> Iterator[str]:
    """Keys of ours: those of `rates`, `suites`, `kinds` and `errors` are names from elsewhere."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            if key == "rates":
                yield from (k for rate in inner.values() for k in rate)
            elif key == "suites":
                yield from (k for suite in inner.values() for k in suite)
            elif key not in ("kinds", "errors"):
                yield from keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from keys(inner)


@pytest.mark.parametrize("make", MAKERS)
def test_every_outcome_is_json(make: Callable[[], Trial]) -> None:
    data = encoded(make())
    assert data["format"] == 1
    assert data["verdict"] == make().verdict


def test_every_key_is_documented() -> None:
    assert {key for key in keys(encoded(failing())) if f"`{key}`" not in DOCS} == set()


def test_outcomes_have_the_same_keys() -> None:
    assert {tuple(as_json(make())) for make in MAKERS} == {tuple(as_json(passing()))}


def test_hostile_text_survives_whole() -> None:
    trial, _ = hostile()
    text = json.dumps(as_json(trial), allow_nan=False)
    assert text.isascii()
    assert json.loads(text)["notes"] == list(trial.notes)


def test_numbers_that_json_lacks_are_null() -> None:
    base = failing()
    strange = replace(base.divergences[3], margin=math.inf, gap=math.nan)
    trial = replace(base, divergences=(strange,), wall_seconds=math.inf)
    data = encoded(trial)
    assert data["wall_seconds"] is None
    assert data["divergences"][0]["margin"] is data["divergences"][0]["gap"] is None


def test_candidates_are_trimmed_but_for_the_tokens_in_question() -> None:
    for one in encoded(failing())["divergences"]:
        asked = {one["expected"], one["found"]}
        told = [candidate["token"] for candidate in one["candidates"]]
        assert len(told) <= MOST_CANDIDATES + 2
        if one["margin"] is not None:
            assert asked <= set(told)
        assert one["candidates_told"] in (0, 20)


def test_what_was_counted_is_there() -> None:
    data = encoded(failing())
    assert len(data["divergences"]) == 200
    assert sum(data["kinds"].values()) == 200
    (s1,) = (arm for arm in data["arms"] if arm["name"] == "S1")
    assert len(s1["acceptance_by_position"]) == 4
    assert data["suites"]["json"] == {
        "ran": False,
        "why_not": "no prompt asks for structured output",
    }
    assert data["suites"]["greedy"] == {"ran": True, "why_not": None}
    told = [arm["fingerprint"] for arm in data["arms"]]
    assert told == [None, None, *["0.32.0 pid 4711 since 1764523011"] * 2]
    assert "S1 and S2: the arms read different prompts (999 and 1,999 tokens)" in {
        d["sentence"] for d in data["divergences"]
    }
    assert {d["excused"] for d in data["divergences"]} == {True, False}
    assert "text" not in data["questions"][0]
