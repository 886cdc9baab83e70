"""Waiting: requests for which every worker has all that it may have, until one of them is free."""

import logging
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Protocol

from orchestrator.fair import FairOrder
from orchestrator.pick import Choice

LOG = logging.getLogger("draftgate.router")


class Waiter(Protocol):
    """A request that waits."""

    def look(self) -> Choice | None:
        """A worker that can take it now."""

    def go(self, choice: Choice) -> None:
        """Goes there; it has left the room."""


@dataclass(frozen=True)
class Place:
    """Where a request stands. Requests of one `group` can use the same workers; the order among
    them is fair between callers. `size` is what it holds, in bytes."""

    group: Hashable
    caller: str
    share: float
    size: int


class WaitingRoom:
    """At most `most` requests, which hold at most `most_bytes`. One for a process."""

    def __init__(self, most: int = 0, most_bytes: int = 0) -> None:
        self.most = most
        self.most_bytes = most_bytes
        self.count = 0
        self._bytes = 0
        self._places: dict[Waiter, Place] = {}
        self._groups: dict[Hashable, FairOrder[Waiter]] = {}
        self._is_waking = False

    def __iter__(self) -> Iterator[Waiter]:
        return iter(tuple(self._places))

    def has(self, group: Hashable) -> bool:
        """Whether some of this group wait: whoever comes now is behind them."""
        return group in self._groups

    def join(self, waiter: Waiter, place: Place) -> bool:
        """Whether there was room for it."""
        if self.count >= self.most or self._bytes + place.size > self.most_bytes:
            return False
        self._places[waiter] = place
        self.count += 1
        self._bytes += place.size
        group = self._groups.setdefault(place.group, FairOrder())
        group.add(place.caller, place.share, waiter)
        return True

    def leave(self, waiter: Waiter) -> None:
        """It waits no more: its client left, or it waited for too long."""
        place = self._remove(waiter)
        self._groups[place.group].leave(place.caller, waiter)
        self._tidy(place.group)

    def wake(self) -> None:
        """Something is free: whoever can go now goes, in the order of their turns."""
        if self._is_waking:  # one that goes may end at once, and wakes others by that
            return
        self._is_waking = True
        try:
            for group, order in tuple(self._groups.items()):
                while (waiter := order.next()) is not None and self._send(waiter, order):
                    pass
                self._tidy(group)
        finally:
            self._is_waking = False

    def _send(self, waiter: Waiter, order: FairOrder[Waiter]) -> bool:
        """Whether one went. A fault in it is not that of whoever woke the room."""
        try:
            choice = waiter.look()
            if choice is None:
                return False
            order.take(self._remove(waiter).caller, waiter)
            waiter.go(choice)
        except Exception:
            LOG.exception("a request that waited failed")
            return False
        return True

    def _remove(self, waiter: Waiter) -> Place:
        place = self._places.pop(waiter)
        self.count -= 1
        self._bytes -= place.size
        return place

    def _tidy(self, group: Hashable) -> None:
        order = self._groups.get(group)
        if order is not None and order.next() is None:
            del self._groups[group]
