"""What is counted of answers, and how Prometheus reads it."""

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from orchestrator.histogram import Histogram
from orchestrator.pool import Pools
from orchestrator.standing import Standing
from orchestrator.tally import Tally, TallyCollector
from orchestrator.usage import Usage


def text(tally: Tally) -> list[str]:
    registry = CollectorRegistry()
    registry.register(TallyCollector(tally, Standing(Pools((), ()))))
    return generate_latest(registry).decode().splitlines()


def test_upper_ends_are_inclusive_and_cumulative() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 9.0):
        histogram.see(value)
    assert histogram.buckets() == [("1.0", 2), ("2.0", 4), ("+Inf", 5)]
    assert histogram.total == 14.0


def test_the_time_between_tokens_is_counted_for_each_token() -> None:
    """Eleven tokens in three pieces: ten gaps of 0.1 s, whatever the pieces were."""
    tally = Tally()
    tally.of("chat", "edit").see(1.5, 0.5, Usage(4, 11, 12, 8))
    lines = text(tally)
    labels = '{profile="edit",type="chat"}'
    bucket = 'draftgate_inter_token_seconds_bucket{le="%s",profile="edit",type="chat"} %s'
    assert bucket % ("0.075", "0.0") in lines
    assert bucket % ("0.1", "10.0") in lines
    assert f"draftgate_inter_token_seconds_sum{labels} 1.0" in lines
    assert f"draftgate_time_to_first_token_seconds_count{labels} 1.0" in lines
    assert f"draftgate_prompt_tokens_total{labels} 4.0" in lines
    assert f"draftgate_completion_tokens_total{labels} 11.0" in lines
    assert f"draftgate_drafted_tokens_total{labels} 12.0" in lines
    assert f"draftgate_accepted_tokens_total{labels} 8.0" in lines


@pytest.mark.parametrize("usage", [None, Usage(4, None)])
def test_a_stream_that_does_not_tell_its_tokens_is_counted_so(usage: Usage | None) -> None:
    tally = Tally()
    tally.of("chat", "edit").see(1.5, 0.5, usage)
    traffic = tally.traffic["chat", "edit"]
    assert traffic.without_usage == 1
    assert sum(traffic.inter_token.counts) == 0
    assert sum(traffic.first_token.counts) == 1


def test_an_answer_that_is_no_stream_has_no_first_token() -> None:
    tally = Tally()
    tally.of("chat", "edit").see(1.5, None, Usage(4, 11))
    traffic = tally.traffic["chat", "edit"]
    assert sum(traffic.first_token.counts) == sum(traffic.inter_token.counts) == 0
    assert sum(traffic.seconds.counts) == 1
