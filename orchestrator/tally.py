"""Tally: what the router has counted, and its form for Prometheus."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from orchestrator.standing import Standing

Labels: TypeAlias = tuple[str | int, ...]


@dataclass
class Tally:
    """Plain counters: counting is on every request's way, rendering is not."""

    requests: Counter[Labels] = field(default_factory=Counter)
    picks: Counter[Labels] = field(default_factory=Counter)
    cancels: Counter[Labels] = field(default_factory=Counter)
    failures: Counter[Labels] = field(default_factory=Counter)

    def requests_by(self, index: int) -> dict[str, int]:
        """Requests by one label: 0 type, 1 profile, 2 worker, 3 status."""
        totals: Counter[str] = Counter()
        for labels, count in self.requests.items():
            totals[str(labels[index])] += count
        return dict(totals)


class TallyCollector(Collector):
    """Reads the tally when it is scraped."""

    def __init__(self, tally: Tally, standing: Standing) -> None:
        self._tally = tally
        self._standing = standing

    def collect(self) -> Iterable[Metric]:
        yield from self._counters()
        gauge = GaugeMetricFamily(
            "draftgate_requests_in_flight", "Requests on a worker now.", labels=["worker"]
        )
        for worker, count in self._standing.in_flight.items():
            gauge.add_metric([worker], count)
        yield gauge

    def _counters(self) -> Iterator[Metric]:
        tally = self._tally
        yield _counter(
            ("draftgate_requests", "Requests answered."),
            ("type", "profile", "worker", "status"),
            tally.requests,
        )
        yield _counter(
            ("draftgate_picks", "Workers picked, by the kind of reason."), ("kind",), tally.picks
        )
        yield _counter(
            ("draftgate_client_cancels", "Clients that left before their answer was whole."),
            ("worker",),
            tally.cancels,
        )
        yield _counter(
            ("draftgate_upstream_failures", "Answers that a worker did not give or finish."),
            ("worker", "kind"),
            tally.failures,
        )


def _counter(
    title: tuple[str, str], labels: tuple[str, ...], values: Mapping[Labels, int]
) -> Metric:
    family = CounterMetricFamily(*title, labels=labels)
    for key, count in list(values.items()):
        family.add_metric([str(label) for label in key], count)
    return family
