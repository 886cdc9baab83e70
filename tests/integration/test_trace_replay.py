"""Two hours of a day of real arrivals, compressed: every pick is what the pure functions say."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from bench.trace.check import check
from bench.trace.day import make_day, read_trace
from bench.trace.record import Added, Picked, Record, read_records
from bench.trace.replay import BACK_AT, BATCH, LEAVE_AT
from bench.trace_replay import Finding, find
from orchestrator.app import FleetSource
from orchestrator.configuration import RouterConfig
from orchestrator.fleet import Until

SECONDS, PER_SECOND, SEED = 10, 60, 7
HOURS = (3, 15)  # the quietest and the busiest


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Finding:
    day = make_day(tuple(read_trace()), SECONDS, PER_SECOND, SEED, HOURS)
    return find(tmp_path_factory.mktemp("day"), day)


@pytest.fixture(scope="module")
def records(found: Finding) -> Sequence[Record]:
    return tuple(read_records(found.run.records))


@pytest.fixture(scope="module")
def config(found: Finding) -> RouterConfig:
    return FleetSource(found.run.fleet, str(found.run.fleet)).read().require()


def test_nothing_is_wrong_refused_or_lost(found: Finding) -> None:
    assert found.verdict.shown() == []
    assert {what: count for what, count in found.faults() if count} == {}
    assert found.verdict.picks == len(found.day.arrivals) > 400


def test_both_pools_are_left_and_used_again_with_a_distance(found: Finding) -> None:
    lines = found.verdict.lines
    bands = {name: (line.band.leave_at, line.band.back_at) for name, line in lines.items()}
    assert bands == {"code-edit": (LEAVE_AT, BACK_AT), "draft": (BATCH, BATCH * 3 // 4)}
    for profile, line in lines.items():
        assert line.left, profile
        assert set(line.left) == {line.band.leave_at}, "no more than it may have"
        assert set(line.back) == {line.band.back_at}
        assert 0 <= len(line.left) - len(line.back) <= 1
        assert max(found.verdict.loads[profile]) == line.band.leave_at
    kinds = found.verdict.kinds
    assert min(kinds[kind] for kind in ("preferred", "until", "batch_limit", "limits")) > 0


# The check itself: what it must see.


def picked(records: Sequence[Record], place: int) -> tuple[int, Picked]:
    """A pick among busy workers, and its place among the records."""
    found = [(at, r) for at, r in enumerate(records) if isinstance(r, Picked)]
    return [(at, pick) for at, pick in found if any(pick.loads.values())][place]


def test_another_worker_is_seen(config: RouterConfig, records: Sequence[Record]) -> None:
    at, pick = picked(records, 50)
    other = next(name for name in pick.loads if name != pick.worker)
    changed = list(records)
    changed[at] = Picked(
        **{name: getattr(pick, name) for name in pick.__struct_fields__} | {"worker": other}
    )
    assert len(check(config, changed).wrong) > 0


def test_a_request_that_is_counted_for_ever_is_seen(
    config: RouterConfig, records: Sequence[Record]
) -> None:
    left = next(at for at, r in enumerate(records) if isinstance(r, Added) and r.change == -1)
    verdict = check(config, [*records[:left], *records[left + 1 :]])
    assert (verdict.left_over, verdict.miscounted > 0) == (1, True)
    assert verdict.wrong != []


def test_a_pool_that_comes_back_too_early_is_seen(
    config: RouterConfig, records: Sequence[Record]
) -> None:
    """The record of a router that comes back at 3, held against a fleet that says 1."""
    edits, plain = config.routes["code"]
    later = edits.model_copy(update={"until": Until(in_flight=LEAVE_AT, back_at=1)})
    verdict = check(replace(config, routes={**config.routes, "code": (later, plain)}), records)
    assert any("code-edit-" in words for words in verdict.wrong)
    assert check(config, records).wrong == []
