"""Pools of several processes that count together; here two processes in one."""

import pytest

from orchestrator.fleet import Hop, Until
from orchestrator.ledger import COLUMNS, Ledger
from orchestrator.pick import Choice, Facts, Routes, pick
from orchestrator.pool import Pools
from orchestrator.share import Sharing
from tests.unit.test_generation import upstream

ROUTES = {"chat": (Hop(profile="fast", until=Until(in_flight=4, back_at=1)), Hop(profile="plain"))}
UPSTREAMS = (upstream("plain-0", "plain"), upstream("fast-0", "fast"), upstream("fast-1", "fast"))


class Process:
    """One process's view; without a row it only looks, as the parent does."""

    def __init__(self, ledger: Ledger, row: int | None, number: int = 0, most: int = 0) -> None:
        upstreams = UPSTREAMS
        if most:
            limited = [upstream(u.name, u.profile, in_flight_limit=most) for u in UPSTREAMS]
            upstreams = (limited[0], limited[1], limited[2])
        self.pools = Pools(upstreams, ("small",))
        self.routes = Routes(ROUTES, self.pools)
        found = self.pools.find("small", "fast")
        assert found is not None
        self.fast = found
        self.sharing = Sharing(self.pools, ledger.page(number, row))
        for pool in self.pools:
            for one in pool.upstreams:
                pool.set_state(one.name, "ready")

    def ask(self) -> Choice:
        found = pick(self.routes, Facts("chat", "small"))
        assert isinstance(found, Choice)
        found.pool.add(found.upstream.name, 1)
        return found

    def end(self, choice: Choice) -> None:
        choice.pool.add(choice.upstream.name, -1)


@pytest.fixture
def ledger() -> Ledger:
    return Ledger.create(2)


def test_a_crossover_counts_what_all_have(ledger: Ledger) -> None:
    one, other = Process(ledger, 0), Process(ledger, 1)
    asked = [process.ask().pool.profile for _ in range(4) for process in (one, other)]
    assert asked == ["fast"] * 4 + ["plain"] * 4


def test_who_saw_the_pool_cross_last_is_right(ledger: Ledger) -> None:
    one, other = Process(ledger, 0), Process(ledger, 1)
    choices = [one.ask() for _ in range(4)]  # `other` looks at nothing meanwhile
    for choice in choices[:2]:
        one.end(choice)
    assert other.ask().pool.profile == "plain"  # 2 in flight: left at 4, back at 1
    one.end(choices[2])
    assert other.ask().pool.profile == "fast"


def test_the_side_of_a_crossover_outlives_who_saw_it(ledger: Ledger) -> None:
    one, other = Process(ledger, 0), Process(ledger, 1)
    held = [other.ask() for _ in range(2)]
    for _ in range(2):
        one.ask()
    other.ask()
    ledger.clear_row(0)  # dead: two in flight are left
    assert len(held) == 2
    assert other.ask().pool.profile == "plain"
    assert Process(ledger, 0).ask().pool.profile == "plain"


def test_loads_of_workers_follow_a_refresh(ledger: Ledger) -> None:
    one, other = Process(ledger, 0), Process(ledger, 1)
    first = one.ask()
    other.sharing.refresh()
    assert other.fast.loads[first.upstream.name] == 1
    assert other.ask().upstream.name != first.upstream.name
    one.end(first)
    other.sharing.refresh()
    assert other.fast.loads[first.upstream.name] == 0


def test_a_limit_of_a_worker_counts_what_all_have(ledger: Ledger) -> None:
    one, other = Process(ledger, 0, most=1), Process(ledger, 1, most=1)
    chosen = [one.ask(), one.ask(), other.ask()]  # `other` was not refreshed
    assert [c.upstream.name for c in chosen] == ["fast-0", "fast-1", "plain-0"]


def test_the_parent_sees_all_and_adds_nothing(ledger: Ledger) -> None:
    parent, one, other = Process(ledger, None), Process(ledger, 0), Process(ledger, 1)
    choice = one.ask()
    other.ask()
    parent.sharing.refresh()
    assert parent.fast.in_flight == 2
    assert sum(parent.fast.loads.values()) == 2
    one.end(choice)
    ledger.clear_row(1)
    parent.sharing.refresh()
    assert parent.fast.in_flight == 0


def test_a_reload_moves_what_runs_to_the_next_page(ledger: Ledger) -> None:
    one, other = Process(ledger, 0), Process(ledger, 1)
    choice = one.ask()
    other.ask()
    new = Pools(UPSTREAMS, ("small",))
    pool = new.find("small", "fast")
    assert pool is not None
    for name in ("fast-0", "fast-1"):
        pool.inherit(name, one.fast)
    one.fast.share(None)
    Sharing(new, ledger.page(1, 0))
    assert pool.in_flight == 1  # `other` has not moved yet
    moved = Process(ledger, 1, number=1)
    moved.fast.look()
    assert moved.fast.in_flight == 1
    one.end(choice)
    moved.fast.look()
    assert (pool.in_flight, moved.fast.in_flight) == (0, 0)


def test_pages_and_rows_are_separate_and_can_be_cleared(ledger: Ledger) -> None:
    pages = [ledger.page(number, row) for number in (0, 1) for row in (0, 1)]
    for value, page in enumerate(pages, 1):
        assert page.take(3) == 0
        page.write(2, value)
    assert [page.total(2) for page in pages] == [3, 3, 7, 7]
    ledger.clear_row(0)
    assert [page.total(2) for page in pages] == [2, 2, 4, 4]
    ledger.clear_page(2)  # the first one again
    assert [page.total(2) for page in pages] == [0, 0, 4, 4]
    with pytest.raises(ValueError, match="65536 columns"):
        pages[0].take(COLUMNS)
