"""Progress of a run in lines for people: how far each arm is, and about how long it takes."""

import time
from collections.abc import Callable
from dataclasses import dataclass

PAUSE_S = 10.0

Say = Callable[[str], None]


class Progress:
    """Counts questions over all arms of a run; `say` gets a line at most every ten seconds."""

    def __init__(self, say: Say, total: int, clock: Callable[[], float] = time.monotonic):
        self.say = say
        self._total = total
        self._clock = clock
        self._start = self._told = clock()
        self._done = 0
        self._kept = 0
        self._arms: dict[str, tuple[int, int]] = {}

    def of(self, arm: str) -> "ArmProgress":
        """The progress of one arm."""
        return ArmProgress(self, arm)

    def begin(self, arm: str, kept: int, questions: int) -> None:
        """`kept` answers of an arm come from an earlier run."""
        self._kept += kept
        self._arms[arm] = (kept, questions)
        if kept:
            self.say(f"{arm}: {kept} of {questions} answers kept from the run before")

    def answered(self, arm: str) -> None:
        """One more question of an arm is done."""
        done, questions = self._arms[arm]
        self._arms[arm] = (done + 1, questions)
        self._done += 1
        if self._clock() - self._told > PAUSE_S:
            self._told = self._clock()
            line = self.line()
            if line:
                self.say(line)

    def line(self) -> str:
        """Every arm under way, and the time left at the pace so far, starts included."""
        under_way = {name: pair for name, pair in self._arms.items() if pair[0] < pair[1]}
        arms = ", ".join(f"{name} {done} of {of}" for name, (done, of) in under_way.items())
        left = max(0, self._total - self._kept - self._done)
        if not left or not self._done:
            return arms
        seconds = (self._clock() - self._start) / self._done * left
        return f"{arms}; about {duration(seconds)} left"


@dataclass(frozen=True)
class ArmProgress:
    """One arm's share of a run's progress."""

    whole: Progress
    arm: str

    def begin(self, kept: int, questions: int) -> None:
        """See Progress."""
        self.whole.begin(self.arm, kept, questions)

    def answered(self) -> None:
        """See Progress."""
        self.whole.answered(self.arm)


def duration(seconds: float) -> str:
    """`45 s`, `3 min 20 s`, `2 h 5 min`."""
    whole = max(1, round(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"
