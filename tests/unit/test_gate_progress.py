"""Progress in lines: how far, and how long still."""

import asyncio

import pytest

from orchestrator.gate.progress import DrawProgress, Progress, duration


def test_time_left_follows_from_the_pace_so_far() -> None:
    now, said = [0.0], list[str]()
    progress = Progress(said.append, 40, clock=lambda: now[0])
    one, other = progress.of("A1"), progress.of("S1")
    one.begin(0, 20)
    other.begin(10, 20)
    assert said == ["S1: 10 of 20 answers kept from the run before"]
    for second in range(1, 6):
        now[0] = 3.0 * second
        one.answered()
    assert said[1:] == ["A1 4 of 20, S1 10 of 20; about 1 min 18 s left"]


def test_draws_are_told_with_the_most_time_they_take() -> None:
    now = [0.0]
    progress = DrawProgress(list[str]().append, clock=lambda: now[0])
    progress.begin("next tokens, look 2 of 3", 144, 576)
    head = "sampled: : next tokens, look 2 of 3"
    assert progress.line() == f"{head}: 144 of at most 576 draws"
    progress.drew(64, are_kept=True)
    now[0] = 12.0
    assert progress.line() == f"{head}: 208 of at most 576 draws", "kept ones tell no pace"
    progress.drew(64)
    assert progress.line() == f"{head}: 272 of at most 576 draws; about 57 s left at most"
    progress.drew(304)
    assert progress.line() == f"{head}: 576 of at most 576 draws"


def test_work_without_a_number_tells_its_time() -> None:
    now = [5.0]
    progress = DrawProgress(list[str]().append, clock=lambda: now[0])
    progress.begin("look 1 of 3, comparing what was drawn")
    now[0] = 70.0
    line = "sampled: : look 1 of 3, comparing what was drawn, 1 min 5 s so far"
    assert progress.line() == line


def test_lines_come_while_one_answer_takes_long_and_then_no_more() -> None:
    said: list[str] = []

    async def run() -> None:
        enough = asyncio.Event()

        def say(line: str) -> None:
            said.append(line)
            if len(said) == 2:
                enough.set()

        progress = DrawProgress(say)
        progress.begin("whole answers", 0, 80)
        async with progress.telling("edit-0", pause_s=0.001):
            await enough.wait()
        count = len(said)
        await asyncio.sleep(0.01)
        assert len(said) == count

    asyncio.run(run())
    assert set(said) == {"sampled: edit-0: whole answers: 0 of at most 80 draws"}


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "1 s"), (59, "59 s"), (60, "1 min"), (200, "3 min 20 s"), (7500, "2 h 5 min")],
)
def test_duration(seconds: float, words: str) -> None:
    assert duration(seconds) == words
