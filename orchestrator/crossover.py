"""Crossover: where speculation stops paying, with a distance between leaving and coming back. Pure.

Without the distance a pool at its limit would change sides with every request that ends.
"""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Band:
    """Requests at once at which a pool is left, and at or below which it is used again."""

    leave_at: int
    back_at: int

    @classmethod
    def of(cls, leave_at: int, back_at: int | None = None) -> "Band":
        """Comes back a quarter below, where nothing else is said, and always below."""
        return cls(leave_at, leave_at * 3 // 4 if back_at is None else back_at)


def is_left(was_left: bool, in_flight: int, band: Band) -> bool:
    """Whether the pool is left now, with so many requests in flight."""
    return in_flight > band.back_at if was_left else in_flight >= band.leave_at


class Side(Protocol):
    """Where several processes agree on which side of a crossover they are."""

    def read(self, is_left: bool) -> bool:
        """As it is now; `is_left` where nobody has said."""

    def write(self, is_left: bool) -> None:
        """The pool has just crossed."""


class Crossover:
    """A band and on which side of it a pool is; `side`, where other processes have a say in it."""

    __slots__ = ("band", "is_left", "side")

    def __init__(self, band: Band) -> None:
        self.band = band
        self.is_left = False
        self.side: Side | None = None

    def see(self, in_flight: int) -> None:
        """Takes the load of this moment."""
        now = is_left(self.is_left, in_flight, self.band)
        if now != self.is_left:
            self.is_left = now
            if self.side is not None:
                self.side.write(now)

    def look(self) -> None:
        """Takes the side on which other processes see the pool."""
        if self.side is not None:
            self.is_left = self.side.read(self.is_left)
