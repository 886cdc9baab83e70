"""What browsers are told: the page's own origin or nothing, and preflights."""

from typing import Any

import pytest
from pydantic import ValidationError

from orchestrator.answer import AnswerHeads
from orchestrator.cors import Cors, CorsEntry
from orchestrator.message import Incoming, own_answer, read_head
from orchestrator.refusal import Refusal

APP, OTHER = "https://app.example", "http://localhost:3000"
EXPOSED = (
    "x-draftgate-type, x-draftgate-profile, x-draftgate-worker, x-draftgate-reason, "
    "x-request-id, retry-after"
)


def cors(*origins: str, **fields: Any) -> Cors:
    return Cors(CorsEntry(origins=origins or (APP, OTHER), **fields))


def request(**headers: str) -> Incoming:
    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return read_head(b"OPTIONS", b"/v1/chat/completions", named)


def preflight(origin: str, **headers: str) -> Incoming:
    return request(origin=origin, access_control_request_method="POST", **headers)


def lines(data: bytes | Refusal) -> dict[str, str]:
    assert isinstance(data, bytes)
    assert data.endswith(b"\r\n")
    pairs = [
        (line.split(": ", 1)[0], line.split(": ", 1)[1])
        for line in data.decode().split("\r\n")[:-1]
    ]
    assert len({name for name, _ in pairs}) == len(pairs)
    return dict(pairs)


@pytest.mark.parametrize("origin", [APP, OTHER])
def test_an_allowed_page_gets_its_own_origin(origin: str) -> None:
    assert lines(cors().headers(request(origin=origin))) == {
        "access-control-allow-origin": origin,
        "access-control-expose-headers": EXPOSED,
        "vary": "origin",
    }


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "https://app.example.evil", "HTTPS://APP.EXAMPLE", "null", ""],
)
def test_another_page_gets_nothing_but_a_word_to_caches(origin: str) -> None:
    assert lines(cors().headers(request(origin=origin))) == {"vary": "origin"}
    assert lines(cors().headers(request())) == {"vary": "origin"}


def test_every_page_is_one_answer() -> None:
    found = lines(cors("*").headers(request(origin="https://evil.example")))
    assert found == {
        "access-control-allow-origin": "*",
        "access-control-expose-headers": EXPOSED,
    }


def test_credentials_are_allowed_to_named_pages_only() -> None:
    found = lines(cors(APP, credentials=True).headers(request(origin=APP)))
    assert found["access-control-allow-credentials"] == "true"
    with pytest.raises(ValidationError, match="credentials are not for every page"):
        CorsEntry(origins=("*",), credentials=True)


@pytest.mark.parametrize(
    ("rule", "asked", "told"),
    [
        (("*",), "authorization, x-stainless-os", "authorization, x-stainless-os"),
        (("Authorization", "x-a"), "authorization,x-b", "authorization, x-a"),
        (("*",), "", None),
        (("*",), "a b", None),
        (("*",), "a,,b", None),
    ],
)
def test_preflights_name_the_headers(rule: tuple[str, ...], asked: str, told: str | None) -> None:
    incoming = preflight(APP, access_control_request_headers=asked)
    found = lines(cors(headers=rule, max_age_s=5).preflight(incoming))
    assert found.pop("access-control-allow-headers", None) == told
    assert found == {
        "access-control-allow-methods": "GET, HEAD, POST",
        "access-control-max-age": "5",
    }


def test_a_preflight_of_another_page_is_refused_by_name() -> None:
    found = cors().preflight(preflight("https://evil.example"))
    assert isinstance(found, Refusal)
    assert (found.status, found.code) == (403, "origin_not_allowed")
    assert "https://evil.example" in found.message
    assert isinstance(cors("*").preflight(preflight("https://evil.example")), bytes)


def test_options_of_others_are_no_preflights() -> None:
    assert cors().is_preflight(preflight(APP))
    assert not cors().is_preflight(request(origin=APP))
    assert not cors().is_preflight(request(access_control_request_method="POST"))


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"origins": ()}, "at least 1 item"),
        ({"origins": ("https://app.example/",)}, "as browsers do"),
        ({"origins": ("app.example",)}, "as browsers do"),
        ({"origins": ("https://App.example",)}, "as browsers do"),
        ({"origins": ("https://*.example",)}, "as browsers do"),
        ({"origins": ("null",)}, "as browsers do"),
        ({"origins": ("https://app.example:443",)}, "leave out the usual port"),
        ({"origins": (APP,), "headers": ("a b",)}, "no name of a header"),
        ({"origins": (APP,), "headers": ("a\r\nb",)}, "no name of a header"),
        ({"origins": (APP,), "max_age_s": -1}, "greater than or equal"),
    ],
)
def test_mistakes_in_the_fleet_are_told(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        CorsEntry(**fields)


@pytest.mark.parametrize(
    "origin", ["http://localhost:3000", "http://[::1]:8080", "tauri://localhost", "http://x:443"]
)
def test_origins_as_browsers_write_them(origin: str) -> None:
    assert CorsEntry(origins=(origin,)).origins == (origin,)


HEAD = (
    b"HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: *\r\nvary: accept\r\n"
    b"access-control-allow-credentials: true\r\ncontent-length: 2\r\n\r\n"
)


def test_what_engines_say_to_browsers_is_dropped_where_the_router_says_it() -> None:
    for _ in range(2):  # read, and remembered
        assert b"ccess-" not in AnswerHeads(True).read(HEAD).forward(b"", True, True)
        assert AnswerHeads().read(HEAD).forward(b"", True, True) == HEAD


def test_an_answer_without_content_has_no_length() -> None:
    assert own_answer(204, b"", b"a: b\r\n", True) == b"HTTP/1.1 204 No Content\r\na: b\r\n\r\n"
