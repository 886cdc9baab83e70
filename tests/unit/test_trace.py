"""W3C trace context as clients send it, and what is sampled."""

import logging
import sys
from threading import Event
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.trace import SpanContext, TraceFlags

from orchestrator import spans
from orchestrator.errors import OrchestratorError
from orchestrator.message import Incoming, read_head
from orchestrator.spans import Spans, _Exporter, _Processor
from orchestrator.trace import Parent, Traces, read_parent, tracer_of

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
NOWHERE = Traces("http://127.0.0.1:9", 0.0)


@pytest.mark.parametrize(
    ("value", "flags"),
    [
        (f"00-{TRACE}-{SPAN}-01", 1),
        (f"00-{TRACE}-{SPAN}-00", 0),
        (f"00-{TRACE}-{SPAN}-03", 3),
        (f"cc-{TRACE}-{SPAN}-01-what-comes-later", 1),
        (f"cc-{TRACE}-{SPAN}-01", 1),
    ],
)
def test_a_clients_span_is_read(value: str, flags: int) -> None:
    found = read_parent(value.encode())
    assert found == Parent(TRACE.encode(), SPAN.encode(), flags)
    assert found.is_sampled == bool(flags & 1)


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        "nonsense",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"cc-{TRACE}-{SPAN}-01.more",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[1:]}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-1",
        f" 00-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01\n",
    ],
)
def test_what_is_not_in_the_standards_form_is_no_span(value: str | None) -> None:
    assert read_parent(None if value is None else value.encode()) is None


def incoming(parent: str | None = None) -> Incoming:
    headers = [] if parent is None else [(b"traceparent", parent.encode())]
    return read_head(b"POST", b"/v1/chat/completions", headers)


@pytest.mark.parametrize(
    ("sample", "parent", "is_traced"),
    [
        (0.0, None, False),
        (1.0, None, True),
        (0.0, f"00-{TRACE}-{SPAN}-01", True),
        (1.0, f"00-{TRACE}-{SPAN}-00", False),
        (1.0, "nonsense", True),
        (0.0, "nonsense", False),
    ],
)
def test_the_client_decides_and_else_the_share(
    sample: float, parent: str | None, is_traced: bool
) -> None:
    tracer = Spans(Traces("http://127.0.0.1:9", sample))
    trace = tracer.begin(incoming(parent))
    assert (trace is not None) == is_traced
    if trace is not None:
        found = read_parent(trace.header)
        assert found is not None
        assert found.is_sampled
        assert trace.trace_id == found.trace_id.decode()
        if parent and parent.startswith("00"):
            assert trace.trace_id == TRACE
            assert found.span_id != SPAN.encode()
    tracer.close()


def test_a_share_is_a_share() -> None:
    tracer = Spans(Traces("http://127.0.0.1:9", 0.1))
    count = sum(tracer.begin(incoming()) is not None for _ in range(10_000))
    assert 800 < count < 1200  # 6 standard deviations
    tracer.close()


class Slow:
    """An exporter that waits."""

    def __init__(self, result: SpanExportResult = SpanExportResult.SUCCESS) -> None:
        self.go = Event()
        self.result = result

    def export(self, batch: Any) -> SpanExportResult:
        self.go.wait(10)
        return self.result

    def shutdown(self) -> None:
        pass


def test_what_cannot_be_sent_in_time_is_dropped_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spans, "MOST_WAITING", 300)
    inner: Any = Slow()
    exporter = _Exporter(inner)
    processor = _Processor(exporter)
    span = ReadableSpan("x", SpanContext(1, 2, False, TraceFlags(1)))
    for _ in range(1000):
        processor.on_end(span)
    assert 1000 - processor.dropped - exporter.taken == 300
    inner.go.set()
    assert processor.force_flush()
    assert exporter.sent == 1000 - processor.dropped
    processor.shutdown()  # type: ignore[no-untyped-call]  # the SDK's


def test_a_failure_is_told_once_until_it_goes_well_again() -> None:
    inner: Any = Slow(SpanExportResult.FAILURE)
    inner.go.set()
    exporter = _Exporter(inner)
    record = logging.makeLogRecord({})
    assert exporter.is_news(record)
    exporter.export([])
    assert not exporter.is_news(record)
    inner.result = SpanExportResult.SUCCESS
    exporter.export([])
    assert exporter.is_news(record)


def test_without_the_packages_the_command_that_installs_them_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "orchestrator.spans")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(OrchestratorError, match=r"pip install 'draftgate\[traces\]'"):
        tracer_of(NOWHERE)
    assert tracer_of(None) is None


def test_headers_for_the_collector_come_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(OrchestratorError, match="the environment has no TEST_HEADERS"):
        Spans(Traces("http://127.0.0.1:9", 0.0, "TEST_HEADERS"))
    monkeypatch.setenv("TEST_HEADERS", "x-key=a%20b, other=1")
    assert spans._headers("TEST_HEADERS") == {"x-key": "a b", "other": "1"}
