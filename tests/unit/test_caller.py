"""Keys: the file, who is found by a key, and what limits leave."""

import time
from pathlib import Path
from typing import Any

import pytest

from orchestrator.caller import Booking, Caller, Callers
from orchestrator.keys import KeyEntry, digest, new_key, read_keys
from orchestrator.ledger import Ledger
from orchestrator.message import Incoming, read_head
from orchestrator.refusal import Refusal
from orchestrator.usage import Usage

KEY = "dg-secret"
SHA = digest(KEY.encode())


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def asked(*headers: tuple[bytes, bytes]) -> Incoming:
    return read_head(b"POST", b"/v1/completions", [(b"host", b"x"), *headers])


def caller(**limits: Any) -> Caller:
    found = Callers([KeyEntry(name="a", sha256=SHA, **limits)]).find(
        asked((b"x-api-key", KEY.encode()))
    )
    assert isinstance(found, Caller)
    return found


def booked(one: Caller, tokens: int = 10) -> Booking:
    found = one.book(tokens)
    assert isinstance(found, Booking), found
    return found


def refused(one: Caller, tokens: int = 10) -> Refusal:
    found = one.book(tokens)
    assert isinstance(found, Refusal)
    assert found.status == 429
    return found


@pytest.mark.parametrize(
    "header",
    [
        (b"Authorization", b"Bearer dg-secret"),
        (b"authorization", b"bearer  dg-secret "),
        (b"X-Api-Key", b"dg-secret"),
    ],
)
def test_a_key_is_found_in_either_header(header: tuple[bytes, bytes]) -> None:
    found = Callers([KeyEntry(name="a", sha256=SHA)]).find(asked(header))
    assert isinstance(found, Caller)
    assert found.name == "a"


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ([], "no_api_key"),
        ([(b"authorization", b"Basic ZGctc2VjcmV0")], "no_api_key"),
        ([(b"authorization", b"Bearer dg-other")], "invalid_api_key"),
        ([(b"x-api-key", b"")], "invalid_api_key"),
    ],
)
def test_without_a_known_key_nobody_is_served(headers: list[Any], code: str) -> None:
    found = Callers([KeyEntry(name="a", sha256=SHA)]).find(asked(*headers))
    assert isinstance(found, Refusal)
    assert (found.status, found.code) == (401, code)
    assert "dg-" not in found.message


def test_requests_a_minute(clock: list[float]) -> None:
    one = caller(requests_per_minute=2)
    booked(one)
    clock[0] += 30
    booked(one)
    found = refused(one)
    assert found.code == "key_requests"
    assert found.retry_after_s == 35
    clock[0] += 35
    booked(one)


def test_requests_at_once() -> None:
    one = caller(in_flight=1)
    booking = booked(one)
    assert refused(one).code == "key_in_flight"
    booking.end(200, None)
    booked(one)


def test_tokens_are_reserved_and_settled(clock: list[float]) -> None:
    one = caller(tokens_per_minute=100)
    booking = booked(one, 90)
    clock[0] += 20
    second = booked(one, 90)  # 10 are left: the last request may go beyond
    assert refused(one).code == "key_tokens"
    booking.end(200, Usage(prompt=5, completion=15))
    assert refused(one).code == "key_tokens"
    second.end(200, Usage(prompt=10, completion=10))
    assert one.use.tokens.used(clock[0]) == 40
    assert b"x-ratelimit-remaining-tokens: 60\r\n" in one.headers()
    assert b"requests" not in one.headers()


@pytest.mark.parametrize(
    ("status", "usage", "left"),
    [
        (200, None, 90),
        (499, None, 90),
        (502, None, 0),
        (400, None, 0),
        (200, Usage(1, 2), 3),
        (200, Usage(1, 200), 201),
    ],
)
def test_what_an_answer_has_taken(status: int, usage: Usage | None, left: int) -> None:
    one = caller(tokens_per_minute=1000)
    booked(one, 90).end(status, usage)
    assert one.use.tokens.used(time.monotonic()) == left


def test_a_reload_keeps_what_was_used_and_takes_new_limits() -> None:
    before = Callers([KeyEntry(name="a", sha256=SHA), KeyEntry(name="b", sha256="0" * 64)])
    [a, _] = before
    booking = booked(a)
    after = Callers([KeyEntry(name="a", sha256="1" * 64, in_flight=1)])
    after.take_over(before)
    [new] = after
    assert refused(new).code == "key_in_flight"
    booking.end(200, None)
    booked(new)


def test_processes_have_one_limit_together() -> None:
    """And one that takes over a page brings what it has."""
    ledger = Ledger.create(2)
    entry = KeyEntry(name="a", sha256=SHA, requests_per_minute=3, in_flight=2)
    processes = [Callers([entry]) for _ in range(2)]
    [first], [second] = processes
    booking = booked(first)
    for row, callers in enumerate(processes):
        assert callers.share(ledger.page(0, row)) == 3
    booked(second)
    assert refused(first).code == refused(second).code == "key_in_flight"
    booking.end(200, None)
    booked(second)
    assert refused(first).code == "key_in_flight"
    ledger.clear_row(1)  # it died
    booked(first)
    assert first.use.requests.used(time.monotonic()) == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("keys: []", "keys: "),
        ("keys: [{name: a}]", "'sha256' is missing"),
        (f"keys: [{{name: a, sha256: {SHA}, rpm: 3}}]", "rpm"),
        ("keys: [{name: a, sha256: dg-secret}]", "keys[0].sha256"),
        (f"keys: [{{name: a, sha256: {SHA}, share: 0}}]", "share"),
        (f"keys: [{{name: a, sha256: {SHA}}}, {{name: a, sha256: {'f' * 64}}}]", "is named 'a'"),
        (f"keys: [{{name: a, sha256: {SHA}}}, {{name: b, sha256: {SHA}}}]", "the key of keys[0]"),
        (f"keys: [{{name: a, sha256: {SHA}, models: [smal]}}]", "no model 'smal'"),
    ],
)
def test_every_mistake_in_a_key_file_has_its_place(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "keys.yaml"
    file.write_text(text)
    found = read_keys(tmp_path / "fleet.yaml", "keys.yaml", ["small"])
    assert not found.is_usable
    said = "\n".join(map(str, found.problems))
    assert words in said
    assert f"{file}:1:" in said


def test_new_keys_differ_and_are_known_by_their_digest() -> None:
    keys = {new_key() for _ in range(50)}
    assert len(keys) == 50
    assert all(len(key) > 40 and key.startswith("dg-") for key in keys)
    assert len(digest(b"x")) == 64
