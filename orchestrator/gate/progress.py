"""Progress of a run in lines for people: how far each arm is, and about how long it takes."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

PAUSE_S = 10.0

Say = Callable[[str], None]
Clock = Callable[[], float]


class Pace:
    """How fast something goes that is counted from now on."""

    def __init__(self, clock: Clock = time.monotonic):
        self._clock = clock
        self._start = clock()

    @property
    def elapsed(self) -> float:
        """Seconds since it was begun."""
        return self._clock() - self._start

    def left(self, done: int, left: int) -> str:
        """In words, how long what is left takes at the pace of what is done; "" where unknown."""
        if not left or not done:
            return ""
        return f"about {duration(self.elapsed / done * left)} left"


class Progress:
    """Counts questions over all arms of a run; `say` gets a line at most every ten seconds."""

    def __init__(self, say: Say, total: int, clock: Clock = time.monotonic):
        self.say = say
        self._total = total
        self._clock = clock
        self._pace = Pace(clock)
        self._told = clock()
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
        left = self._pace.left(self._done, max(0, self._total - self._kept - self._done))
        return f"{arms}; {left}" if left else arms


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


class DrawProgress:
    """What the test of sampled output is at. `begin` says what comes next and how many draws it
    takes at most; without a number only the time is told."""

    def __init__(self, say: Say, clock: Clock = time.monotonic):
        self._say = say
        self._clock = clock
        self._engine = ""
        self.begin("")

    def begin(self, what: str, done: int = 0, most: int | None = None) -> None:
        """`done` draws of at most `most` are there already."""
        self._what, self._most = what, most
        self._first = self._done = done
        self._pace = Pace(self._clock)

    def drew(self, count: int, are_kept: bool = False) -> None:
        """So many draws more; those kept from an earlier run say nothing of the pace."""
        self._done += count
        self._first += count if are_kept else 0

    def line(self) -> str:
        """How far it is, and at most how long it takes at the pace since it was begun."""
        head = f"sampled: {self._engine}: {self._what}"
        if self._most is None:
            return f"{head}, {duration(self._pace.elapsed)} so far"
        left = self._pace.left(self._done - self._first, max(0, self._most - self._done))
        told = f"{head}: {self._done:,} of at most {self._most:,} draws"
        return f"{told}; {left} at most" if left else told

    @asynccontextmanager
    async def telling(self, engine: str, pause_s: float = PAUSE_S) -> AsyncIterator[None]:
        """A line each `pause_s` seconds while the block runs, however long one answer takes."""
        self._engine = engine

        async def tell() -> None:
            while True:
                await asyncio.sleep(pause_s)
                self._say(self.line())

        teller = asyncio.create_task(tell())
        try:
            yield
        finally:
            teller.cancel()
            await asyncio.wait([teller])


def duration(seconds: float) -> str:
    """`45 s`, `3 min 20 s`, `2 h 5 min`."""
    whole = max(1, round(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"
