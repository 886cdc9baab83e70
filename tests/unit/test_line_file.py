"""Lines reach their file: whole, in order, after rotation, and counted where they cannot."""

import asyncio
import logging
import os
import resource
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import pytest

from orchestrator import line_file
from orchestrator.errors import OrchestratorError
from orchestrator.line_file import LineFile


def render(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(10):
            await work()

    asyncio.run(whole())


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():  # noqa: ASYNC110  the writing thread tells nobody
        await asyncio.sleep(0.001)


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def text_of(path: Path) -> str:
    return path.read_text()


def rotate(path: Path, is_created: bool = False) -> None:
    path.rename(path.with_suffix(".1"))
    if is_created:
        path.touch()


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_file, "FLUSH_S", 0.01)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "access.jsonl"


def test_lines_are_appended_in_order_and_written_by_the_clock(path: Path) -> None:
    path.write_text("before\n")

    async def work() -> None:
        lines = LineFile(str(path), render)
        lines.put("a")
        lines.put("b")
        assert text_of(path) == "before\n"
        await until(lambda: path.read_text() == "before\na\nb\n")
        lines.put("c")
        lines.close()

    run(work)
    assert path.read_text() == "before\na\nb\nc\n"


def test_many_lines_do_not_wait_for_the_clock(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_file, "FLUSH_S", 3600)
    count = line_file._BATCH * 3

    async def work() -> None:
        lines = LineFile(str(path), render)
        for number in range(count):
            lines.put(str(number))
        await until(lambda: path.read_text().endswith(f"{count - 1}\n"))
        lines.close()

    run(work)
    assert path.read_text() == render([str(number) for number in range(count)]).decode()


@pytest.mark.parametrize("is_created", [True, False])
def test_a_rotated_file_is_left_for_the_new_one(path: Path, is_created: bool) -> None:
    async def work() -> None:
        lines = LineFile(str(path), render)
        lines.put("a")
        await until(lambda: path.read_text() == "a\n")
        rotate(path, is_created)
        lines.reopen()
        await until(path.exists)
        lines.put("b")
        lines.close()

    run(work)
    assert path.with_suffix(".1").read_text() == "a\n"
    assert path.read_text() == "b\n"


def test_rotation_needs_no_signal(path: Path) -> None:
    async def work() -> None:
        lines = LineFile(str(path), render)
        rotate(path)
        lines.put("b")
        lines.close()

    run(work)
    assert path.read_text() == "b\n"


def test_where_the_new_file_cannot_be_opened_the_old_one_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder, moved = tmp_path / "log", tmp_path / "moved"
    folder.mkdir()

    async def work() -> None:
        lines = LineFile(str(folder / "a"), render)
        folder.rename(moved)
        lines.put("b")
        lines.close()
        assert lines.lost == 0

    run(work)
    assert (moved / "a").read_text() == "b\n"
    assert "cannot be opened again" in caplog.text


def test_a_full_disk_is_counted_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        lines = LineFile("/dev/full", render)
        for number in range(200):
            lines.put(str(number))
        lines.close()
        assert lines.lost == 200

    run(work)
    told = [r.getMessage() for r in caplog.records]
    assert told == ["lines of the access log /dev/full are lost: No space left on device"]


def test_a_line_that_was_cut_does_not_spoil_the_next(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Four lines of six bytes into 15 bytes: two fit, the third is cut; then there is room."""
    caplog.set_level(logging.WARNING)

    async def work() -> None:
        lines = LineFile(str(path), render)
        with file_size_limit(15):
            for letter in "abcd":
                lines.put(letter * 5)
            lines.reopen()
            await until(lambda: lines.lost > 0)
            lines.put("eeeee")
            lines.reopen()
            await until(lambda: lines.lost > 2)
        lines.put("fffff")
        lines.close()
        assert lines.lost == 3

    run(work)
    assert path.read_text() == "aaaaa\nbbbbb\nccc\nfffff\n"
    assert caplog.messages[1:] == [f"the access log {path} is written again; lost: 3"]


def test_who_does_not_keep_up_costs_lines_and_not_memory(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    go = Event()

    def slow(lines: Sequence[str]) -> bytes:
        go.wait(10)
        return render(lines)

    async def work() -> None:
        lines = LineFile(str(path), slow, most=3)
        for number in range(3):
            lines.put(str(number))
        lines.reopen()
        lines.put("lost")
        lines.reopen()
        assert lines.lost == 1
        go.set()
        await until(lambda: lines._done == 3)
        lines.put("last")
        lines.close()
        assert lines.lost == 1

    run(work)
    assert path.read_text() == "0\n1\n2\nlast\n"
    assert "does not keep up" in caplog.text


def test_a_line_that_cannot_be_made_ends_nothing(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fussy(lines: Sequence[str]) -> bytes:
        if "odd" in lines:
            raise ValueError("odd")
        return render(lines)

    async def work() -> None:
        lines = LineFile(str(path), fussy)
        lines.put("odd")
        lines.reopen()
        lines.put("even")
        lines.close()
        assert lines.lost == 1

    run(work)
    assert path.read_text() == "even\n"
    assert "ValueError" in caplog.text


def test_writes_to_a_pipe_are_whole_lines_that_nothing_is_mixed_into(path: Path) -> None:
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    sizes: list[int] = []
    write = os.write

    def noted(fd: int, data: bytes) -> int:
        sizes.append(len(data))
        return write(fd, data)

    sent = [str(number) * 100 for number in range(100, 400)]

    async def work() -> None:
        lines = LineFile(str(path), render)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "write", noted)
            for line in sent:
                lines.put(line)
            lines.reopen()
            got = b""
            while len(got) < len(render(sent)):
                await asyncio.sleep(0.001)
                try:
                    got += os.read(reader, 65536)
                except BlockingIOError:
                    continue
            lines.close()
        assert got == render(sent)

    try:
        run(work)
    finally:
        os.close(reader)
    assert max(sizes) <= 4096


def test_a_pipe_that_nobody_reads_does_not_keep_the_process(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(line_file, "_CLOSE_S", 0.05)
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    async def work() -> None:
        lines = LineFile(str(path), render)
        for _ in range(40):
            lines.put("x" * 4000)
        lines.close()

    try:
        run(work)
    finally:
        os.close(reader)
    assert "takes no more: 40 lines are lost" in caplog.text


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("missing/a", "No such file or directory"),
        (".", "Is a directory"),
        ("pipe", "No such device"),
    ],
)
def test_what_cannot_be_opened_is_told_at_once(tmp_path: Path, name: str, why: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OrchestratorError, match=f"access log .* cannot be opened: {why}"):
        LineFile(str(tmp_path / name), render)
