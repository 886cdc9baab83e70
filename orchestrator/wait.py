"""Wait: one request's time in the waiting room, and how it ends."""

from collections.abc import Callable
from typing import Final, Literal, TypeAlias

from orchestrator.dispatch import Order
from orchestrator.pick import WORKERS_FULL, Choice
from orchestrator.refusal import Refusal
from orchestrator.service import Service
from orchestrator.tally import Tally
from orchestrator.waiting import Place

End: TypeAlias = Literal["served", "client_gone", "timeout", "full"]

BEHIND: Final = Refusal(503, "others wait for a worker", WORKERS_FULL, retry_after_s=1)


def is_behind(service: Service, order: Order) -> bool:
    """Whether others came before, for the same workers."""
    return service.room.count > 0 and service.room.has(_group(order))


class Wait:
    """`look` finds a worker that can take the request now, `go` sends it there."""

    __slots__ = ("_begun_at", "_go", "_service", "_tally", "look")

    def __init__(
        self,
        service: Service,
        tally: Tally,
        look: Callable[[], Choice | None],
        go: Callable[[Choice, float], None],
    ) -> None:
        self.look = look
        self._go = go
        self._service = service
        self._tally = tally
        self._begun_at = service.loop.time()

    def begin(self, order: Order, peer: str | None) -> bool:
        """Whether there was room for it. Without keys, a caller is an address."""
        caller, share = peer or "", 1.0
        if order.booking is not None:
            caller, share = order.booking.caller.name, order.booking.caller.entry.share
        place = Place(_group(order), caller, share, len(order.incoming.body))
        has_room = self._service.room.join(self, place)
        if has_room:
            self._tally.waiting += 1
        else:
            self._tally.wait_ends["full",] += 1
        return has_room

    @property
    def deadline(self) -> float:
        """By the loop's clock."""
        return self._begun_at + self._service.timeouts.worker_s

    def go(self, choice: Choice) -> None:
        """Its turn has come, and it has left the room."""
        self._go(choice, self._end("served"))

    def leave(self, end: End) -> float:
        """Leaves without a turn; returns the seconds that it waited."""
        self._service.room.leave(self)
        return self._end(end)

    def _end(self, end: End) -> float:
        waited_s = self._service.loop.time() - self._begun_at
        self._tally.waiting -= 1
        self._tally.wait_ends[end,] += 1
        self._tally.waits.see(waited_s)
        return waited_s


def too_long(waited_s: float) -> Refusal:
    """No worker was free in time."""
    message = f"the request waited {waited_s:.1f} s, and no worker was free (router.queue.wait_s)"
    return Refusal(503, message, WORKERS_FULL, retry_after_s=1)


def _group(order: Order) -> tuple[object, ...]:
    """Requests that the same workers can take."""
    return order.facts.type, order.facts.model, order.facts.fields
