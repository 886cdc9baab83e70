"""The profile schema: what is valid, strictly, and what the properties mean."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from adapters.profile import Batch, Profile, parse_batch

DRAFTED: dict[str, Any] = {"gamma": 4}


def profile(speculation: dict[str, Any], **fields: Any) -> Profile:
    data = {"profile": "p", "speculation": speculation, **fields}
    return Profile.model_validate_json(json.dumps(data))


@pytest.mark.parametrize(
    ("text", "batch"),
    [
        (5, Batch(5, 5)),
        ("5", Batch(5, 5)),
        ("5-16", Batch(5, 16)),
        ("5-5", Batch(5, 5)),
        ("17+", Batch(17, None)),
        ("1-999999", Batch(1, 999999)),
    ],
)
def test_batch_ranges(text: int | str, batch: Batch) -> None:
    assert parse_batch(text) == batch
    assert parse_batch(str(batch)) == batch


@pytest.mark.parametrize(
    "text",
    ["", "0", "0-4", "5-", "-5", "+5", "5 - 6", "5–6", "05", "5+6", "1e3", "1000000", "٣", "5\n"],
)
def test_what_is_no_batch_range(text: str) -> None:
    with pytest.raises(ValueError, match="a batch range is written"):
        parse_batch(text)


@pytest.mark.parametrize("value", [True, 5.0, None, [1, 4], 0, -1])
def test_only_whole_numbers_and_text_are_batch_ranges(value: Any) -> None:
    with pytest.raises(ValueError, match="a batch range is written"):
        parse_batch(value)


def test_a_range_must_not_end_before_it_starts() -> None:
    with pytest.raises(ValueError, match=r"ends \(4\) before it starts \(5\)"):
        parse_batch("5-4")


@pytest.mark.parametrize(
    ("speculation", "is_speculating", "draft_name"),
    [
        ({"method": "none"}, False, None),
        ({"method": "ngram", **DRAFTED}, True, None),
        ({"method": "suffix", **DRAFTED}, True, None),
        ({"method": "draft_model", **DRAFTED}, True, "draft_model"),
        ({"method": "eagle3", **DRAFTED}, True, "eagle3"),
        ({"method": "eagle3", "draft": "head-b", **DRAFTED}, True, "head-b"),
        ({"method": "mtp", **DRAFTED}, True, None),
        ({"method": "mtp", "draft": "mtp-layers", **DRAFTED}, True, "mtp-layers"),
    ],
)
def test_methods(speculation: dict[str, Any], is_speculating: bool, draft_name: str | None) -> None:
    made = profile(speculation)
    assert made.is_speculating is is_speculating
    assert made.draft_name == draft_name


@pytest.mark.parametrize("gamma", [0, 129, -1, "4", 4.0, 4.5, True, None, [4]])
def test_gamma_is_a_whole_number_from_1_to_128(gamma: Any) -> None:
    with pytest.raises(ValidationError):
        profile({"method": "ngram", "gamma": gamma})


def test_gamma_has_no_default() -> None:
    with pytest.raises(ValidationError):
        profile({"method": "ngram"})


@pytest.mark.parametrize("method", ["ngram", "suffix", "draft_model", "eagle3", "mtp"])
def test_gamma_128_and_a_tier_of_0_are_valid(method: str) -> None:
    tiers = [{"batch": "1-4", "gamma": 128}, {"batch": "5+", "gamma": 0}]
    assert profile({"method": method, "gamma": 128, "schedule": tiers}).is_speculating


@pytest.mark.parametrize(
    "fields",
    [
        {"lossless": "yes"},
        {"lossless": 1},
        {"expect": {"acceptance_rate": 1.01}},
        {"expect": {"acceptance_rate": -0.1}},
        {"expect": {"acceptance_length": 0.9}},
        {"engine": {"llama": {}}},
        {"engine": {"vllm": []}},
        {"extra": 1},
        {"profile": "Capital"},
        {"profile": ""},
        {"profile": "a" * 64},
        {"profile": "-a"},
        {"profile": "a/b"},
        {"profile": "a\n"},
    ],
)
def test_fields_are_strict(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        profile({"method": "none"}, **fields)


def test_a_method_has_no_other_methods_fields() -> None:
    with pytest.raises(ValidationError):
        profile({"method": "none", "gamma": 4})
    with pytest.raises(ValidationError):
        profile({"method": "ngram", "gamma": 4, "max_depth": 3})
    with pytest.raises(ValidationError):
        profile({"method": "suffix", "gamma": 4, "draft": "d"})


def test_a_profile_cannot_be_changed() -> None:
    made = profile({"method": "none"})
    with pytest.raises(ValidationError):
        made.profile = "other"


def test_defaults_are_lossless_and_expect_nothing() -> None:
    made = profile({"method": "none"})
    assert made.lossless is True
    assert made.expect.acceptance_rate is None
    assert made.engine == {}
