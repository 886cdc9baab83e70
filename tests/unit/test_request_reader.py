"""A head that was read before reads the same again, however its bytes come."""

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.message import Incoming
from orchestrator.reader import Heads, RequestReader
from orchestrator.refusal import Refusal

LIMIT = 1000
HEADS = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n",
    b"POST /v1/completions?a=1 HTTP/1.1\r\ncontent-length: %d\r\nhost: x\r\nuser-agent: u\r\n\r\n",
    b"POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\nconnection: close\r\n\r\n",
    b"POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\nexpect: 100-continue\r\n\r\n",
    b"POST /a HTTP/1.0\r\ncontent-length: %d\r\nconnection: keep-alive\r\n\r\n",
    b"POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\ncontent-length: 3\r\n\r\n",
    b"POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\nx-a: b\r\nconnection: x-a\r\n\r\n",
)


class NoHeads(Heads):
    """Remembers nothing: llhttp reads everything."""

    def find(self, data: bytes) -> Incoming | None:
        return None


def feed(reader: RequestReader, data: bytes) -> list[Any]:
    """What the bytes come to, read as a connection reads them."""
    whole = reader.whole(data)
    items: list[Incoming | Refusal] = [] if whole is None else [whole]
    if whole is None:
        reader.feed(data)
    while reader.ready:
        items.append(reader.take())
    found: list[Any] = []
    for item in items:
        if isinstance(item, Incoming):
            fields = (item.method, item.target, item.lines, item.credentials, item.body)
            found.append((*fields, item.keep_alive, item.is_http10, dict(item.named)))
        else:
            found.append((item.status, item.message))
    return found


def request(head: int, size: int) -> bytes:
    return HEADS[head] % size + b"b" * size


REQUESTS = st.lists(
    st.tuples(st.integers(0, len(HEADS) - 1), st.sampled_from((0, 1, 3, 30, LIMIT, LIMIT + 1))),
    min_size=1,
    max_size=6,
)


@given(REQUESTS, st.data())
def test_with_and_without_memory(requests: Sequence[tuple[int, int]], data: st.DataObject) -> None:
    """Two connections in turn, whole requests and pieces of them; `known` is shared by both."""
    heads = Heads()
    stream = [request(*r) for r in requests]
    if data.draw(st.booleans()):
        joined = b"".join(stream)
        cuts = data.draw(st.lists(st.integers(0, len(joined)), max_size=4).map(sorted))
        stream = [joined[a:b] for a, b in zip([0, *cuts], [*cuts, None], strict=True)]
    for _ in range(2):
        known, plain = RequestReader(LIMIT, heads), RequestReader(LIMIT, NoHeads())
        for piece in stream:
            assert feed(known, piece) == feed(plain, piece)
            assert known.phase == plain.phase
            assert known.backlog == plain.backlog


def test_a_head_that_begins_within_another_request_is_not_looked_up() -> None:
    heads = Heads()
    whole = request(0, 3)
    for _ in range(2):
        reader = RequestReader(LIMIT, heads)
        assert feed(reader, whole)[0][4] == b"bbb"
    assert feed(reader, b"G") == []
    assert feed(reader, whole)[0][0] == 400


def test_bodies_of_known_heads_are_bounded_too() -> None:
    reader = RequestReader(LIMIT)
    assert feed(reader, request(0, 3))[0][0] == "POST"
    assert feed(reader, request(0, LIMIT + 1))[0][0] == 413


def test_no_more_than_so_many_are_remembered() -> None:
    heads = Heads()
    for number in range(1100):
        reader = RequestReader(LIMIT, heads)
        reader.feed(b"POST /%d HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\nb" % number)
    assert heads.find(b"POST /0 HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\nb") is None
    assert heads.find(b"POST /1099 HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\nb") is not None
