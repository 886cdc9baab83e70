"""Fair: things that wait, and whose turn is next, by callers and their shares. Pure.

Start-time fair queueing (Goyal, Vin and Cheng, 1996) with things of equal size: each that is taken
moves its caller's pass on by the inverse of its share, and the caller with the least pass is next.
A caller's things come in their order. One that waits for nothing saves nothing up, and keeps what
it was ahead.
"""

from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class _Line(Generic[T]):
    """What one caller has waiting."""

    __slots__ = ("passed", "share", "things")

    def __init__(self, passed: float) -> None:
        self.passed = passed
        self.share = 1.0
        self.things: dict[T, None] = {}  # in their order


class FairOrder(Generic[T]):
    """Things are hashable, and in it once at most."""

    def __init__(self) -> None:
        self._lines: dict[str, _Line[T]] = {}
        self._passed = 0.0  # of whoever was last taken
        self._ahead: dict[str, float] = {}  # passes beyond that, of callers that wait for nothing

    def __len__(self) -> int:
        return sum(len(line.things) for line in self._lines.values())

    def __iter__(self) -> Iterator[T]:
        for line in self._lines.values():
            yield from line.things

    def add(self, caller: str, share: float, thing: T) -> None:
        """Puts a thing behind its caller's others; the caller's share is this from now on."""
        line = self._lines.get(caller)
        if line is None:
            passed = max(self._passed, self._ahead.pop(caller, 0.0))
            line = self._lines[caller] = _Line(passed)
        line.share = share
        line.things[thing] = None

    def next(self) -> T | None:
        """Whose turn it is; it stays there."""
        if not self._lines:
            return None
        line = min(self._lines.values(), key=lambda line: line.passed)
        return next(iter(line.things))

    def take(self, caller: str, thing: T) -> None:
        """It had its turn. Raises KeyError when it is not there."""
        line = self._lines[caller]
        self._passed = max(self._passed, line.passed)
        line.passed += 1 / line.share
        self._remove(caller, line, thing)

    def leave(self, caller: str, thing: T) -> None:
        """It waits no more, without a turn. Raises KeyError when it is not there."""
        self._remove(caller, self._lines[caller], thing)

    def _remove(self, caller: str, line: _Line[T], thing: T) -> None:
        del line.things[thing]
        if not line.things:
            del self._lines[caller]
            self._ahead = {name: at for name, at in self._ahead.items() if at > self._passed}
            if line.passed > self._passed:
                self._ahead[caller] = line.passed
