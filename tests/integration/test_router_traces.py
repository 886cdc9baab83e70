"""Traces: spans as a collector gets them, and the context that engines get."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from orchestrator.trace import Traces
from tests.router_harness import (
    CHAT,
    NO_CHECKS,
    FakeEngine,
    ask,
    call,
    config,
    engine,
    one_plain,
    run,
    running,
    wire,
    worker,
)

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED, UNSAMPLED = f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-00"


@dataclass
class Collector:
    """What came to it: bodies as OTLP/HTTP has them, and the headers of each."""

    port: int = 0
    requests: list[ExportTraceServiceRequest] = field(default_factory=list)
    heads: list[bytes] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                size = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
                body = await reader.readexactly(int(size))
                self.heads.append(head)
                self.requests.append(ExportTraceServiceRequest.FromString(body))
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def spans(self) -> list[Span]:
        return [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    async def all(self, count: int) -> list[Span]:
        while len(self.spans()) < count:  # noqa: ASYNC110  its thread tells nobody
            await asyncio.sleep(0.01)
        return self.spans()


@asynccontextmanager
async def collector() -> AsyncIterator[Collector]:
    found = Collector()
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0)
    async with server:
        found.port = server.sockets[0].getsockname()[1]
        yield found


def traces(seen: Collector, sample: float = 1.0, **changes: Any) -> Traces:
    return Traces(f"http://127.0.0.1:{seen.port}", sample, **changes)


def attributes(span: Span) -> dict[str, Any]:
    def value_of(value: Any) -> Any:
        return getattr(value, value.WhichOneof("value"))

    return {pair.key: value_of(pair.value) for pair in span.attributes}


async def header_of(fake: FakeEngine) -> str | None:
    log = await fake.log(requests=1)
    found: str | None = log["requests"][-1]["headers"].get("traceparent")
    return found


@pytest.mark.parametrize("is_stream", [True, False])
def test_a_request_is_a_span_between_the_clients_and_the_engines(is_stream: bool) -> None:
    async def scenario() -> None:
        async with (
            collector() as seen,
            one_plain(traces=traces(seen, 0.0)) as (fake, router),
            wire(router.port) as client,
        ):
            client.post(CHAT, ask("hello", stream=is_stream), traceparent=SAMPLED)
            await client.reply()
            [span] = await seen.all(1)
            assert span.trace_id.hex() == TRACE
            assert span.parent_span_id.hex() == SPAN
            assert await header_of(fake) == f"00-{TRACE}-{span.span_id.hex()}-01"
            assert (span.name, span.kind) == (f"POST {CHAT}", Span.SPAN_KIND_SERVER)
            assert span.status.code == Status.STATUS_CODE_UNSET
            found = attributes(span)
            wanted = {
                "http.request.method": "POST",
                "http.route": CHAT,
                "http.response.status_code": 200,
                "client.address": "127.0.0.1",
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": "fake",
                "gen_ai.request.model": "small",
                "draftgate.type": "chat",
                "draftgate.profile": "plain",
                "draftgate.worker": "plain-0",
                "draftgate.end": "whole",
                "draftgate.retries": 0,
            }
            assert wanted.items() <= found.items()
            assert found["draftgate.reason"].startswith("route chat[0]")
            if is_stream:
                assert found["gen_ai.request.stream"] is True
                assert found["gen_ai.response.time_to_first_chunk"] > 0
            else:
                assert found["gen_ai.usage.output_tokens"] == 8
            [event] = span.events
            assert event.name == "first_byte"
            assert span.start_time_unix_nano < event.time_unix_nano <= span.end_time_unix_nano
            assert "hello" not in str(span)

    run(scenario)


def test_without_a_clients_span_a_trace_begins_here() -> None:
    async def scenario() -> None:
        async with collector() as seen, one_plain(traces=traces(seen)) as (fake, router):
            await call(router.port, CHAT, ask("hello"))
            [span] = await seen.all(1)
            assert span.parent_span_id == b""
            assert await header_of(fake) == f"00-{span.trace_id.hex()}-{span.span_id.hex()}-01"
            resource = seen.requests[0].resource_spans[0].resource
            names = {pair.key: pair.value.string_value for pair in resource.attributes}
            assert names["service.name"] == "draftgate"

    run(scenario)


@pytest.mark.parametrize("sent", [UNSAMPLED, "nonsense", None])
def test_what_is_not_traced_passes_through_untouched(sent: str | None) -> None:
    async def scenario() -> None:
        async with collector() as seen, one_plain(traces=traces(seen, 0.0)) as (fake, router):
            headers = {"traceparent": sent} if sent else {}
            await call(router.port, CHAT, ask("hello"), **headers)
            assert await header_of(fake) == sent
            await call(router.port, CHAT, ask("hello"), traceparent=SAMPLED)
            assert len(await seen.all(1)) == 1

    run(scenario)


def test_requests_that_fail_are_errors_and_say_how() -> None:
    async def scenario() -> None:
        async with collector() as seen, engine("--fail", "die_mid_stream") as fake:
            upstream = worker("plain-0", "plain", fake)
            settings = config(upstream, timeouts=NO_CHECKS, traces=traces(seen))
            async with running(settings) as router:
                await call(router.port, CHAT, ask(stream=True))
                await call(router.port, CHAT, ask())
                await call(router.port, CHAT, ask(model="unknown"))
                died, unserved, unknown = await seen.all(3)
        assert attributes(died)["error.type"] == "died"
        assert attributes(died)["http.response.status_code"] == 200
        assert died.status.code == Status.STATUS_CODE_ERROR
        assert attributes(unserved)["error.type"] == "503"
        assert unserved.status.code == Status.STATUS_CODE_ERROR
        assert attributes(unknown)["http.response.status_code"] == 404
        assert unknown.status.code == Status.STATUS_CODE_UNSET
        assert "error.type" not in attributes(unknown)

    run(scenario)


def test_a_client_that_leaves_is_no_error_of_ours() -> None:
    async def scenario() -> None:
        async with (
            collector() as seen,
            one_plain("--hold", traces=traces(seen)) as (fake, router),
        ):
            async with wire(router.port) as client:
                client.post(CHAT, ask(stream=True))
                await fake.log(requests=1)
            [span] = await seen.all(1)
            assert attributes(span)["error.type"] == "client_gone"
            assert span.status.code == Status.STATUS_CODE_UNSET

    run(scenario)


def test_spans_are_sent_before_the_router_ends_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TEST_HEADERS", "x-key=secret")

    async def scenario() -> None:
        async with collector() as seen:
            asked = traces(seen, headers_env="TEST_HEADERS")
            async with one_plain(traces=asked, admin=("127.0.0.1", 0)) as (_, router):
                assert router.admin_port is not None
                for _ in range(300):  # more than one batch
                    await call(router.port, CHAT, ask("hello"))
                await seen.all(256)
                text = (await call(router.admin_port, "/metrics")).raw.decode()
                assert 'draftgate_spans_total{result="failed"} 0.0' in text
                assert 'draftgate_spans_total{result="dropped"} 0.0' in text
                serving = router
            assert len(await seen.all(300)) == 300
            assert {span.span_id for span in seen.spans()}.__len__() == 300
            assert all(b"x-key: secret" in head for head in seen.heads)
            assert serving.dispatch.tracer is not None
            assert serving.dispatch.tracer.counts() == {"sent": 300, "failed": 0, "dropped": 0}

    run(scenario)


def test_a_collector_that_is_gone_costs_spans_and_nothing_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        nowhere = Collector(port=9)
        async with one_plain(traces=traces(nowhere)) as (_, router):
            for _ in range(3):
                assert (await call(router.port, CHAT, ask("hello"))).status == 200
            serving = router
        assert serving.dispatch.tracer is not None
        assert serving.dispatch.tracer.counts()["sent"] == 0

    run(scenario)
