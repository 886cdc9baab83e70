"""Window: what was used within the last minute, in a few numbers. Pure.

Amounts are kept by slots of five seconds, and a slot counts until all of it is older than a minute:
no span of 60 seconds ever holds more than a limit that was kept to, and what was used comes back
after 60 to 65 seconds.
"""

from collections import deque
from typing import Final, Protocol

SPAN_S: Final = 60.0
SLOT_S: Final = 5.0


class Total(Protocol):
    """Where a window's total is kept: here, or where other processes see it."""

    def add(self, change: int) -> None:
        """Changes it."""

    def read(self) -> int:
        """As it is now, of all processes."""


class OwnTotal:
    """A total that only this process has."""

    __slots__ = ("_value",)

    def __init__(self) -> None:
        self._value = 0

    def add(self, change: int) -> None:
        self._value += change

    def read(self) -> int:
        return self._value


class Window:
    """Amounts with the seconds of a steady clock at which they were used."""

    __slots__ = ("_slots", "total")

    def __init__(self, total: Total | None = None) -> None:
        self._slots: deque[list[int]] = deque()  # number of the slot and amount, oldest first
        self.total: Total = total or OwnTotal()

    def add(self, now_s: float, amount: int) -> None:
        """Uses an amount."""
        slot = int(now_s // SLOT_S)
        if self._slots and self._slots[-1][0] == slot:
            self._slots[-1][1] += amount
        else:
            self.expire(now_s)
            self._slots.append([slot, amount])
        self.total.add(amount)

    def give_back(self, used_at_s: float, amount: int) -> None:
        """Of what was used then, so much was not; nothing where that is forgotten already."""
        slot = int(used_at_s // SLOT_S)
        for entry in self._slots:
            if entry[0] == slot:
                entry[1] -= amount
                self.total.add(-amount)

    def used(self, now_s: float) -> int:
        """Of all processes, within the last minute."""
        self.expire(now_s)
        return self.total.read()

    def wait_s(self, now_s: float, most: int) -> float:
        """Seconds until no more than `most` is in use, if nobody uses more meanwhile.

        What other processes used is not known by time: it counts as the oldest of our own, or as
        used this moment where there is none.
        """
        over = self.used(now_s) - most
        if over <= 0:
            return 0.0
        for slot, amount in self._slots:
            over -= amount
            if over <= 0:
                return (slot + 1) * SLOT_S + SPAN_S - now_s
        return SPAN_S + SLOT_S

    def expire(self, now_s: float) -> None:
        """Forgets what is older than a minute."""
        slots = self._slots
        while slots and (slots[0][0] + 1) * SLOT_S + SPAN_S <= now_s:
            self.total.add(-slots.popleft()[1])

    @property
    def own(self) -> int:
        """What this process used, by its slots."""
        return sum(amount for _, amount in self._slots)
