"""The statistics of the sampled test and their p-values under laws that are known."""

import math

import numpy as np
import pytest

from orchestrator.gate.context import Context, count, grow_pooled, together
from orchestrator.gate.deviance import (
    Drawn,
    Seen,
    Shuffled,
    cell_deviances,
    combined_p,
    simulate,
    smallest_ranks,
)

FAIR = np.full(4, 0.25)
CHILD = Context("p", (0,), (0,), np.array([0.7, 0.3]))
ROOT = Context("p", (), (0, 1, 2), FAIR, None, ((0, CHILD),))
DRAWS = {"p": (80,)}


def dice(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_g_is_twice_the_sum_of_o_ln_o_over_e() -> None:
    counted = np.array([[30, 20, 30, 0]])
    total, cells = cell_deviances(ROOT, (counted,))
    expected = 2 * sum(o * math.log(o / 20) for o in (30, 20, 30))
    assert total[0] == pytest.approx(expected)
    assert cells[0, 0] == pytest.approx(2 * (30 * math.log(30 / 20) + 50 * math.log(50 / 60)))
    assert cells[0, 1] == pytest.approx(0)
    assert cells[0, 3] == pytest.approx(2 * 80 * math.log(80 / 60))


def test_g_of_two_arms_is_that_of_their_table() -> None:
    table = np.array([[30, 20], [10, 40]])
    context = Context("p", (), (0,), np.array([0.4, 0.6]))
    total, _ = cell_deviances(context, (table[:1], table[1:]))
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    assert total[0] == pytest.approx(2 * (table * np.log(table / expected)).sum())


def test_first_and_later_tokens_are_scored_apart() -> None:
    counts = count([(0, 0)] * 14 + [(0, 9)] * 6 + [(1, 5)] * 20 + [(2, 5)] * 20 + [(3, 5)] * 20)
    scores = simulate([ROOT], Seen(({"p": counts},)))
    assert scores.first[0] == pytest.approx(0)
    assert scores.later[0] == pytest.approx(0)
    worse = count([(0, 9)] * 20)
    scores = simulate([ROOT], Seen(({"p": worse},)))
    assert scores.first[0] > 0
    assert scores.later[0] == pytest.approx(2 * 20 * math.log(1 / 0.3))
    assert scores.prefixes[0, 0] == pytest.approx(scores.first[0] + scores.later[0])
    assert scores.cell[0] == pytest.approx(max(2 * 20 * math.log(4), scores.later[0]))


def test_g_has_the_mean_of_its_degrees_of_freedom() -> None:
    scores = simulate([ROOT], Drawn(dice(), 4000, {"p": (4000,)}))
    assert scores.first.mean() == pytest.approx(3, abs=0.2)
    assert scores.later.mean() == pytest.approx(1, abs=0.1)


def test_children_are_visited_as_often_as_their_token_is_drawn() -> None:
    law = Drawn(dice(), 500, DRAWS)
    counts = law.follow(ROOT, law.start(ROOT))[0]
    assert (counts.sum(axis=1) == 80).all()
    assert (law.follow(CHILD, (counts[:, 0],))[0].sum(axis=1) == counts[:, 0]).all()


def test_shuffled_arms_keep_what_both_drew() -> None:
    first = count([(0, 0)] * 40 + [(1, 1)] * 20)
    second = count([(0, 1)] * 30 + [(1, 1)] * 50)
    root = grow_pooled("p", together(first, second))
    law = Shuffled(dice(), 300, {"p": (60, 80)})
    one, other = law.follow(root, law.start(root))
    assert root.totals is not None
    assert (one + other == root.totals).all()
    assert (one.sum(axis=1) == 60).all()
    assert one[:, 0].mean() == pytest.approx(70 * 60 / 140, abs=1)


def test_p_values_are_uniform_where_nothing_is_wrong() -> None:
    null = simulate([ROOT], Drawn(dice(1), 500, DRAWS))
    healthy = simulate([ROOT], Drawn(dice(2), 300, DRAWS)).beside(null)
    chance = null.beside(null)
    found = np.array([combined_p(run[None], chance) for run in healthy])
    for level in (0.1, 0.3, 0.5, 0.8):
        assert (found <= level).mean() <= level + 0.08
    assert (found <= 0.5).mean() >= 0.4


def test_p_values_of_two_shuffled_arms_are_uniform() -> None:
    found = []
    for seed in range(80):
        arms = [dice(seed + 1000 * arm).multinomial(60, FAIR) for arm in (0, 1)]
        counts = [count([(t,) for t, n in enumerate(arm) for _ in range(n)]) for arm in arms]
        root = grow_pooled("p", together(counts[1], counts[0]))
        null = simulate([root], Shuffled(dice(seed), 100, {"p": (60, 60)}))
        seen = simulate([root], Seen(({"p": counts[0]}, {"p": counts[1]})))
        found.append(combined_p(seen.beside(null), null.beside(null)))
    assert np.mean(np.array(found) <= 0.1) <= 0.2
    assert np.mean(np.array(found) <= 0.5) == pytest.approx(0.5, abs=0.2)


def test_the_smallest_p_value_counts_every_statistic_once() -> None:
    null = np.stack([np.arange(99.0)] * 4, axis=1)
    assert combined_p(np.full((1, 4), 1000.0), null) == pytest.approx(1 / 100)
    assert combined_p(np.full((1, 4), -1.0), null) == 1
    assert smallest_ranks(np.full((1, 4), 1000.0), null)[0] == pytest.approx(1 / 100)
    alone = np.array([[1000.0, -1, -1, -1]])
    assert combined_p(alone, null) == pytest.approx(2 / 100)  # the best of the others ties


def test_noise_widens_what_is_expected() -> None:
    still = simulate([ROOT], Drawn(dice(), 500, {"p": (5000,)}))
    moved = simulate([ROOT], Drawn(dice(), 500, {"p": (5000,)}, noise=0.1))
    assert moved.first.mean() > 3 * still.first.mean()


def test_counts_of_one_arm_cannot_change_sides() -> None:
    law = Shuffled(dice(), 10, {"p": (10, 10)})
    with pytest.raises(ValueError, match="two arms"):
        law.follow(ROOT, law.start(ROOT))
