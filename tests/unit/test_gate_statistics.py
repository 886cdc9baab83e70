"""Rates of forks: bounds against known values, and one rate against another."""

import math

import pytest

from orchestrator.gate.statistics import exceeds, p_above, rate


@pytest.mark.parametrize(
    ("forks", "tokens", "low", "high"),
    [
        (1, 10, 0.002529, 0.445016),  # tables of Clopper and Pearson's interval
        (5, 10, 0.187086, 0.812914),
        (10, 10, 0.691503, 1.0),
        (2, 100, 0.002431, 0.070384),
        (10, 1000, 0.004806, 0.018314),
    ],
)
def test_bounds_are_those_of_clopper_and_pearson(
    forks: int, tokens: int, low: float, high: float
) -> None:
    found = rate(forks, tokens)
    assert (found.low / 1000, found.high / 1000) == pytest.approx((low, high), abs=1e-6)
    assert found.per_1000 == pytest.approx(1000 * forks / tokens)


def test_no_fork_is_a_bound_of_three_in_n() -> None:
    found = rate(0, 10_000)
    assert (found.per_1000, found.low) == (0, 0)
    assert found.high == pytest.approx(1000 * (1 - 0.05 ** (1 / 10_000)), rel=1e-12)
    assert found.high == pytest.approx(0.3, rel=0.002)
    assert rate(0, 1).high == pytest.approx(950)


def test_the_bounds_leave_two_and_a_half_percent_on_each_side() -> None:
    forks, tokens = 7, 321
    found = rate(forks, tokens)
    low, high = found.low / 1000, found.high / 1000

    def at_most(count: int, share: float) -> float:
        return sum(
            math.comb(tokens, k) * share**k * (1 - share) ** (tokens - k) for k in range(count + 1)
        )

    assert at_most(forks, high) == pytest.approx(0.025)
    assert 1 - at_most(forks - 1, low) == pytest.approx(0.025)


def test_of_no_tokens_nothing_is_known() -> None:
    found = rate(0, 0)
    assert (found.low, found.high) == (0, 1000)


def test_many_forks_in_many_tokens() -> None:
    found = rate(4_000, 100_000)
    assert (found.low, found.high) == pytest.approx((38.7944, 41.2330), abs=1e-3)


@pytest.mark.parametrize("counts", [(2, 1), (-1, 5)])
def test_impossible_counts_are_refused(counts: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="forks in"):
        rate(*counts)


def test_fishers_test_of_the_lady_tasting_tea() -> None:
    assert p_above(3, 4, 1, 4) == pytest.approx(17 / 70)
    assert p_above(4, 4, 0, 4) == pytest.approx(1 / 70)


def test_p_above_is_the_hypergeometric_tail() -> None:
    forks, tokens, reference, reference_tokens = 6, 60, 3, 90
    every, total = forks + reference, tokens + reference_tokens
    tail = sum(
        math.comb(tokens, k) * math.comb(reference_tokens, every - k)
        for k in range(forks, every + 1)
    )
    expected = tail / math.comb(total, every)
    assert p_above(forks, tokens, reference, reference_tokens) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((30, 1000, 10, 1000), True),
        ((10, 1000, 10, 1000), False),
        ((10, 1000, 30, 1000), False),
        ((5, 1000, 0, 1000), True),  # one half to the fifth
        ((4, 1000, 0, 1000), False),
        ((3, 1000, 0, 100_000), True),
        ((0, 1000, 0, 1000), False),
        ((0, 0, 3, 1000), False),
        ((3, 1000, 0, 0), False),
        ((1000, 1000, 1000, 1000), False),
    ],
)
def test_exceeds(counts: tuple[int, int, int, int], expected: bool) -> None:
    assert exceeds(*counts) is expected
