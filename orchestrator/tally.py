"""Tally: what the router has counted, and its form for Prometheus."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from orchestrator.histogram import SECONDS, TOKEN_SECONDS, Histogram
from orchestrator.standing import Standing
from orchestrator.usage import Usage

Labels: TypeAlias = tuple[str | int, ...]


class Traffic:
    """What one type's requests to one profile took."""

    __slots__ = (
        "accepted",
        "completion",
        "drafted",
        "first_token",
        "inter_token",
        "prompt",
        "seconds",
        "without_usage",
    )

    def __init__(self) -> None:
        self.seconds = Histogram(SECONDS)
        self.first_token = Histogram(SECONDS)
        self.inter_token = Histogram(TOKEN_SECONDS)
        self.prompt = 0
        self.completion = 0
        self.drafted = 0
        self.accepted = 0
        self.without_usage = 0

    def see(self, seconds: float, first_s: float | None, usage: Usage | None) -> None:
        """Counts a whole answer; `first_s` is the time to a stream's first piece, else None.

        The time between tokens is counted in tokens, not in pieces: a verify step sends several
        tokens in one piece. A stream that does not tell its tokens adds nothing there.
        """
        self.seconds.see(seconds)
        if first_s is not None:
            self.first_token.see(first_s)
        if usage is None or usage.completion is None:
            self.without_usage += 1
        if usage is None:
            return
        self.prompt += usage.prompt or 0
        self.drafted += usage.drafted or 0
        self.accepted += usage.accepted or 0
        if usage.completion:
            self.completion += usage.completion
            if first_s is not None and usage.completion > 1:
                gaps = usage.completion - 1
                self.inter_token.see((seconds - first_s) / gaps, gaps)


@dataclass
class Tally:
    """Plain counters: counting is on every request's way, rendering is not."""

    requests: Counter[Labels] = field(default_factory=Counter)
    picks: Counter[Labels] = field(default_factory=Counter)
    cancels: Counter[Labels] = field(default_factory=Counter)
    failures: Counter[Labels] = field(default_factory=Counter)
    traffic: dict[tuple[str, str], Traffic] = field(default_factory=dict)  # by type and profile
    keys: Counter[Labels] = field(default_factory=Counter)  # requests by key and status
    key_tokens: Counter[Labels] = field(default_factory=Counter)  # by key, prompt or completion
    waits: Histogram = field(default_factory=lambda: Histogram(SECONDS))  # of those that waited
    wait_ends: Counter[Labels] = field(default_factory=Counter)
    waiting: int = 0

    def requests_by(self, index: int) -> dict[str, int]:
        """Requests by one label: 0 type, 1 profile, 2 worker, 3 status."""
        totals: Counter[str] = Counter()
        for labels, count in self.requests.items():
            totals[str(labels[index])] += count
        return dict(totals)

    def of(self, kind: str, profile: str) -> Traffic:
        """The traffic of a type on a profile."""
        found = self.traffic.get((kind, profile))
        if found is None:
            found = self.traffic[kind, profile] = Traffic()
        return found


class TallyCollector(Collector):
    """Reads the tally when it is scraped."""

    def __init__(self, tally: Tally, standing: Standing) -> None:
        self._tally = tally
        self._standing = standing

    def collect(self) -> Iterable[Metric]:
        yield from self._counters()
        yield from _traffic_counters(self._tally.traffic)
        yield from _traffic_histograms(self._tally.traffic)
        gauge = GaugeMetricFamily(
            "draftgate_requests_in_flight", "Requests on a worker now.", labels=["worker"]
        )
        for worker, count in self._standing.in_flight.items():
            gauge.add_metric([worker], count)
        yield gauge
        yield from _waiting(self._tally)

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
        yield _counter(
            ("draftgate_key_requests", "Requests by API key."), ("key", "status"), tally.keys
        )
        yield _counter(
            ("draftgate_key_tokens", "Tokens of prompts and answers by API key."),
            ("key", "kind"),
            tally.key_tokens,
        )


_BY = ("type", "profile")


def _traffic_counters(traffic: Mapping[tuple[str, str], Traffic]) -> Iterator[Metric]:
    """The numbers of tokens, as far as answers told them."""
    titles: tuple[tuple[str, str, Callable[[Traffic], int]], ...] = (
        ("draftgate_prompt_tokens", "Tokens of prompts.", lambda t: t.prompt),
        ("draftgate_completion_tokens", "Tokens of answers.", lambda t: t.completion),
        ("draftgate_drafted_tokens", "Tokens guessed.", lambda t: t.drafted),
        ("draftgate_accepted_tokens", "Guessed tokens accepted.", lambda t: t.accepted),
        (
            "draftgate_answers_without_usage",
            "Whole answers that did not tell their tokens.",
            lambda t: t.without_usage,
        ),
    )
    for name, title, value in titles:
        yield _counter((name, title), _BY, {key: value(t) for key, t in traffic.items()})


def _traffic_histograms(traffic: Mapping[tuple[str, str], Traffic]) -> Iterator[Metric]:
    titles: tuple[tuple[str, str, Callable[[Traffic], Histogram]], ...] = (
        ("draftgate_request_seconds", "From request to the answer's end.", lambda t: t.seconds),
        (
            "draftgate_time_to_first_token_seconds",
            "From request to a stream's first piece.",
            lambda t: t.first_token,
        ),
        (
            "draftgate_inter_token_seconds",
            "Mean time between tokens of a stream, counted once for each token.",
            lambda t: t.inter_token,
        ),
    )
    for name, title, value in titles:
        family = HistogramMetricFamily(name, title, labels=_BY)
        for key, entry in list(traffic.items()):
            found = value(entry)
            family.add_metric(list(key), buckets=found.buckets(), sum_value=found.total)
        yield family


def _waiting(tally: Tally) -> Iterator[Metric]:
    gauge = GaugeMetricFamily("draftgate_requests_waiting", "Requests that wait for a worker now.")
    gauge.add_metric([], tally.waiting)
    yield gauge
    title = "Requests that waited for a worker, by how that ended."
    yield _counter(("draftgate_waits", title), ("end",), tally.wait_ends)
    family = HistogramMetricFamily("draftgate_wait_seconds", "Waits for a worker.")
    family.add_metric([], buckets=tally.waits.buckets(), sum_value=tally.waits.total)
    yield family


def _counter(title: tuple[str, str], labels: Sequence[str], values: Mapping[Labels, int]) -> Metric:
    family = CounterMetricFamily(*title, labels=labels)
    for key, count in list(values.items()):
        family.add_metric([str(label) for label in key], count)
    return family
