"""Whole strings compared: the kernel, and p-values with and without a difference."""

import numpy as np
import pytest

from orchestrator.gate.mmd import String, likeness, mmd_p_value


def strings(seed: int, count: int, chance: float) -> list[String]:
    """Of eight tokens, each 1 with that chance, else 0."""
    drawn = np.random.default_rng(seed).random((count, 8)) < chance
    return [tuple(int(token) for token in row) for row in drawn]


def test_strings_are_as_alike_as_they_have_equal_positions() -> None:
    alike = likeness([(1, 2, 3, 4), (1, 2, 9, 9), (1,), ()])
    assert alike[0].tolist() == [1, 0.5, 0.25, 0]
    assert alike[2, 3] == 0.75  # ended texts go on alike
    assert (alike == alike.T).all()


def test_equal_strings_show_nothing() -> None:
    same = {"p": [(1, 2)] * 5}
    assert mmd_p_value(same, same, 0, 200) == 1


def test_a_difference_over_many_prompts_is_seen() -> None:
    prompts = [f"p{n}" for n in range(10)]
    plain = {p: strings(n, 10, 0.5) for n, p in enumerate(prompts)}
    other = {p: strings(100 + n, 10, 0.8) for n, p in enumerate(prompts)}
    found = mmd_p_value(plain, other, 0, 500)
    assert found == pytest.approx(1 / 501)


def test_p_values_are_uniform_where_nothing_is_wrong() -> None:
    found = [
        mmd_p_value({"p": strings(n, 10, 0.5)}, {"p": strings(500 + n, 10, 0.5)}, n, 100)
        for n in range(120)
    ]
    low = np.array([p for p in found if p is not None])
    assert len(low) == 120
    assert (low <= 0.1).mean() <= 0.2
    assert (low <= 0.5).mean() == pytest.approx(0.5, abs=0.15)


def test_sides_change_within_a_prompt_only() -> None:
    plain: dict[str, list[String]] = {"a": [(1,)] * 10, "b": [(2,)] * 10}
    assert mmd_p_value(plain, plain, 0, 200) == 1
    swapped = {"a": plain["b"], "b": plain["a"]}
    assert mmd_p_value(plain, swapped, 0, 200) == pytest.approx(1 / 201)


def test_without_strings_nothing_is_tested() -> None:
    assert mmd_p_value({}, {}, 0) is None
    assert mmd_p_value({"p": []}, {"p": [(1,)]}, 0) is None
    assert mmd_p_value({"p": [(1,)]}, {}, 0) is None
