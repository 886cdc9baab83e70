"""What a reload keeps: loads, states and crossovers of workers that stay, and requests that run."""

import asyncio
import gc
import weakref
from dataclasses import replace

import pytest

from orchestrator.configuration import RouterConfig, needs_restart
from orchestrator.equipment import Equipment
from orchestrator.fleet import Hop, Until
from orchestrator.generation import Generation
from orchestrator.pick import Choice, Facts, pick
from orchestrator.pool import READY, Pool, Upstream

ROUTES = {"chat": (Hop(profile="fast", until=Until(in_flight=4, back_at=1)), Hop(profile="plain"))}


def upstream(name: str, profile: str, port: int = 1, **changes: object) -> Upstream:
    whole = Upstream(
        name=name,
        profile=profile,
        model="small",
        engine="fake",
        host="127.0.0.1",
        port=port,
        is_plain=profile == "plain",
        limits={},
        health="/health",
        batch_limit=None,
        refused=None,
    )
    return replace(whole, **changes)  # type: ignore[arg-type]


def config(*upstreams: Upstream) -> RouterConfig:
    address = ("127.0.0.1", 1)
    return RouterConfig(upstreams, (), ROUTES, ("small",), address, None, True, 1, None)


PLAIN, FAST = upstream("plain-0", "plain", 1), upstream("fast-0", "fast", 2)


@pytest.fixture
def first() -> Generation:
    with asyncio.Runner() as runner:
        made = Generation.first(config(PLAIN, FAST), Equipment(config(), runner.get_loop()))
    for name in made.standing.upstreams:
        made.standing.mark_up(name)
    return made


def pool_of(generation: Generation, profile: str) -> Pool:
    found = generation.standing.pools.find("small", profile)
    assert found is not None
    return found


def reloaded(before: Generation, *upstreams: Upstream) -> Generation:
    new = before.next(config(*upstreams))
    new.take_over(before)
    return new


def chosen(generation: Generation) -> str:
    found = pick(generation.dispatch.routes, Facts("chat", "small"))
    assert isinstance(found, Choice)
    return found.upstream.name


def test_what_runs_is_counted_across_reloads_until_it_ends(first: Generation) -> None:
    old = pool_of(first, "fast")
    old.add("fast-0", 1)
    second = reloaded(first, PLAIN, FAST, upstream("fast-1", "fast", 3))
    pool_of(second, "fast").add("fast-0", 1)
    third = reloaded(second, PLAIN, FAST)
    assert third.standing.in_flight == {"plain-0": 0, "fast-0": 2}
    old.add("fast-0", -1)
    assert third.standing.in_flight == {"plain-0": 0, "fast-0": 1}
    assert pool_of(third, "fast").in_flight == 1
    pool_of(second, "fast").add("fast-0", -1)
    assert pool_of(third, "fast").in_flight == 0


def test_an_old_pool_does_not_keep_those_between(first: Generation) -> None:
    old, now = pool_of(first, "fast"), first
    old.add("fast-0", 1)
    between = []
    for _ in range(3):
        now = reloaded(now, PLAIN, FAST)
        between.append(weakref.ref(pool_of(now, "fast")))
    gc.collect()
    assert [ref() is None for ref in between] == [True, True, False]
    old.add("fast-0", -1)
    assert now.standing.in_flight["fast-0"] == 0


def test_a_worker_of_another_profile_takes_its_load_along(first: Generation) -> None:
    old = pool_of(first, "fast")
    old.add("fast-0", 1)
    new = reloaded(first, PLAIN, replace(FAST, profile="plain", is_plain=True))
    assert pool_of(new, "plain").in_flight == 1
    old.add("fast-0", -1)
    assert pool_of(new, "plain").in_flight == 0


def test_a_worker_that_is_elsewhere_is_another_one(first: Generation) -> None:
    old = pool_of(first, "fast")
    old.add("fast-0", 1)
    new = reloaded(first, PLAIN, replace(FAST, port=9))
    assert new.newcomers(first) == ("fast-0",)
    assert new.standing.in_flight["fast-0"] == 0
    old.add("fast-0", -1)
    assert new.standing.in_flight["fast-0"] == 0


def test_newcomers_get_nothing_until_they_are_checked(first: Generation) -> None:
    new = reloaded(first, PLAIN, FAST, upstream("fast-1", "fast", 3))
    assert new.standing.states == {"plain-0": READY, "fast-0": READY, "fast-1": "unchecked"}


def test_a_pool_stays_on_its_side_of_a_crossover(first: Generation) -> None:
    old = pool_of(first, "fast")
    for _ in range(4):
        old.add("fast-0", 1)
    for _ in range(2):
        old.add("fast-0", -1)
    assert chosen(first) == "plain-0"  # 2 in flight: left at 4, back at 1
    new = reloaded(first, PLAIN, FAST)
    assert chosen(new) == "plain-0"
    old.add("fast-0", -1)
    assert chosen(new) == "fast-0"


def test_health_and_the_supervisors_word_are_kept(first: Generation) -> None:
    first.standing.mark_down("fast-0", "unreachable")
    first.standing.supervise({"plain-0": "draining"})
    new = reloaded(first, PLAIN, FAST)
    assert new.standing.states == {"plain-0": "draining", "fast-0": "unreachable"}


def test_the_counts_are_the_same_ones(first: Generation) -> None:
    assert reloaded(first, PLAIN).tally is first.tally


def test_what_needs_a_restart() -> None:
    now = config(PLAIN)
    assert needs_restart(now, config(FAST)) == ()
    wanted = replace(now, listen=("::1", 2), admin=("127.0.0.1", 3))
    assert needs_restart(now, wanted) == (
        "router.listen: ::1:2 needs a restart; this router still listens on 127.0.0.1:1",
        "router.admin: 127.0.0.1:3 needs a restart; this router still listens on nothing",
    )
