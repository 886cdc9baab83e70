"""What became of a request whose connection was lost: only one that never arrived is sent again."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from orchestrator.answer import AnswerHead, AnswerHeads
from orchestrator.turn import Turn
from orchestrator.upstream import Connections, Failure, Receiver
from tests.router_harness import run

REQUEST: Final = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n"
ANSWER: Final = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
# How an engine leaves: before a second request, or after it read that.
End = Callable[[socket.socket], None]


class Waiting(Receiver):
    """How a request ended: None is whole."""

    def __init__(self) -> None:
        self.end: asyncio.Future[Failure | None] = asyncio.get_running_loop().create_future()

    def head_received(self, head: AnswerHead, data: bytes) -> None:
        pass

    def data_received(self, data: bytes) -> None:
        pass

    def completed(self) -> None:
        self.end.set_result(None)

    def failed(self, failure: Failure) -> None:
        self.end.set_result(failure)


def read_whole(sock: socket.socket) -> None:
    got = b""
    while len(got) < len(REQUEST) + 2:
        got += sock.recv(100)


class Engine:
    """Answers one request, where it is asked to, and then leaves in one of the ways."""

    def __init__(self, end: End, answers: bool) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        self.may_end, self.has_ended = threading.Event(), threading.Event()
        self._end, self._answers = end, answers
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        sock, _ = self.listener.accept()
        with sock:
            if self._answers:
                read_whole(sock)
                sock.sendall(ANSWER)
            self.may_end.wait(10)
            self._end(sock)
        self.has_ended.set()

    def join(self) -> None:
        self.may_end.set()
        self._thread.join()
        self.listener.close()


@contextmanager
def engine(end: End, answers: bool = True) -> Iterator[Engine]:
    made = Engine(end, answers)
    try:
        yield made
    finally:
        made.join()


@pytest.mark.parametrize(
    ("end", "kind"),
    [(lambda sock: None, "stale"), (read_whole, "died")],
    ids=["closed before", "read"],
)
def test_on_a_kept_connection(end: End, kind: str) -> None:
    async def scenario() -> None:
        with engine(end) as made:
            turn = Turn(asyncio.get_running_loop())
            connections = Connections("127.0.0.1", made.port, turn, AnswerHeads())
            connection = await connections.connect(5)
            first = Waiting()
            connection.send(first, REQUEST, b"{}")
            assert await first.end is None
            kept = connections.take()
            assert kept is connection
            made.may_end.set()
            if kind == "stale":  # closed, and this loop has no chance to notice
                assert made.has_ended.wait(5)
            second = Waiting()
            kept.send(second, REQUEST, b"{}")
            failure = await second.end
            assert failure is not None
            assert failure.kind == kind

    run(scenario)


def test_on_a_new_connection_that_was_read_and_closed() -> None:

    async def scenario() -> None:
        with engine(read_whole, answers=False) as made:
            turn = Turn(asyncio.get_running_loop())
            connections = Connections("127.0.0.1", made.port, turn, AnswerHeads())
            connection = await connections.connect(5)
            made.may_end.set()
            waiting = Waiting()
            connection.send(waiting, REQUEST, b"{}")
            failure = await waiting.end
            assert failure == Failure("died", "closed the connection without an answer")

    run(scenario)


def test_on_a_new_connection_that_was_closed_before_it_came() -> None:
    """Nobody has seen it: another worker may have it."""

    async def scenario() -> None:
        with engine(lambda sock: None, answers=False) as made:
            turn = Turn(asyncio.get_running_loop())
            connections = Connections("127.0.0.1", made.port, turn, AnswerHeads())
            connection = await connections.connect(5)
            made.may_end.set()
            assert made.has_ended.wait(5)
            waiting = Waiting()
            connection.send(waiting, REQUEST, b"{}")
            failure = await waiting.end
            assert failure is not None
            assert failure.kind == "unreachable"

    run(scenario)
