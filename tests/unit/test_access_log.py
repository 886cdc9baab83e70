"""A request's line: what is in it, what is left out, and what never is in it."""

import json
import re
from typing import Any

import msgspec
import pytest

from orchestrator.access_log import (
    PROMPT_BYTES,
    AccessLog,
    Line,
    json_lines,
    open_lines,
    short_lines,
)
from orchestrator.dispatch import Order, Outcome
from orchestrator.feature import read_features
from orchestrator.line_file import LineFile
from orchestrator.message import Incoming, read_head
from orchestrator.pick import Choice, Facts
from orchestrator.pool import Pool, Upstream
from orchestrator.usage import Usage

EDIT = Upstream("edit-0", "code-edit", "small", "e", "h", 1, False, {}, "/health", None, None)
SECRETS = (b"sk-secret", b"please fix", b"secret-query")


class Kept(LineFile[Line]):
    """Keeps lines where they can be looked at."""

    def __init__(self) -> None:
        self.kept: list[Line] = []

    def put(self, entry: Line) -> None:
        self.kept.append(entry)


NOTHING = read_features(b"{}")


def incoming(body: bytes = b'{"prompt": "please fix"}', *headers: tuple[bytes, bytes]) -> Incoming:
    target = b"/v1/completions?key=secret-query"
    found = read_head(b"POST", target, [(b"authorization", b"Bearer sk-secret"), *headers])
    found.body = body
    return found


def order(request: Incoming) -> Order:
    return Order(request, Facts("code_edit", "small"), "types[0]: last_user matches", b"", NOTHING)


def outcome(**changes: Any) -> Outcome:
    whole = Outcome(200, 0.4127, 9120, "whole", ("127.0.0.1", 50123), b"dg-1", 1)
    for name, value in changes.items():
        setattr(whole, name, value)
    return whole


def written(
    request: Incoming | None, *, has_prompts: bool = False, is_picked: bool = True, **changes: Any
) -> Any:
    lines = Kept()
    choice = Choice(EDIT, Pool([EDIT]), "route code_edit[0]", 0, 2, "preferred")
    is_ordered = request is not None and is_picked
    AccessLog(lines, has_prompts).write(
        request,
        order(request) if request is not None and is_ordered else None,
        choice if is_ordered else None,
        outcome(**changes),
    )
    return json.loads(json_lines(lines.kept))


def test_everything_that_is_known_is_in_it() -> None:
    trace = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    found = written(
        incoming(b"{}", (b"traceparent", trace)),
        first_byte_s=0.0412,
        usage=Usage(12, 34, 56, 40),
        key="team-a",
    )
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d\d\dZ", found.pop("time"))
    assert found == {
        "client": "127.0.0.1",
        "client_port": 50123,
        "request_id": "dg-1",
        "trace_id": "0af7651916cd43dd8448eb211c80319c",
        "key": "team-a",
        "method": "POST",
        "path": "/v1/completions",
        "model": "small",
        "type": "code_edit",
        "type_reason": "types[0]: last_user matches",
        "profile": "code-edit",
        "worker": "edit-0",
        "reason": "route code_edit[0]: least in flight (0 of 2)",
        "status": 200,
        "end": "whole",
        "ms": 412.7,
        "first_byte_ms": 41.2,
        "bytes_in": 2,
        "bytes_out": 9120,
        "prompt_tokens": 12,
        "completion_tokens": 34,
        "drafted": 56,
        "accepted": 40,
        "retries": 1,
    }


def test_what_is_not_known_is_left_out() -> None:
    found = written(incoming(b"{}"))
    assert not {"first_byte_ms", "prompt_tokens", "drafted", "key", "trace_id", "body"} & set(found)


def test_a_request_that_no_worker_saw_has_what_there_is() -> None:
    found = written(incoming(b"{}", (b"x-request-id", b"mine")), is_picked=False, status=404)
    assert set(found) == {
        *("time", "client", "client_port", "request_id", "method", "path"),
        *("status", "end", "ms", "bytes_in", "bytes_out", "retries"),
    }
    assert found["request_id"] == "mine"


def test_what_was_no_request_has_a_line_too() -> None:
    found = written(None, status=400)
    assert found["status"] == 400
    assert "path" not in found


@pytest.mark.parametrize("is_picked", [True, False])
def test_neither_prompts_nor_keys_nor_queries_are_written(is_picked: bool) -> None:
    text = json.dumps(written(incoming(), is_picked=is_picked)).encode()
    assert [secret for secret in SECRETS if secret in text] == []


@pytest.mark.parametrize("is_picked", [True, False])
def test_prompts_are_written_up_to_a_bound_where_that_is_asked_for(is_picked: bool) -> None:
    found = written(incoming(b'{"prompt": "\xff"}'), has_prompts=True, is_picked=is_picked)
    assert found["body"] == '{"prompt": "�"}'
    found = written(incoming(b"x" * 2 * PROMPT_BYTES), has_prompts=True, is_picked=is_picked)
    assert found["body"] == "x" * PROMPT_BYTES
    assert found["bytes_in"] == 2 * PROMPT_BYTES


def test_a_line_is_one_line_whatever_a_client_writes() -> None:
    odd = "a\r\nb\x1b\x00\u2028\ud7ff"
    text = json_lines([Line("t", path=odd), Line("t", body=odd)])
    assert text.count(b"\n") == 2
    assert text.endswith(b"\n")
    assert [json.loads(line) for line in text.splitlines()] == [
        {"time": "t", "path": odd},
        {"time": "t", "body": odd},
    ]


def test_the_time_is_told_to_the_millisecond_in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    log = AccessLog(Kept())
    seen = []
    for now in (1_796_000_000.0, 1_796_000_000.0004, 1_796_000_000.9996, 1_796_000_001.05):
        monkeypatch.setattr("time.time", lambda now=now: now)
        seen.append(log._now())
    assert seen == [
        "2026-11-30T00:53:20.000Z",
        "2026-11-30T00:53:20.000Z",
        "2026-11-30T00:53:20.999Z",
        "2026-11-30T00:53:21.050Z",
    ]


def test_the_short_form_is_for_eyes_and_safe_for_them() -> None:
    line = Line("2026-12-01T04:20:54.123Z", method="POST", path="/v1/\x9bx", status=200, ms=412.71)
    line.type, line.worker, line.reason, line.end = "chat", "plain-0", "refuge", "whole"
    cut = msgspec.structs.replace(line, end="died", reason=None)
    assert short_lines([line, cut]).decode() == (
        "04:20:54.123 200 POST /v1/\\x9bx chat plain-0 412.7 ms: refuge\n"
        "04:20:54.123 200 POST /v1/\\x9bx chat plain-0 412.7 ms [died]\n"
    )


def test_without_a_target_there_is_no_log() -> None:
    assert open_lines(None) is None
