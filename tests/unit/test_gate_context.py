"""Contexts of the sampled test: which there are, their cells, and what was counted in them."""

import math

import numpy as np
import pytest

from adapters.exchange import Candidate
from orchestrator.gate.context import (
    FEWEST_IN_CELL,
    FEWEST_VISITS,
    LEAST_REST,
    Told,
    count,
    cut_off,
    grow,
    grow_pooled,
    seen_ends,
    together,
    wanted,
)
from orchestrator.gate.evidence import END

NO_ENDS: frozenset[int] = frozenset()
EOS = 2


def candidates(*chances: tuple[int, float]) -> tuple[Candidate, ...]:
    return tuple(Candidate(token, math.log(chance)) for token, chance in chances)


TOLD: Told = {
    (): candidates((5, 0.6), (6, 0.3), (EOS, 0.06), (7, 0.01)),
    (5,): candidates((8, 0.5), (9, 0.5)),
}


def test_cells_are_tokens_expected_often_enough_and_the_rest() -> None:
    root = grow("p", TOLD, 100, NO_ENDS)
    assert root.tokens == (5, 6, EOS)
    assert root.shares == pytest.approx([0.6, 0.3, 0.06, 0.04])
    assert all(100 * share >= FEWEST_IN_CELL for share in root.shares[:-1])


def test_fewer_draws_pool_more_cells() -> None:
    assert grow("p", TOLD, 15, NO_ENDS).tokens == (5,)
    assert grow("p", TOLD, 5, NO_ENDS).tokens == ()


def test_the_rest_is_never_impossible() -> None:
    sure: Told = {(): candidates((5, 1.0))}
    shares = grow("p", sure, 1000, NO_ENDS).shares
    assert shares[-1] == pytest.approx(LEAST_REST, rel=1e-3)
    assert shares.sum() == pytest.approx(1)


def test_contexts_are_reached_often_enough_and_were_told() -> None:
    root = grow("p", TOLD, 100, NO_ENDS)
    ((cell, child),) = root.children
    assert (cell, child.path) == (0, (5,))
    assert child.tokens == (8, 9)  # of 60 expected visits
    assert [context.path for context in root.walk()] == [(), (5,)]
    assert grow("p", TOLD, FEWEST_VISITS / 0.6 - 1, NO_ENDS).children == ()


def test_nothing_follows_a_token_that_ends_a_text() -> None:
    told = {(): candidates((EOS, 1.0)), (EOS,): candidates((5, 1.0))}
    assert grow("p", told, 100, NO_ENDS).children
    assert not grow("p", told, 100, frozenset({EOS})).children


def test_paths_to_ask_for_are_those_that_draws_would_reach() -> None:
    assert wanted({}, 100, 3, NO_ENDS) == ((),)
    assert wanted(TOLD, 100, 3, NO_ENDS) == ((5, 8), (5, 9), (6,))
    assert wanted(TOLD, 100, 2, NO_ENDS) == ((6,),)
    assert wanted(TOLD, 50, 2, NO_ENDS) == ()
    assert (EOS,) in wanted(TOLD, 1000, 2, NO_ENDS)
    assert (EOS,) not in wanted(TOLD, 1000, 2, frozenset({EOS}))


def test_every_token_of_a_draw_is_counted_where_it_came() -> None:
    counts = count([(5, 8), (5, 9), (6, 8), (EOS,), ()])
    assert counts[()] == {5: 2, 6: 1, EOS: 1, END: 1}
    assert counts[(5,)] == {8: 1, 9: 1}


def test_an_answer_is_cut_off_where_no_token_ends_it() -> None:
    draws = [(5, 8, 9), (5, EOS), (EOS,), (5,), (), (EOS, 5)]
    assert cut_off(draws, 3, frozenset({EOS})) == [(5,), (), (EOS, 5)]


def test_what_has_no_cell_falls_into_the_rest() -> None:
    root = grow("p", TOLD, 100, NO_ENDS)
    counts = count([(5, 8, 8), (5, 1), (5,), ()])
    assert root.counted(counts).tolist() == [3, 0, 0, 1]
    assert root.children[0][1].counted(counts).tolist() == [1, 0, 1]


def test_ends_are_learned_from_short_draws() -> None:
    assert seen_ends([(5, EOS), (EOS,), (5, 6, 7)], 3) == {EOS}
    assert seen_ends([(5, 6, 7), (6, 6, EOS)], 3) == NO_ENDS
    assert seen_ends([(5,), (5, 6, 7), (EOS,)], 3) == {EOS}  # 5 goes on elsewhere
    assert seen_ends([()], 3) == NO_ENDS


def test_texts_that_are_cut_off_are_no_ends() -> None:
    assert seen_ends([(token,) for token in range(20)], 3) == NO_ENDS


def test_two_arms_are_pooled_by_what_they_drew_together() -> None:
    first = count([(5, 8)] * 30 + [(6, 8)] * 6)
    second = count([(5, 9)] * 30 + [(7, 8)] * 6)
    root = grow_pooled("p", together(first, second))
    assert root.tokens == (5,)  # 6 and 7 were drawn 6 times, 10 are needed
    assert root.totals is not None
    assert root.totals.tolist() == [60, 12]
    assert [child.tokens for _, child in root.children] == [(8, 9)]
    assert np.allclose(root.shares, [60 / 72, 12 / 72])
