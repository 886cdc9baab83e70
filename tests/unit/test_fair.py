"""Turns among callers: by their shares, and nobody is forgotten."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.fair import FairOrder


def take(order: FairOrder[tuple[str, int]]) -> tuple[str, int]:
    thing = order.next()
    assert thing is not None
    order.take(thing[0], thing)
    return thing


SHARES = {"a": 1.0, "b": 2.0, "c": 0.5}


@given(st.lists(st.sampled_from(sorted(SHARES)), max_size=40))
def test_everything_is_taken_once_and_each_callers_in_order(callers: list[str]) -> None:
    order: FairOrder[tuple[str, int]] = FairOrder()
    for number, caller in enumerate(callers):
        order.add(caller, SHARES[caller], (caller, number))
    assert len(order) == len(list(order)) == len(callers)
    taken = [take(order) for _ in callers]
    assert order.next() is None
    assert sorted(taken, key=lambda thing: thing[1]) == [
        (caller, number) for number, caller in enumerate(callers)
    ]
    for caller in SHARES:
        own = [number for name, number in taken if name == caller]
        assert own == sorted(own)


@given(st.integers(1, 60))
def test_turns_go_by_shares(turns: int) -> None:
    """While all have something waiting, nobody is more than a turn away from its share."""
    order: FairOrder[tuple[str, int]] = FairOrder()
    for number in range(200):
        for caller, share in SHARES.items():
            order.add(caller, share, (caller, number))
    taken = Counter(take(order)[0] for _ in range(turns))
    whole = sum(SHARES.values())
    for caller, share in SHARES.items():
        assert abs(taken[caller] - turns * share / whole) <= 1 + share


def test_one_that_comes_back_at_once_gets_no_more_than_its_turns() -> None:
    """A client with one request at a time against one with many."""
    order: FairOrder[tuple[str, int]] = FairOrder()
    for number in range(100):
        order.add("many", 1, ("many", number))
    order.add("one", 1, ("one", 0))
    taken = Counter[str]()
    for number in range(1, 41):
        caller, _ = take(order)
        taken[caller] += 1
        if caller == "one":
            order.add("one", 1, ("one", number))
    assert taken == {"one": 20, "many": 20}


def test_waiting_for_nothing_saves_nothing_up() -> None:
    order: FairOrder[tuple[str, int]] = FairOrder()
    for number in range(100):
        order.add("busy", 1, ("busy", number))
    for _ in range(50):
        take(order)
    for number in range(10):
        order.add("late", 1, ("late", number))
    taken = Counter(take(order)[0] for _ in range(10))
    assert taken == {"busy": 5, "late": 5}


def test_one_that_leaves_takes_no_turn() -> None:
    order: FairOrder[tuple[str, int]] = FairOrder()
    order.add("a", 1, ("a", 0))
    order.add("a", 1, ("a", 1))
    order.leave("a", ("a", 0))
    assert order.next() == ("a", 1)
    order.leave("a", ("a", 1))
    assert order.next() is None
    assert len(order) == 0
