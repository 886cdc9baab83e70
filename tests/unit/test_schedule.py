"""Schedules: gaps, overlaps and order; and what an engine without schedules makes of one."""

import pytest

from adapters.document import parse_document
from adapters.profile import Lookup, Ngram, Profile, Tier, parse_batch
from adapters.reading import check_profile
from adapters.schedule import fixed_batch_limit, fixed_gamma, profile_problems, schedule_problems

Row = tuple[str, int]


def tiers(*rows: Row) -> tuple[Tier, ...]:
    return tuple(Tier.model_construct(batch=parse_batch(b), gamma=g) for b, g in rows)


def ngram(*rows: Row, gamma: int = 5, lookup: tuple[int, int] = (2, 4)) -> Ngram:
    lengths = Lookup(min=lookup[0], max=lookup[1])
    schedule = tiers(*rows) or None
    return Ngram.model_construct(method="ngram", gamma=gamma, schedule=schedule, lookup=lengths)


@pytest.mark.parametrize(
    "rows",
    [
        [("1+", 5)],
        [("1+", 0)],
        [("1-4", 5), ("5-16", 3), ("17+", 0)],
        [("1", 5), ("2", 4), ("3+", 5)],
    ],
)
def test_whole_schedules(rows: list[Row]) -> None:
    assert schedule_problems(tiers(*rows), 5) == []


@pytest.mark.parametrize(
    ("rows", "index", "code", "hint"),
    [
        ([("2+", 5)], 0, "schedule-start", "start it at 1"),
        ([("1-4", 5), ("6+", 3)], 1, "schedule-gap", "start it at 5"),
        ([("1-4", 5), ("4+", 3)], 1, "schedule-overlap", "start it at 5"),
        ([("1-4", 5), ("1+", 3)], 1, "schedule-overlap", "start it at 5"),
        ([("1-4", 5)], 0, "schedule-end", "write 1+"),
        ([("1-4", 5), ("5-8", 5)], 1, "schedule-end", "write 5+"),
    ],
)
def test_one_mistake(rows: list[Row], index: int, code: str, hint: str) -> None:
    (problem,) = schedule_problems(tiers(*rows), 5)
    assert problem.path == ("speculation", "schedule", index, "batch")
    assert (problem.code, problem.hint) == (code, hint)


def test_only_the_last_range_may_be_open() -> None:
    codes = [p.code for p in schedule_problems(tiers(("1+", 5), ("5-8", 3)), 5)]
    assert codes == ["schedule-order", "schedule-end"]


def test_no_tier_guesses_more_than_the_profile() -> None:
    (problem,) = schedule_problems(tiers(("1-4", 6), ("5+", 5)), 5)
    assert problem.path == ("speculation", "schedule", 0, "gamma")
    assert problem.message == "6 is above the profile's gamma, 5"


def test_all_mistakes_of_a_schedule_are_listed() -> None:
    rows = tiers(("2-4", 9), ("4-8", 3), ("12-15", 0))
    codes = [p.code for p in schedule_problems(rows, 5)]
    assert sorted(codes) == [
        "schedule-end",
        "schedule-gamma",
        "schedule-gap",
        "schedule-overlap",
        "schedule-start",
    ]


@pytest.mark.parametrize(("lookup", "count"), [((2, 4), 0), ((4, 4), 0), ((5, 4), 1)])
def test_lookup_order(lookup: tuple[int, int], count: int) -> None:
    made = Profile.model_construct(profile="p", speculation=ngram(lookup=lookup))
    assert [p.code for p in profile_problems(made)] == ["lookup-order"] * count


@pytest.mark.parametrize(
    ("rows", "gamma", "limit"),
    [
        ([], 5, None),
        ([("1+", 3)], 3, None),
        ([("1-4", 5), ("5+", 3)], 5, 4),
        ([("1-4", 5), ("5-8", 5), ("9+", 0)], 5, 8),
        ([("1-4", 5), ("5-8", 5), ("9+", 5)], 5, None),
        ([("1-4", 2), ("5+", 5)], 2, 4),
        ([("1", 0), ("2+", 5)], 0, 1),
    ],
)
def test_what_an_engine_without_schedules_does(
    rows: list[Row], gamma: int, limit: int | None
) -> None:
    spec = ngram(*rows)
    assert fixed_gamma(spec) == gamma
    assert fixed_batch_limit(spec) == limit


def test_the_name_plain_is_for_method_none() -> None:
    text = "profile: plain\nspeculation: {method: ngram, gamma: 4}"
    reading = check_profile(parse_document(text, "plain.yaml"))
    assert [p.code for p in reading.problems] == ["plain-name"]
