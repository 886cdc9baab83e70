"""Levels of load: each batch class of the profile, as far as the worker goes."""

import json
from typing import Any

import pytest

from adapters.profile import Profile
from orchestrator.gate.level import levels


def profile(*tiers: tuple[str, int]) -> Profile:
    spec: dict[str, Any] = {"method": "ngram", "gamma": 4}
    if tiers:
        spec["schedule"] = [{"batch": batch, "gamma": gamma} for batch, gamma in tiers]
    return Profile.model_validate_json(json.dumps({"profile": "p", "speculation": spec}))


SCHEDULED = profile(("1-4", 4), ("5-16", 2), ("17+", 0))


@pytest.mark.parametrize(
    ("most", "largest", "expected"),
    [
        (None, 64, (4, 5, 16, 17)),
        (32, 64, (4, 5, 16, 17)),
        (8, 64, (4, 5, 8)),
        (None, 16, (4, 5, 16)),
    ],
)
def test_both_sides_of_each_threshold(
    most: int | None, largest: int, expected: tuple[int, ...]
) -> None:
    assert levels(SCHEDULED, most, largest)[0] == expected


def test_what_is_never_reached_is_said() -> None:
    notes = levels(SCHEDULED, 8, 64)[1]
    assert notes == (
        "batches of 9 to 16 (gamma 2) were not reached: the worker decodes at most 8 at once",
        "batches of 17+ (gamma 0) were not reached: the worker decodes at most 8 at once",
    )
    assert levels(SCHEDULED, 17, 64)[1] == ()
    (said,) = levels(SCHEDULED, None, 16)[1]
    assert said.endswith("the gate asks at most 16 at once")


@pytest.mark.parametrize(
    ("most", "largest", "expected"),
    [(None, 64, (2, 8)), (4, 64, (2, 4)), (2, 64, (2,)), (256, 6, (2, 6))],
)
def test_without_a_schedule(most: int | None, largest: int, expected: tuple[int, ...]) -> None:
    assert levels(profile(), most, largest) == (expected, ())
    plain = Profile.model_validate({"profile": "plain", "speculation": {"method": "none"}})
    assert levels(plain, most, largest) == (expected, ())


@pytest.mark.parametrize(("most", "largest"), [(1, 64), (None, 1), (8, 1)])
def test_one_request_at_a_time_is_no_load(most: int | None, largest: int) -> None:
    found, notes = levels(profile(), most, largest)
    assert found == ()
    assert notes[0].startswith("no load was tried: ")


def test_a_first_range_of_one_is_left_to_the_prompts_alone() -> None:
    assert levels(profile(("1", 4), ("2+", 2)), None, 64) == ((2,), ())
