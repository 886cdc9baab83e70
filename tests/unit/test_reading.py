"""From a file to a checked model: every mistake at once, at its line and column."""

from pathlib import Path
from typing import TypeVar

import pytest
from pydantic import BaseModel

from adapters.document import parse_document
from adapters.problem import Problem
from adapters.profile import Profile
from adapters.pruning import Pruned
from adapters.reading import Reading, read_model, read_profile, with_problems
from adapters.schedule import profile_problems
from orchestrator.fleet import Fleet

M = TypeVar("M", bound=BaseModel)
FLEET = "fleet: f\nmodels: {small: {target: m.gguf}}\n"
WORKER = "workers: [{name: w, engine: vllm, model: small, profile: plain, port: 8001}]\n"


def read(text: str, model: type[M]) -> Reading[M]:
    return read_model(parse_document(text, "f.yaml"), model)


def read_speculation(text: str) -> Reading[Profile]:
    """A profile whose third line holds the speculation, with the checks between fields."""
    reading = read(f"profile: p\nspeculation:\n  {{{text}}}\n", Profile)
    found = profile_problems(reading.value) if reading.value else []
    return with_problems(reading, found)


def told(reading: Reading[M]) -> list[str]:
    """`line:column path` of every problem, in file order."""
    known = sorted((p.place, p) for p in reading.problems if p.place)
    return [f"{place.line}:{place.column} {str(p).split(': ')[1]}" for place, p in known]


def paths(reading: Reading[M]) -> list[tuple[str | int, ...]]:
    return [p.path for p in reading.problems]


TEN_MISTAKES = """\
profile: Code Edit
descripton: misspelt
lossless: off
lossless: true
speculation:
  method: ngram
  gamma: '5'
  lookup: {min: 0, mx: 5}
  schedule:
    - {batch: 1-4, gamma: 5}
    - {batch: 5 to 16, gamma: 3}
    - {batch: 17+, gama: 0}
expect: {acceptance_rate: 1.5}
engine: {vlm: {}}
"""


def test_ten_mistakes_are_ten_complaints_each_at_its_place(tmp_path: Path) -> None:
    file = tmp_path / "edit.yaml"
    file.write_text(TEN_MISTAKES)
    reading = read_profile(file, "edit.yaml")
    seen = sorted((p.place.line, p.place.column, p.path[-1]) for p in reading.problems if p.place)
    assert seen == [
        (1, 10, "profile"),
        (2, 1, "descripton"),
        (3, 11, "lossless"),
        (4, 1, "lossless"),
        (7, 10, "gamma"),
        (8, 17, "min"),
        (8, 20, "mx"),
        (11, 15, "batch"),
        (12, 7, "gamma"),
        (12, 20, "gama"),
        (13, 27, "acceptance_rate"),
        (14, 10, "vlm"),
    ]
    assert not reading.is_usable


def test_a_good_file_is_usable(tmp_path: Path) -> None:
    file = tmp_path / "plain.yaml"
    file.write_text("profile: plain\nspeculation: {method: none}\n")
    reading = read_profile(file)
    assert reading.is_usable
    assert reading.problems == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("# only a comment\n", "the file is empty"),
        ("- 1\n", "expected a mapping, found a list"),
        ("5\n", "expected a mapping, found 5"),
        ("''\n", "expected a mapping, found ''"),
    ],
)
def test_files_that_are_no_mapping(text: str, message: str) -> None:
    reading = read(text, Profile)
    assert reading.value is None
    assert [p.message for p in reading.problems] == [message]


@pytest.mark.parametrize(
    ("line", "key", "hint"),
    [
        ("lossles: true", "lossles", "did you mean 'lossless'?"),
        ("engines: {}", "engines", "did you mean 'engine'?"),
        ("expect: {acceptance_rat: 0.5}", "acceptance_rat", "did you mean 'acceptance_rate'?"),
        ("engine: {lama_cpp: {}}", "lama_cpp", "did you mean 'llama_cpp'?"),
    ],
)
def test_unknown_keys_of_a_profile_get_a_near_match(line: str, key: str, hint: str) -> None:
    reading = read(f"profile: p\nspeculation: {{method: none}}\n{line}\n", Profile)
    (problem,) = reading.problems
    assert problem.message == f"unknown key {key!r}"
    assert (problem.code, problem.hint) == ("unknown-key", hint)


@pytest.mark.parametrize(
    ("text", "path", "hint"),
    [
        ("method: ngram, gamma: 4, lokup: {}", ("lokup",), "did you mean 'lookup'?"),
        ("method: ngram, gamma: 4, lookup: {minn: 2}", ("lookup", "minn"), "did you mean 'min'?"),
        ("method: suffix, gamma: 4, max_dept: 2", ("max_dept",), "did you mean 'max_depth'?"),
        (
            "method: ngram, gamma: 4, schedule: [{batch: 1+, gamma: 4, gama: 2}]",
            ("schedule", 0, "gama"),
            "did you mean 'gamma'?",
        ),
    ],
)
def test_unknown_keys_of_a_speculation_get_a_near_match(
    text: str, path: tuple[str | int, ...], hint: str
) -> None:
    (problem,) = read_speculation(text).problems
    assert problem.path == ("speculation", *path)
    assert problem.hint == hint


@pytest.mark.parametrize(
    ("text", "key", "hint"),
    [
        (f"{FLEET}{WORKER}worker: []\n", "worker", "did you mean 'workers'?"),
        (f"{FLEET}{WORKER}router: {{listn: 'a:1'}}\n", "listn", "did you mean 'listen'?"),
        (f"{FLEET}{WORKER}gate: {{polcy: strict}}\n", "polcy", "did you mean 'policy'?"),
        (f"{FLEET}{WORKER}engines: {{vlm: {{}}}}\n", "vlm", "did you mean 'vllm'?"),
        (
            f"{FLEET}{WORKER}engines: {{vllm: {{versoin: '1'}}}}\n",
            "versoin",
            "did you mean 'version'?",
        ),
        (
            f"{FLEET}{WORKER}types: [{{type: t, when: {{fenced: '>=0.3', sistem: a}}}}]\n",
            "sistem",
            "did you mean 'system'?",
        ),
        (
            f"{FLEET}{WORKER}routes: {{t: [{{profile: plain, untill: {{in_flight: 2}}}}]}}\n",
            "untill",
            "did you mean 'until'?",
        ),
        (
            FLEET.replace("target: m.gguf", "target: m.gguf, contxt: 99") + WORKER,
            "contxt",
            "did you mean 'context'?",
        ),
    ],
)
def test_unknown_keys_of_a_fleet_get_a_near_match(text: str, key: str, hint: str) -> None:
    reading = read(text, Fleet)
    assert [(p.message, p.hint) for p in reading.problems] == [(f"unknown key {key!r}", hint)]


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        ("method: ngram, gamma: 0", ("gamma",), "must be at least 1, found 0"),
        ("method: ngram, gamma: 129", ("gamma",), "must be at most 128, found 129"),
        ("method: ngram, gamma: 5.0", ("gamma",), "expected a whole number, found 5.0"),
        ("method: ngram, gamma: '5'", ("gamma",), "expected a whole number, found '5'"),
        ("method: ngram, gamma: true", ("gamma",), "expected a whole number, found true"),
        ("method: ngram, gamma: ", ("gamma",), "expected a whole number, found nothing"),
        ("method: ngram, gamma: [4]", ("gamma",), "expected a whole number, found a list"),
        ("method: ngram", ("gamma",), "'gamma' is missing"),
        ("method: eagle3, gamma: 4, draft: 5", ("draft",), "expected text, found 5"),
        (
            "method: ngram, gamma: 4, lookup: {min: 5, max: 3}",
            ("lookup", "min"),
            "min (5) is above max (3)",
        ),
        ("method: ngram, gamma: 4, lookup: 5", ("lookup",), "expected a mapping, found 5"),
    ],
)
def test_bad_values_say_what_was_found(
    text: str, path: tuple[str | int, ...], message: str
) -> None:
    (problem,) = read_speculation(text).problems
    assert problem.path == ("speculation", *path)
    assert problem.message == message


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("method: ngramm, gamma: 4", "unknown method 'ngramm'", "did you mean 'ngram'?"),
        (
            "gamma: 4, method: hydra",
            "unknown method 'hydra'",
            "known: custom, dflash, draft_model, dspark, eagle, eagle3, lookahead, medusa, "
            "mlp_speculator, mtp, ngram, none, … (13 in all)",
        ),
    ],
)
def test_an_unknown_method_is_told_where_the_method_stands(
    text: str, message: str, hint: str
) -> None:
    (problem,) = read_speculation(text).problems
    assert (problem.message, problem.hint) == (message, hint)
    column = 4 + text.index("method: ") + len("method: ")
    assert problem.place is not None
    assert (problem.place.line, problem.place.column) == (3, column)


@pytest.mark.parametrize("value", ["on", "off", "yes", "no"])
def test_old_yaml_booleans_get_a_hint(value: str) -> None:
    text = f"profile: p\nspeculation: {{method: none}}\nlossless: {value}\n"
    (problem,) = read(text, Profile).problems
    assert problem.hint == f"write {'true' if value in ('on', 'yes') else 'false'}"


# Of two complaints where the second only follows from the first, the first is enough.


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("method: ngram, gamma: x, schedule: [{batch: 1+, gamma: 9}]", ("gamma",)),
        (
            "method: ngram, gamma: 4, schedule: [{batch: a, gamma: 3}, {batch: 5+, gamma: 2}]",
            ("schedule", 0, "batch"),
        ),
        (
            "method: ngram, gamma: 4, schedule: [{batch: 1-4, gamma: 3}, {batch: b, gamma: 3}, "
            "{batch: 9+, gamma: 0}]",
            ("schedule", 1, "batch"),
        ),
        (
            "method: ngram, gamma: 4, schedule: [{batch: 1-4, gamma: 3}, {batch: c, gamma: 0}]",
            ("schedule", 1, "batch"),
        ),
        ("method: ngram, gamma: 4, schedule: [{batch: 1+, gamma: x}]", ("schedule", 0, "gamma")),
        ("method: ngram, gamma: 4, schedule: [{batch: x, gamma: 1}]", ("schedule", 0, "batch")),
        ("method: ngram, gamma: 4, schedule: [5]", ("schedule", 0)),
        ("method: ngram, gamma: 4, lookup: {min: x, max: 1}", ("lookup", "min")),
        ("method: ngram, gamma: 4, lookup: {min: 5, max: x}", ("lookup", "max")),
        ("method: ngram, gamma: 4, lookup: {min: 5, mx: 7}", ("lookup", "mx")),
        ("gamma: 4", ("method",)),
        ("method: none, gamma: 4", ("gamma",)),
    ],
)
def test_consequences_of_a_profiles_mistake_are_not_reported(
    text: str, path: tuple[str | int, ...]
) -> None:
    assert paths(read_speculation(text)) == [("speculation", *path)]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (FLEET + WORKER.replace("8001", "x"), ("workers", 0, "port")),
        (FLEET + WORKER.replace("vllm", "vlm"), ("workers", 0, "engine")),
        (FLEET + WORKER.replace("name: w, ", ""), ("workers", 0, "name")),
        (FLEET.replace("m.gguf", "5") + WORKER, ("models", "small", "target")),
        (FLEET.replace("small:", "Small:") + WORKER.replace("small", "big"), ("models", "Small")),
        (f"{FLEET}{WORKER}routes: {{t: [plain, 5]}}\n", ("routes", "t", 1)),
        (f"{FLEET}{WORKER}routes: {{t: [Plain]}}\n", ("routes", "t", 0)),
        (f"{FLEET}{WORKER}routes: {{t: [{{until: {{in_flight: 1}}}}]}}\n", ("routes", "t", 0)),
        (
            f"{FLEET}{WORKER}routes: {{t: [{{profile: plain, until: {{in_flight: 0}}}}]}}\n",
            ("routes", "t", 0, "until", "in_flight"),
        ),
        (f"{FLEET}{WORKER}router: {{listen: nowhere}}\n", ("router", "listen")),
        (f"{FLEET}{WORKER}profile: x\n", ("profile",)),
    ],
)
def test_consequences_of_a_fleets_mistake_are_not_reported(
    text: str, path: tuple[str | int, ...]
) -> None:
    found = paths(read(text, Fleet))
    assert len(found) == 1
    assert found[0][: len(path)] == path


@pytest.mark.parametrize(
    "text",
    [
        "method: none, gamma: 4",
        "method: ngram, gamma: x",
        "method: ngram, gamma: 4, lookup: 5",
        "method: ngram, gamma: 4, schedule: [{batch: x, gamma: 1}]",
    ],
)
def test_what_is_left_of_a_bad_profile_can_still_be_checked(text: str) -> None:
    reading = read_speculation(text)
    assert reading.value is not None
    assert not reading.is_usable


def test_list_indexes_are_those_of_the_file() -> None:
    text = (
        "method: ngram, gamma: 4, schedule: [5, {batch: 1-4, gamma: 3}, {batch: 5-8, gamma: x}, "
        "{batch: 9-12, gamma: 9}, {batch: 13+, gamma: 300}]"
    )
    assert sorted(paths(read_speculation(text)), key=str) == [
        ("speculation", "schedule", 0),
        ("speculation", "schedule", 2, "gamma"),
        ("speculation", "schedule", 3, "gamma"),
        ("speculation", "schedule", 4, "gamma"),
    ]


def test_later_problems_are_placed_and_one_path_is_complained_of_once() -> None:
    reading = read("profile: p\nspeculation: {method: ngram, gamma: x}\n", Profile)
    more = [Problem(("speculation", "gamma"), "follows"), Problem(("speculation", "method"), "new")]
    reading = with_problems(reading, more)
    assert told(reading) == ["2:23 speculation.method", "2:37 speculation.gamma"]


def test_a_warning_does_not_hide_an_error_at_the_same_path() -> None:
    reading = read("profile: p\nspeculation: {method: none}\n", Profile)
    path = ("speculation", "method")
    reading = with_problems(reading, [Problem(path, "odd", severity="warning")])
    assert reading.is_usable
    assert not with_problems(reading, [Problem(path, "wrong")]).is_usable


# Leaving mistakes out.

DATA = {"a": [10, 11, 12, {"b": 1, "c": [20, 21]}], "gamma": 1}


def test_paths_lead_back_to_the_file_after_items_went() -> None:
    pruned = Pruned(DATA)
    pruned.leave_out([("a", 0), ("a", 2), ("a", 3, "c", 0)])
    assert pruned.compact() == {"a": [11, {"b": 1, "c": [21]}], "gamma": 1}
    assert pruned.original(("a", 0)) == ("a", 1)
    assert pruned.original(("a", 1, "c", 0)) == ("a", 3, "c", 1)
    assert pruned.original(("a", 7)) == ("a", 7)
    assert pruned.original(("x", 0)) == ("x", 0)


def test_leaving_out_twice_is_leaving_out_once() -> None:
    pruned = Pruned(DATA)
    pruned.leave_out([("a", 0)])
    pruned.leave_out([("a", 0), ("a",)])
    pruned.leave_out([("a", 3, "b")])
    assert pruned.compact() == {"gamma": 1}


def test_a_stand_in_takes_the_place_of_its_value() -> None:
    pruned = Pruned(DATA)
    pruned.leave_out([("gamma",)], lambda path: 128 if path == ("gamma",) else None)
    assert pruned.compact()["gamma"] == 128


def test_a_missing_key_takes_its_mapping_along() -> None:
    pruned = Pruned(DATA)
    pruned.leave_out([("a", 3, "missing")])
    assert pruned.compact() == {"a": [10, 11, 12], "gamma": 1}


def test_the_given_data_is_not_changed() -> None:
    pruned = Pruned(DATA)
    pruned.leave_out([("a",)])
    assert len(DATA["a"]) == 4  # type: ignore[arg-type]  # a list


def test_what_lost_a_value_is_not_whole() -> None:
    pruned = Pruned(DATA)
    pruned.leave_out([("a", 3, "c", 0), ("gamma",)], lambda path: 1 if path == ("gamma",) else None)
    assert not pruned.is_whole(("a", 3, "c"))
    assert pruned.is_whole(("a",))
    assert pruned.is_whole(())
