"""Progress in lines: how far, and how long still."""

import pytest

from orchestrator.gate.progress import Progress, duration


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


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "1 s"), (59, "59 s"), (60, "1 min"), (200, "3 min 20 s"), (7500, "2 h 5 min")],
)
def test_duration(seconds: float, words: str) -> None:
    assert duration(seconds) == words
