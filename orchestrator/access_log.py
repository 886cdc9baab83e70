"""Access log: one JSON object a request, without prompt text unless the fleet asks for it."""

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from orchestrator.line_file import STDERR, LineFile
from orchestrator.message import Incoming
from orchestrator.pick import Choice
from orchestrator.usage import Usage

if TYPE_CHECKING:  # which calls us
    from orchestrator.dispatch import Order, Outcome

OFF = "off"
PROMPT_BYTES = 16 * 1024
_MOST_WITH_PROMPTS = 4096  # lines that may wait
_NO_USAGE = Usage()


class Line(msgspec.Struct, omit_defaults=True, gc=False):
    """One request. What is not known is left out."""

    time: str
    client: str | None = None
    client_port: int | None = None
    request_id: str | None = None
    trace_id: str | None = None
    key: str | None = None
    method: str | None = None
    path: str | None = None
    model: str | None = None
    type: str | None = None
    type_reason: str | None = None
    profile: str | None = None
    worker: str | None = None
    reason: str | None = None
    status: int | None = None
    end: str | None = None
    ms: float | None = None
    first_byte_ms: float | None = None
    bytes_in: int | None = None
    bytes_out: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    retries: int | None = None
    waited_ms: float | None = None
    body: str | None = None


class AccessLog:
    """Makes the lines; `lines` is shared by those that follow each other when a fleet changes."""

    def __init__(self, lines: LineFile[Line], has_prompts: bool = False) -> None:
        self.lines = lines
        self._has_prompts = has_prompts
        self._put = lines.put
        self._ms = 0
        self._time = ""

    def write(
        self,
        incoming: Incoming | None,
        order: "Order | None",
        choice: Choice | None,
        end: "Outcome",
    ) -> None:
        """Adds the line of a request that ended now."""
        if incoming is None or order is None or choice is None:
            self._put(self._short_of(incoming, order, end))
            return
        named, upstream = incoming.named, choice.upstream
        client, port = end.peer
        usage = end.usage or _NO_USAGE
        first_s = end.first_byte_s
        self._put(
            Line(  # by position: names would cost half a microsecond
                self._now(),
                client,
                port,
                end.request_id.decode("latin-1") or None,  # none before it is sent
                _trace_id(order, named) if order.trace or b"traceparent" in named else None,
                end.key,
                incoming.method,
                incoming.path,
                order.facts.model,
                order.type,
                order.type_reason,
                upstream.profile,
                upstream.name,
                choice.reason,
                end.status,
                end.end,
                int(end.seconds * 1e6) / 1000,
                None if first_s is None else int(first_s * 1e6) / 1000,
                len(incoming.body),
                end.sent,
                usage.prompt,
                usage.completion,
                usage.drafted,
                usage.accepted,
                end.retries,
                None if end.waited_s is None else int(end.waited_s * 1e6) / 1000,
                self._body(incoming) if self._has_prompts else None,
            )
        )

    def _short_of(self, incoming: Incoming | None, order: "Order | None", end: "Outcome") -> Line:
        """Of a request that no worker saw."""
        line = Line(self._now(), *end.peer)
        line.status, line.end, line.bytes_out, line.retries = end.status, end.end, end.sent, 0
        line.ms = int(end.seconds * 1e6) / 1000
        line.key = end.key
        if end.waited_s is not None:
            line.waited_ms = int(end.waited_s * 1e6) / 1000
        if incoming is not None:
            line.method, line.path = incoming.method, incoming.path
            line.bytes_in = len(incoming.body)
            line.request_id = incoming.header(b"x-request-id")
            trace = incoming.header(b"traceparent")
            line.trace_id = order.trace.trace_id if order and order.trace else trace and trace[3:35]
            line.body = self._body(incoming) if self._has_prompts else None
        if order is not None:
            line.model, line.type = order.facts.model, order.type
            line.type_reason = order.type_reason
        return line

    def _body(self, incoming: Incoming) -> str | None:
        return incoming.body[:PROMPT_BYTES].decode("utf-8", "replace") or None

    def _now(self) -> str:
        ms = int(time.time() * 1000)
        if ms != self._ms:
            seconds, rest = divmod(ms, 1000)
            day = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
            self._ms, self._time = ms, f"{day}.{rest:03d}Z"
        return self._time


class LostLines(Collector):
    """The metric of lines that could not be written."""

    def __init__(self, lost: int) -> None:
        self._lost = lost

    def collect(self) -> Iterable[Metric]:
        title = "Lines of the access log that could not be written."
        yield CounterMetricFamily("draftgate_access_log_lost", title, self._lost)


def open_lines(target: str | None, has_prompts: bool = False) -> LineFile[Line] | None:
    """The file of an access log: JSON lines; short text on a terminal. None without a target.

    Raises OrchestratorError when it cannot be opened.
    """
    if target is None:
        return None
    is_terminal = target == STDERR and sys.stderr.isatty()
    render = short_lines if is_terminal else json_lines
    return LineFile(target, render, _MOST_WITH_PROMPTS) if has_prompts else LineFile(target, render)


def _trace_id(order: "Order", named: Mapping[bytes, bytes]) -> str:
    return order.trace.trace_id if order.trace else named[b"traceparent"][3:35].decode("latin-1")


def json_lines(lines: Sequence[Line]) -> bytes:
    """JSON objects, a line each."""
    return msgspec.json.Encoder().encode_lines(lines)


def short_lines(lines: Sequence[Line]) -> bytes:
    """For eyes: what happened, who answered and why. ASCII: a path is a client's text."""
    return "".join(map(_short, lines)).encode("ascii", "backslashreplace")


def _short(line: Line) -> str:
    asked = f"{line.method or '-'} {line.path or '-'}"
    answered = f"{line.type or '-'} {line.worker or '-'} {line.ms:.1f} ms"
    end = "" if line.end == "whole" else f" [{line.end}]"
    why = f": {line.reason}" if line.reason else ""
    return f"{line.time[11:23]} {line.status} {asked} {answered}{end}{why}\n"
