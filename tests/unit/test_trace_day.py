"""The day that bench/trace makes of a trace of one hour."""

from collections import Counter

import pytest

from bench.trace.day import Call, make_day, read_trace, share

TRACE = tuple(read_trace())


def test_the_trace_is_the_published_one() -> None:
    assert Counter(call.kind for call in TRACE) == {"code": 8_819, "conv": 19_366}
    assert [call.at_s for call in TRACE] == sorted(call.at_s for call in TRACE)
    assert TRACE[-1].at_s == pytest.approx(3513.247)
    generated = Counter[str]()
    for call in TRACE:
        generated[call.kind] += call.generated
    assert generated == {"code": 245_896, "conv": 4_088_665}


def test_a_day_goes_up_and_down() -> None:
    assert share(15) == 1
    assert share(3) == pytest.approx(0.2)
    assert sum(map(share, range(24))) == pytest.approx(14.4)


def test_as_many_requests_are_in_flight_as_there_would_have_been() -> None:
    """Tokens made a second, at the pace of a token: what is in flight, on average."""
    day = make_day(TRACE, 360, 60, seed=1)
    assert len(day.arrivals) == pytest.approx(360 * 60, rel=0.02)
    there = sum(call.generated for call in TRACE) / TRACE[-1].at_s * 14.4 / 24
    here = sum(arrival.events for arrival in day.arrivals) / 360
    assert here == pytest.approx(there, rel=0.05)  # an event at least for each answer
    assert day.speed == pytest.approx(12.5, abs=0.1)


def test_the_same_seed_makes_the_same_day() -> None:
    trace = tuple(Call(float(at), "code", 100) for at in range(1000))
    days = [make_day(trace, 10, 50, seed, (3, 15)) for seed in (1, 1, 2)]
    assert days[0] == days[1] != days[2]
    hours = Counter(arrival.hour for arrival in days[0].arrivals)
    assert 3 < hours[15] / hours[3] < 8
    assert [a.at_s for a in days[0].arrivals] == sorted(a.at_s for a in days[0].arrivals)
    assert all(arrival.at_s < 5 for arrival in days[0].arrivals if arrival.hour == 3)
