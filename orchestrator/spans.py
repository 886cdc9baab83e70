"""Spans: traced requests as OpenTelemetry spans, sent by a thread of their own (draftgate[traces]).

Names are those of the semantic conventions for HTTP servers and for generative AI; what they have
no name for begins with `draftgate.`.
"""

import logging
import os
import random
import time
from collections.abc import Mapping, Sequence
from threading import Thread

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)
from opentelemetry.util.re import parse_env_headers
from opentelemetry.util.types import AttributeValue

from orchestrator import __version__
from orchestrator.dispatch import Order, Outcome
from orchestrator.errors import OrchestratorError
from orchestrator.message import Incoming
from orchestrator.pick import Choice
from orchestrator.trace import Trace, Traces, read_parent
from orchestrator.usage import Usage

LOG = logging.getLogger("draftgate.router")

MOST_WAITING = 4096  # spans
_BATCH = 256
_DELAY_MS = 2000.0
_TIMEOUT_S = 5.0
_CLOSE_S = 5.0
_OPERATIONS = {
    "/v1/chat/completions": "chat",
    "/v1/messages": "chat",
    "/v1/responses": "chat",
    "/v1/completions": "text_completion",
    "/v1/embeddings": "embeddings",
}
_HEALTHY_ENDS = ("whole", "client_gone", "client_slow", "refused")


class RequestSpan(Trace):
    """One request's span."""

    def __init__(self, span: Span, started_ns: int) -> None:
        context = span.get_span_context()
        self.trace_id = f"{context.trace_id:032x}"
        self.header = f"00-{self.trace_id}-{context.span_id:016x}-01".encode()
        self._span = span
        self._started_ns = started_ns

    def end(self, order: Order, choice: Choice | None, outcome: Outcome) -> None:
        span = self._span
        span.set_attributes(_of_request(order, outcome) | _of_answer(choice, outcome))
        if outcome.first_byte_s is not None:
            span.add_event("first_byte", timestamp=self._at(outcome.first_byte_s))
            if outcome.is_events:
                span.set_attribute("gen_ai.response.time_to_first_chunk", outcome.first_byte_s)
        if outcome.status >= 500 or outcome.end not in _HEALTHY_ENDS:
            span.set_status(Status(StatusCode.ERROR))
        span.end(self._at(outcome.seconds))

    def _at(self, seconds: float) -> int:
        return self._started_ns + int(seconds * 1e9)


class Spans:
    """Makes and sends them. Used by the event loop's thread; a thread of the SDK's own sends."""

    def __init__(self, traces: Traces) -> None:
        self._sample = traces.sample
        url = f"{traces.endpoint.rstrip('/')}/v1/traces"
        headers = _headers(traces.headers_env)
        self._exporter = _Exporter(OTLPSpanExporter(url, headers=headers, timeout=_TIMEOUT_S))
        self._processor = _Processor(self._exporter)
        provider = TracerProvider(
            ALWAYS_ON,
            Resource.create({"service.name": "draftgate", "service.version": __version__}),
            shutdown_on_exit=False,
        )
        provider.add_span_processor(self._processor)
        self._tracer = provider.get_tracer("draftgate", __version__)
        logger = logging.getLogger(OTLPSpanExporter.__module__)
        logger.setLevel(logging.ERROR)  # each of its attempts is a warning
        logger.addFilter(self._exporter.is_news)

    def begin(self, incoming: Incoming) -> Trace | None:
        """A client that names its span decides for us, otherwise the dice do."""
        parent = read_parent(incoming.named.get(b"traceparent"))
        if parent is None:
            if random.random() >= self._sample:
                return None
            context = Context()
        elif parent.is_sampled:
            trace_id, span_id = int(parent.trace_id, 16), int(parent.span_id, 16)
            remote = SpanContext(trace_id, span_id, True, TraceFlags(parent.flags))
            context = set_span_in_context(NonRecordingSpan(remote), Context())
        else:
            return None
        now = time.time_ns()
        name = f"{incoming.method} {incoming.path}"  # of few: other paths are no orders
        return RequestSpan(
            self._tracer.start_span(name, context, SpanKind.SERVER, start_time=now), now
        )

    def counts(self) -> Mapping[str, int]:
        exporter = self._exporter
        return {
            "sent": exporter.sent,
            "failed": exporter.failed,
            "dropped": self._processor.dropped,
        }

    def close(self) -> None:
        """The SDK's own closing may take half a minute where no collector answers."""
        closing = Thread(target=self._shutdown, name="traces-close", daemon=True)
        closing.start()
        closing.join(_CLOSE_S)
        if closing.is_alive():
            LOG.warning("the last spans could not be sent in %.0f s", _CLOSE_S)

    def _shutdown(self) -> None:
        self._processor.shutdown()  # type: ignore[no-untyped-call]  # the SDK's


class _Exporter(SpanExporter):
    """Counts what was taken and what became of it; says once why it fails."""

    def __init__(self, inner: OTLPSpanExporter) -> None:
        self._inner = inner
        self._is_failing = False
        self.taken = 0
        self.sent = 0
        self.failed = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.taken += len(spans)
        result = self._inner.export(spans)
        if result is SpanExportResult.SUCCESS:
            self.sent += len(spans)
            self._is_failing = False
        else:
            self.failed += len(spans)
            self._is_failing = True
        return result

    def is_news(self, record: logging.LogRecord) -> bool:
        """A logging filter: the first failure's reason only."""
        return not self._is_failing

    def shutdown(self) -> None:
        self._inner.shutdown()  # type: ignore[no-untyped-call]  # the SDK's


class _Processor(BatchSpanProcessor):
    """Counts what it drops, which the SDK's own does not tell."""

    def __init__(self, exporter: _Exporter) -> None:
        super().__init__(exporter, MOST_WAITING, _DELAY_MS, _BATCH)
        self._exporter = exporter
        self._given = 0
        self.dropped = 0

    def on_end(self, span: ReadableSpan) -> None:
        if self._given - self._exporter.taken >= MOST_WAITING:
            self.dropped += 1
            return
        self._given += 1
        super().on_end(span)


def _of_request(order: Order, outcome: Outcome) -> dict[str, AttributeValue]:
    incoming = order.incoming
    found: dict[str, AttributeValue | None] = {
        "http.request.method": incoming.method,
        "http.route": incoming.path,
        "url.path": incoming.path,
        "client.address": outcome.peer[0],
        "client.port": outcome.peer[1],
        "http.request.body.size": len(incoming.body),
        "gen_ai.operation.name": _OPERATIONS.get(incoming.path),
        "gen_ai.request.model": order.facts.model,
        "gen_ai.request.stream": order.features.stream or None,
        "draftgate.request_id": outcome.request_id.decode("latin-1") or None,
        "draftgate.key": outcome.key,
        "draftgate.type": order.type,
        "draftgate.type_reason": order.type_reason,
    }
    return {name: value for name, value in found.items() if value is not None}


def _of_answer(choice: Choice | None, outcome: Outcome) -> dict[str, AttributeValue]:
    usage = outcome.usage or Usage()
    is_error = outcome.status >= 500 or outcome.end not in ("whole", "refused")
    found: dict[str, AttributeValue | None] = {
        "http.response.status_code": outcome.status,
        "http.response.body.size": outcome.sent,
        "error.type": _error_type(outcome) if is_error else None,
        "gen_ai.usage.input_tokens": usage.prompt,
        "gen_ai.usage.output_tokens": usage.completion,
        "draftgate.drafted_tokens": usage.drafted,
        "draftgate.accepted_tokens": usage.accepted,
        "draftgate.end": outcome.end,
        "draftgate.retries": outcome.retries,
    }
    if choice is not None:
        found["gen_ai.provider.name"] = choice.upstream.engine
        found["draftgate.profile"] = choice.upstream.profile
        found["draftgate.worker"] = choice.upstream.name
        found["draftgate.reason"] = choice.reason
    return {name: value for name, value in found.items() if value is not None}


def _error_type(outcome: Outcome) -> str:
    return str(outcome.status) if outcome.end in ("whole", "refused") else outcome.end


def _headers(name: str | None) -> dict[str, str]:
    if name is None:
        return {}
    if name not in os.environ:
        raise OrchestratorError(f"router.traces.headers_env: the environment has no {name}")
    return dict(parse_env_headers(os.environ[name], liberal=True))
