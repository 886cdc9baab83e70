"""Trace: W3C trace context of a request, and what the router wants of a tracer. Pure.

Spans are made by orchestrator/spans.py, which is loaded only where a fleet asks for traces.
"""

import importlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from orchestrator.errors import OrchestratorError
from orchestrator.message import Incoming
from orchestrator.pick import Choice

if TYPE_CHECKING:  # which calls us
    from orchestrator.dispatch import Order, Outcome

# https://www.w3.org/TR/trace-context/: version, trace, span and flags; later versions may add more.
_PARENT = re.compile(rb"(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_NONE = (b"0" * 32, b"0" * 16)


@dataclass(slots=True)
class Parent:
    """The client's span, in hexadecimal digits; `flags` is their number."""

    trace_id: bytes
    span_id: bytes
    flags: int

    @property
    def is_sampled(self) -> bool:
        return self.flags & 1 == 1


@dataclass(frozen=True)
class Traces:
    """Where spans go: `endpoint` is the URL of an OTLP/HTTP collector, without /v1/traces.

    `sample` is the share of requests, of those whose client does not decide it; `headers_env` names
    the variable with headers for the collector, as in `name=value,name=value`.
    """

    endpoint: str
    sample: float
    headers_env: str | None = None


class Trace(Protocol):
    """One request that is traced. `header` is the traceparent that the engine gets."""

    trace_id: str
    header: bytes

    def end(self, order: "Order", choice: Choice | None, outcome: "Outcome") -> None:
        """The request ended now."""


class Tracer(Protocol):
    """Decides which requests are traced."""

    def begin(self, incoming: Incoming) -> Trace | None:
        """The trace of a request that came now; None: it is not traced."""

    def counts(self) -> Mapping[str, int]:
        """Spans by what became of them: sent, failed, dropped."""

    def close(self) -> None:
        """Sends what waits; blocks for a few seconds at most."""


def read_parent(value: bytes | None) -> Parent | None:
    """The client's span; None where it names none, or not in the standard's form."""
    found = value and _PARENT.fullmatch(value)
    if not found:
        return None
    version, trace, span, flags, more = found.groups()
    if trace == _NONE[0] or span == _NONE[1] or (more and version == b"00"):
        return None
    return Parent(trace, span, int(flags, 16))


def tracer_of(traces: Traces | None) -> Tracer | None:
    """A tracer that sends spans. Raises OrchestratorError when its packages are not installed."""
    if traces is None:
        return None
    try:
        spans = importlib.import_module("orchestrator.spans")
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("opentelemetry"):
            raise
        message = "router.traces needs OpenTelemetry, which is not installed"
        raise OrchestratorError(f"{message}: pip install 'draftgate[traces]'") from error
    tracer: Tracer = spans.Spans(traces)
    return tracer


class SpanCounts(Collector):
    """The metric of spans, by what became of them."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self._counts = counts

    def collect(self) -> Iterable[Metric]:
        title = "Spans of traced requests, by what became of them."
        family = CounterMetricFamily("draftgate_spans", title, labels=["result"])
        for result, count in self._counts.items():
            family.add_metric([result], count)
        yield family
