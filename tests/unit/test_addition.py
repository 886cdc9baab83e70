"""Counts of several processes as one."""

import pickle
from dataclasses import fields

from orchestrator.addition import added
from orchestrator.tally import Tally
from orchestrator.usage import Usage


def tally(seconds: float) -> Tally:
    made = Tally()
    made.requests["chat", "plain", "plain-0", 200] += 2
    made.picks["preferred",] += 1
    made.of("chat", "plain").see(seconds, 0.1, Usage(3, 5, 4, 2))
    return made


def test_numbers_are_added_by_key_and_by_field() -> None:
    one, other = tally(1.0), tally(2.0)
    other.requests["chat", "plain", "plain-1", 503] += 1
    other.of("edit", "plain").see(1.0, None, None)
    total = added(one, other)
    assert total.requests == {
        ("chat", "plain", "plain-0", 200): 4,
        ("chat", "plain", "plain-1", 503): 1,
    }
    assert total.picks == {("preferred",): 2}
    traffic = total.traffic["chat", "plain"]
    assert (traffic.prompt, traffic.completion, traffic.accepted) == (6, 10, 4)
    assert (sum(traffic.seconds.counts), traffic.seconds.total) == (2, 3.0)
    assert traffic.seconds.bounds == one.traffic["chat", "plain"].seconds.bounds
    assert total.traffic["edit", "plain"].without_usage == 1


def test_neither_is_changed() -> None:
    one, other = tally(1.0), tally(2.0)
    before = pickle.dumps((one, other))
    added(added(one, other), other)
    assert pickle.dumps((one, other)) == before


KEPT = ("traffic", "waits")  # objects, which are compared by their numbers


def test_nothing_adds_nothing() -> None:
    one = tally(1.0)
    one.waits.see(2.0)
    for total in (added(one, Tally()), added(Tally(), one)):
        assert total.waits.counts == one.waits.counts
        assert {f.name: getattr(total, f.name) for f in fields(total) if f.name not in KEPT} == {
            f.name: getattr(one, f.name) for f in fields(one) if f.name not in KEPT
        }
        assert total.traffic["chat", "plain"].seconds.total == 1.0
