"""Health checks: how long an answer may take, and what a late one says of a worker."""

import asyncio
from typing import cast

import pytest

from orchestrator import health as module
from orchestrator.health import MOST_PASSES, Health
from orchestrator.pool import READY, UNCHECKED, Pools, Upstream
from orchestrator.service import Timeouts
from orchestrator.standing import SLOW_CHECKS, Standing
from orchestrator.upstream import Connections

ONE_S = Timeouts(health_s=1)


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Every check is too late; the seconds that each was given."""
    given: list[float] = []

    async def ask(connections: Connections, path: str, timeout_s: float) -> int:
        given.append(timeout_s)
        raise TimeoutError

    monkeypatch.setattr(module, "ask", ask)
    return given


def watched() -> tuple[Upstream, Standing, Health]:
    address = ("127.0.0.1", 1)
    upstream = Upstream(
        "plain-0", "plain", "small", "fake", *address, True, {}, "/health", None, None
    )
    standing = Standing(Pools([upstream], ["small"]))
    return upstream, standing, Health(standing, {"plain-0": cast("Connections", None)}, ONE_S)


def test_a_first_check_may_take_as_long_as_all_that_may_be_late(late: list[float]) -> None:
    """A router that starts beside a busy engine would else begin without it."""
    upstream, standing, health = watched()
    assert standing.state("plain-0") == UNCHECKED
    asyncio.run(health.check(upstream))
    assert late == [SLOW_CHECKS * 1.0]
    assert standing.state("plain-0") == "not answering its health check"


def test_a_worker_that_was_well_is_down_when_so_many_are_late(late: list[float]) -> None:
    upstream, standing, health = watched()
    standing.mark_up("plain-0")
    states = []
    for _ in range(SLOW_CHECKS):
        asyncio.run(health.check(upstream))
        states.append(standing.state("plain-0"))
    assert late == [1.0] * SLOW_CHECKS
    assert states == [READY, READY, "not answering its health check"]


def test_in_a_large_fleet_one_that_answers_is_asked_at_every_fifth_look() -> None:
    """One that is silent, or called ready by its supervisor, is asked each time."""
    _, standing, health = watched()
    standing.mark_up("plain-0")
    pool = standing.pools.find("small", "plain")
    assert pool is not None

    def looks(count: int) -> list[bool]:
        """Whether each look would ask, as `_watch` goes on."""
        passes, found = 0, []
        for _ in range(count):
            pool.answered.add("plain-0")
            passes = passes + 1 if health._may_pass("plain-0", passes) else 0
            found.append(passes == 0)
        return found

    assert looks(10) == [False] * MOST_PASSES + [True] + [False] * MOST_PASSES + [True]
    assert not health._may_pass("plain-0", 0), "it has not answered since"
    pool.answered.add("plain-0")
    health._wake["plain-0"].set()
    assert not health._may_pass("plain-0", 0), "its supervisor calls"
    health._wake["plain-0"].clear()
    pool.answered.add("plain-0")
    standing.mark_down("plain-0", "unreachable")
    assert not health._may_pass("plain-0", 0), "it is down"
