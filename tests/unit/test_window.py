"""Limits per minute: never more than so much in any 60 seconds, and it comes back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.window import SLOT_S, SPAN_S, OwnTotal, Window

STEPS = st.lists(st.tuples(st.floats(0, 30), st.integers(1, 5)), max_size=60)


@given(STEPS, st.integers(5, 40))
def test_no_minute_has_more_than_the_limit(steps: list[tuple[float, int]], limit: int) -> None:
    """When each is only used where `wait_s` says that there is room."""
    window, now, used = Window(), 1000.0, []
    for pause, amount in steps:
        now += pause
        if window.wait_s(now, limit - amount) == 0:
            window.add(now, amount)
            used.append((now, amount))
    for start, _ in used:
        assert sum(amount for at, amount in used if start <= at < start + SPAN_S) <= limit


@given(STEPS, st.integers(5, 40))
def test_after_the_wait_there_is_room_and_not_before(
    steps: list[tuple[float, int]], most: int
) -> None:
    window, now = Window(), 1000.0
    for pause, amount in steps:
        now += pause
        window.add(now, amount)
    wait_s = window.wait_s(now, most)
    assert 0 <= wait_s <= SPAN_S + SLOT_S
    if wait_s > 0.01:
        assert window.used(now + wait_s - 0.01) > most
    assert window.used(now + wait_s + 1e-6) <= most


def test_what_is_given_back_is_there_at_once() -> None:
    window = Window()
    window.add(0, 100)
    window.add(12, 1)
    window.give_back(0, 70)
    assert window.used(12) == 31
    assert window.used(64.9) == 31
    assert window.used(65) == 1, "it is gone with what was reserved"
    window.give_back(0, 70)
    assert window.used(66) == 1


def test_what_others_used_counts() -> None:
    total = OwnTotal()
    window = Window(total)
    total.add(50)  # another process
    window.add(0, 10)
    assert window.used(0) == 60
    assert window.wait_s(0, 55) == pytest.approx(65)
    assert window.wait_s(0, 5) == SPAN_S + SLOT_S
    assert window.own == 10
    assert window.used(100) == 50
