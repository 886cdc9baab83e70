"""Request smuggling: the router reads no request where another HTTP stack reads a different one."""

import random

import pytest

from tests.http_stacks import VALID, cut, difference, ours, stream, theirs

STREAMS = 300  # for each seed; bench/fuzz_http.py goes on for as long as it is asked to
HEAD = b"POST /a HTTP/1.1\r\nhost: x\r\n"
GET = b"GET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n"


@pytest.mark.parametrize("seed", range(8))
def test_mistakes_are_read_as_h11_reads_them_or_not_at_all(seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(STREAMS):
        data = stream(dice)
        assert difference(data) is None, data


@pytest.mark.parametrize("seed", range(4))
def test_pieces_are_read_as_the_whole(seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(STREAMS):
        data = stream(dice)
        assert ours(cut(data, dice)).requests == ours([data]).requests, data


@pytest.mark.parametrize("data", VALID)
def test_what_is_valid_is_read_by_both(data: bytes) -> None:
    """Else the tests above would show nothing."""
    assert ours([data]).requests == theirs(data).requests
    assert len(ours([data]).requests) == 1


@pytest.mark.parametrize(
    "rest",
    [
        b"content-length: 0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n" + GET,
        b"transfer-encoding: chunked\r\ncontent-length: 0\r\n\r\n0\r\n\r\n" + GET,
        b"content-length: 0\r\ncontent-length: 44\r\n\r\n" + GET,
        b"content-length: 0, 44\r\n\r\n" + GET,
        b"content-length: +0\r\n\r\n" + GET,
        b"content-length: -1\r\n\r\n" + GET,
        b"content-length: 0x0\r\n\r\n" + GET,
        b"content-length: 0 0\r\n\r\n" + GET,
        b"content-length: 99999999999999999999999\r\n\r\n" + GET,
        b"content-length : 0\r\n\r\n" + GET,
        b" content-length: 0\r\n\r\n" + GET,
        b"transfer-encoding: xchunked\r\n\r\n0\r\n\r\n" + GET,
        b"transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n" + GET,
        b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + GET,
        b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n" + GET,
        b"transfer-encoding: identity\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n" + GET,
        b"transfer-encoding:\x0bchunked\r\n\r\n0\r\n\r\n" + GET,
        b"transfer-encoding: chunked\r\n\r\nzz\r\n\r\n" + GET,
        b"transfer-encoding: chunked\r\n\r\n-1\r\n\r\n" + GET,
        b"transfer-encoding: chunked\r\n\r\n0x0\r\n\r\n" + GET,
        b"transfer-encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n" + GET,
        b"transfer-encoding: chunked\r\n\r\n1\nab\n0\n\n" + GET,
        b"transfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\n" + GET,
        b"transfer-encoding: chunked\r\n\r\n0\r\ncontent-length : 44\r\n\r\n" + GET,
        b"x: a\r\n b\r\n\r\n" + GET,
        b"x: a\x00b\r\n\r\n" + GET,
        b"x: a\rb\r\n\r\n" + GET,
        b"x: a\nb: c\r\n\r\n" + GET,
        b"x\x00y: a\r\n\r\n" + GET,
        b"host: y\r\n\r\n" + GET,
        b": a\r\n\r\n" + GET,
        b"no colon\r\n\r\n" + GET,
    ],
)
def test_what_two_stacks_might_read_differently_is_refused(rest: bytes) -> None:
    """Before the request, or in its place: what stands behind it is never a request of its own."""
    found = ours([HEAD + rest])
    assert found.requests == ()
    assert found.error is not None
    assert found.error.startswith(("400 ", "413 ", "431 ", "501 "))
    assert found.is_closed
