"""The plugin that makes vLLM wrong: its rules, without an engine."""

import random
from collections import Counter

import pytest

from tests.vllm_fault.draftgate_fault import plugin
from tests.vllm_fault.draftgate_fault.greedy import Leniency, WrongVerify
from tests.vllm_fault.draftgate_fault.runner import Noise, Quota
from tests.vllm_fault.draftgate_fault.sampled import (
    ARGMAX,
    NO_RESIDUAL,
    UNNORMALISED,
    EqualsArgmax,
    WrongReplacement,
    one_hot,
    unnormalised,
)

TARGET = [0.5, 0.3, 0.2]
DRAWS = 4000


@pytest.mark.parametrize(
    "text",
    [
        "accept_first",
        "accept_all",
        "rate:0.05",
        "sampled:argmax",
        "sampled:right",
        "stop_after:12",
        "penalties",
        "token:1e-4",
    ],
)
def test_known_faults(text: str) -> None:
    assert callable(plugin.parse(text))


@pytest.mark.parametrize(
    "text",
    ["", "accept", "rate:0", "rate:1.5", "rate:x", "sampled:left", "stop_after:-1", "token:2"],
)
def test_unknown_faults(text: str) -> None:
    with pytest.raises(ValueError, match=r"DRAFTGATE_TEST_FAULT|could not convert"):
        plugin.parse(text)


def test_without_the_variable_nothing_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM cannot be imported here: an install that tried would raise."""
    monkeypatch.delenv(plugin.VARIABLE, raising=False)
    plugin.install.__wrapped__()


def test_greedy_rules() -> None:
    step = [(7, 7), (8, 9), (5, 6)]  # guess, wanted
    right = WrongVerify(None, Leniency("rate", 0.0))
    assert right.verify(step, 1) == [7, 9]
    assert right.verify([(7, 7), (8, 8)], 1) == [7, 8, 1]
    assert WrongVerify(None, Leniency("accept_all")).verify(step, 1) == [7, 8, 5, 1]
    first = WrongVerify(None, Leniency("accept_first"))
    assert first.verify([(3, 4), *step], 1) == [3, 7, 9]
    assert first.verify([(-1, 4)], 1) == [4], "padding is no guess"


def test_a_rate_of_wrong_guesses_passes() -> None:
    verify = WrongVerify(None, Leniency("rate", 0.05)).verify
    passed = sum(verify([(3, 4)], 1) == [3, 1] for _ in range(DRAWS))
    assert 0.03 < passed / DRAWS < 0.07


def replacements(rule: str, draft: list[float] | None) -> dict[int, float]:
    """How often each token replaces a rejected guess of token 0."""
    chance = random.Random(0)
    stand_in = WrongReplacement(None, rule)
    counts = Counter(
        stand_in.replace(0, draft, TARGET, [1 / chance.expovariate(1) for _ in TARGET])
        for _ in range(DRAWS)
    )
    return {token: count / DRAWS for token, count in counts.items()}


@pytest.mark.parametrize("rule", [ARGMAX, NO_RESIDUAL])
def test_replaced_from_the_whole_distribution(rule: str) -> None:
    """Right would be 0, 0.6 and 0.4: the rejected guess cannot come again."""
    found = replacements(rule, None)
    assert [found[token] for token in range(3)] == pytest.approx(TARGET, abs=0.03)


def test_replaced_from_a_residual_that_is_not_scaled() -> None:
    found = replacements(UNNORMALISED, None)
    assert found == {1: pytest.approx(0.3, abs=0.03), 2: pytest.approx(0.7, abs=0.03)}


def test_missing_mass_falls_on_the_last_token() -> None:
    draft = [0.1, 0.2, 0.7]  # the residual is 0.4, 0.1, 0
    assert unnormalised(TARGET, draft, 0.39) == 0
    assert unnormalised(TARGET, draft, 0.49) == 1
    assert unnormalised(TARGET, draft, 0.51) == 2
    assert one_hot(1, 3) == [0.0, 1.0, 0.0]
    assert one_hot(-1, 3) == [0.0, 0.0, 0.0]


def test_accepted_if_it_is_the_likeliest() -> None:
    verify = EqualsArgmax(None).verify  # guess, likeliest, replacement
    assert verify([(4, 4, 9), (5, 6, 8)], 1) == [4, 8]
    assert verify([(4, 4, 9), (6, 6, 8)], 1) == [4, 6, 1]


def test_a_quota_counts_requests_not_steps() -> None:
    quota = Quota(2)
    assert [quota.is_used_up(names) for names in (["a"], ["a", "b"], ["b"])] == [False] * 3
    assert quota.is_used_up(["c"])
    assert quota.is_used_up(["a"]), "the engine as a whole has stopped"


def test_noise_changes_tokens_and_not_padding() -> None:
    noise = Noise(0.1)
    changed = [noise.change(token) for token in range(DRAWS)]
    differing = [pair for pair in enumerate(changed) if pair[0] != pair[1]]
    assert 0.08 < len(differing) / DRAWS < 0.12
    assert all(abs(one - other) == 1 for one, other in differing)
    assert {noise.change(-1) for _ in range(DRAWS)} == {-1}
