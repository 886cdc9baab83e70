"""Crossover: where speculation stops paying, with a distance between leaving and coming back. Pure.

Without the distance a pool at its limit would change sides with every request that ends.
"""

from dataclasses import dataclass


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


class Crossover:
    """A band and on which side of it a pool is."""

    __slots__ = ("band", "is_left")

    def __init__(self, band: Band) -> None:
        self.band = band
        self.is_left = False

    def see(self, in_flight: int) -> None:
        """Takes the load of this moment."""
        self.is_left = is_left(self.is_left, in_flight, self.band)
