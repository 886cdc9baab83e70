"""Line file: lines appended to a file or to standard error by a thread of their own.

Who puts a line never waits for a disk. Lines that cannot be written are counted and not kept:
memory is bounded whatever the disk does.
"""

import asyncio
import logging
import os
import select
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from queue import SimpleQueue
from threading import Thread
from typing import Generic, TypeVar

from orchestrator.errors import OrchestratorError

LOG = logging.getLogger("draftgate.router")

STDERR = "-"
FLUSH_S = 0.5
_BATCH = 1024  # lines; as many are handed over without waiting for the time
_SLICE = 64  # lines that are rendered in one go, while nothing else of Python runs
_CLOSE_S = 5.0  # a pipe that nobody reads must not keep the process

T = TypeVar("T")


class LineFile(Generic[T]):
    """`render` makes bytes of entries, a line each, in the thread.

    `put`, `reopen` and `close` belong to the event loop's thread, the rest to the writing thread.
    At most `most` entries wait. Processes may share a file: each write appends whole lines.
    """

    def __init__(
        self, target: str, render: Callable[[Sequence[T]], bytes], most: int = 65_536
    ) -> None:
        """Opens the target, a path or "-". Raises OrchestratorError when it cannot be."""
        self._target = target
        self._render = render
        self._most = most
        self._waiting: list[T] = []
        self._is_armed = False
        self._queue: SimpleQueue[list[T] | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._handed = 0
        self._done = 0
        self._dropped = 0  # by the event loop's thread
        self._unwritten = 0  # by the writing thread
        self._is_torn = False
        self._is_failing = False
        try:
            self._fd = sys.stderr.fileno() if target == STDERR else _opened(target)
        except OSError as error:
            message = f"the access log {target} cannot be opened: {error.strerror}"
            raise OrchestratorError(f"{message}; --access-log names it") from error
        self._identity = _identity(self._fd)
        self._is_pipe = stat.S_ISFIFO(os.fstat(self._fd).st_mode)

    @property
    def lost(self) -> int:
        """Lines that were lost so far."""
        return self._dropped + self._unwritten

    def put(self, entry: T) -> None:
        """Adds a line; it is written within about FLUSH_S."""
        waiting = self._waiting
        waiting.append(entry)
        if not self._is_armed:
            self._is_armed = True
            asyncio.get_running_loop().call_later(FLUSH_S, self._flush)
        if len(waiting) >= _BATCH:
            self._hand_over()

    def reopen(self) -> None:
        """Goes on in the file that has the name now, after a rotation. Checked with every flush."""
        self._hand_over()
        self._give([])

    def close(self) -> None:
        """Writes what waits; blocks, for _CLOSE_S at most."""
        self._hand_over()
        if self._thread is not None:
            self._give(None)
            self._thread.join(_CLOSE_S)
            if self._thread.is_alive():
                left = self._handed - self._done
                LOG.error("the access log %s takes no more: %d lines are lost", self._target, left)
                return
        if self._target != STDERR:
            os.close(self._fd)

    def _flush(self) -> None:
        self._is_armed = False
        self._hand_over()

    def _hand_over(self) -> None:
        lines, self._waiting = self._waiting, []
        if not lines:
            return
        if self._handed - self._done + len(lines) > self._most:
            self._dropped += len(lines)
            self._say("it does not keep up")
            return
        self._handed += len(lines)
        self._give(lines)

    def _give(self, lines: list[T] | None) -> None:
        if self._thread is None:  # made late: a process that forks must not have it before
            self._thread = Thread(target=self._run, name="access-log", daemon=True)
            self._thread.start()
        self._queue.put(lines)

    def _run(self) -> None:
        while (lines := self._queue.get()) is not None:
            self._follow()
            for start in range(0, len(lines), _SLICE):
                part = lines[start : start + _SLICE]
                try:
                    self._write(part)
                except Exception:  # the thread's edge: a bug costs lines, and not all later ones
                    self._unwritten += len(part)
                    LOG.exception("lines of the access log are lost")
            self._done += len(lines)

    def _write(self, lines: list[T]) -> None:
        data = self._render(lines)
        if self._is_torn:
            data = b"\n" + data
        written = 0
        try:
            for piece in _pieces(data) if self._is_pipe else (data,):
                written += self._write_all(piece)
        except _ShortError as error:
            written += error.written
            whole = data[:written].count(b"\n") - (self._is_torn and written > 0)
            self._is_torn = data[written - 1 : written] != b"\n" if written else self._is_torn
            self._unwritten += len(lines) - whole
            self._say(error.reason)
        else:
            self._is_torn = False
            self._recover()

    def _write_all(self, data: bytes) -> int:
        """Writes all. Raises _ShortError with what was written before it failed."""
        written = 0
        while written < len(data):
            try:
                written += os.write(self._fd, memoryview(data)[written:])
            except BlockingIOError:  # a pipe or terminal that is full
                _wait_for_room(self._fd)
            except OSError as error:
                raise _ShortError(written, error.strerror or str(error)) from error
        return written

    def _say(self, reason: str) -> None:
        """Once, until it goes well again."""
        if not self._is_failing:
            self._is_failing = True
            LOG.error("lines of the access log %s are lost: %s", self._target, reason)

    def _recover(self) -> None:
        if self._is_failing:
            self._is_failing = False
            LOG.warning("the access log %s is written again; lost: %d", self._target, self.lost)

    def _follow(self) -> None:
        """Goes on in a new file when the old one was renamed or removed."""
        if self._target == STDERR:
            return
        try:
            found = os.stat(self._target)  # noqa: PTH116  as fstat tells it
            if (found.st_dev, found.st_ino) == self._identity:
                return
        except FileNotFoundError:
            pass
        except OSError as error:
            LOG.debug("the access log %s: %s", self._target, error)
            return
        self._exchange()

    def _exchange(self) -> None:
        try:
            fresh = _opened(self._target)
        except OSError as error:  # the old file is better than none
            LOG.warning("the access log %s cannot be opened again: %s", self._target, error)
            return
        os.close(self._fd)
        self._fd, self._identity, self._is_torn = fresh, _identity(fresh), False


class _ShortError(Exception):
    def __init__(self, written: int, reason: str) -> None:
        super().__init__(reason)
        self.written = written
        self.reason = reason


def _opened(path: str) -> int:
    """Non-blocking, because opening a named pipe would otherwise wait for its reader."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK
    return os.open(path, flags, 0o640)


def _wait_for_room(fd: int) -> None:
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    poll.poll()


def _identity(fd: int) -> tuple[int, int]:
    found = os.fstat(fd)
    return found.st_dev, found.st_ino


def _pieces(data: bytes) -> Iterator[bytes]:
    """Whole lines, few enough for one write to a pipe not to be mixed with another process's."""
    start = 0
    while start < len(data):
        end = data.rfind(b"\n", start, start + select.PIPE_BUF) + 1
        if end == 0:  # one line that is longer
            end = data.find(b"\n", start) + 1
        yield data[start:end]
        start = end
