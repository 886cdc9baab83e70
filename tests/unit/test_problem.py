"""Problems as text and data: the words that users see."""

import pytest

from adapters.problem import (
    Place,
    Problem,
    ProfileError,
    degrade,
    did_you_mean,
    near_match,
    path_text,
    sort_problems,
)

WHERE = Place("f.yaml", 3, 7)


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (Problem((), "it is empty"), "it is empty"),
        (Problem(("a", "b", 1, "c"), "wrong"), "a.b[1].c: wrong"),
        (Problem(("a",), "wrong", place=WHERE), "f.yaml:3:7: a: wrong"),
        (
            Problem(("a",), "odd", "do this", "warning", "odd-a", WHERE),
            "f.yaml:3:7: warning: a: odd [odd-a]\n    hint: do this",
        ),
        (
            Problem(("a",), "gone", "", "lost", "gone-a", WHERE),
            "f.yaml:3:7: a: gone [gone-a]",
        ),
    ],
)
def test_text(problem: Problem, text: str) -> None:
    assert str(problem) == text


@pytest.mark.parametrize(
    ("severity", "is_fatal", "shown"),
    [("error", True, "error"), ("lost", True, "error"), ("warning", False, "warning")],
)
def test_only_warnings_let_a_run_go_on(severity: str, is_fatal: bool, shown: str) -> None:
    problem = Problem(("a", 0), "m", "h", severity, "c", WHERE)  # type: ignore[arg-type]  # a parameter
    assert problem.is_fatal is is_fatal
    assert problem.as_json() == {
        "file": "f.yaml",
        "line": 3,
        "column": 7,
        "path": "a[0]",
        "severity": shown,
        "code": "c",
        "message": "m",
        "hint": "h",
    }


def test_a_problem_without_a_place_is_json_too() -> None:
    assert Problem((), "m").as_json()["line"] is None


def test_path_text_of_an_index_alone() -> None:
    assert path_text((0, "a", 2)) == "[0].a[2]"


def test_sorting_is_by_line_then_column_and_drops_repetitions() -> None:
    late = Problem(("b",), "late", place=Place("f.yaml", 10, 1))
    early = Problem(("a",), "early", place=Place("f.yaml", 9, 30))
    first = Problem(("c",), "first", place=Place("f.yaml", 9, 2))
    nowhere = Problem(("z",), "nowhere")
    assert sort_problems([late, early, nowhere, first, late]) == [nowhere, first, early, late]


def test_degrade_turns_what_is_lost_into_warnings_and_nothing_else() -> None:
    problems = [Problem((), "a", severity="lost"), Problem((), "b"), Problem((), "c")]
    assert [p.severity for p in degrade(problems)] == ["warning", "error", "error"]


def test_a_profile_error_carries_and_says_every_problem() -> None:
    error = ProfileError([Problem(("b",), "two"), Problem(("a",), "one")])
    assert str(error) == "a: one\nb: two"
    assert len(error.problems) == 2


@pytest.mark.parametrize(
    ("word", "near"), [("gama", "gamma"), ("method", "method"), ("xyz", None), ("", None)]
)
def test_near_match(word: str, near: str | None) -> None:
    assert near_match(word, ["gamma", "method", "schedule"]) == near


def test_hint_names_the_near_word_or_all_words_in_order() -> None:
    assert did_you_mean("gama", {"method", "gamma"}) == "did you mean 'gamma'?"
    assert did_you_mean("xyz", {"method", "gamma"}) == "known: gamma, method"


def test_a_hint_stays_short_where_many_words_are_known() -> None:
    hint = did_you_mean("zzz", [f"word{n:03}" for n in range(40)])
    assert hint.startswith("known: word000, ")
    assert hint.endswith("… (40 in all)")
    assert len(hint) < 200
