"""`draftgate serve`, with every pick, count and state written down as it happens.

    python -m bench.trace.recorder RECORDS serve FLEET...

The three methods through which a router decides and counts are wrapped in this process, so that a
router that nobody records has nothing of it on its path.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch

import msgspec

from bench.trace.record import Added, Picked, Record, Stood
from orchestrator.cli import main as draftgate
from orchestrator.dispatch import Dispatch, Order
from orchestrator.pick import Choice
from orchestrator.pool import Pool
from orchestrator.refusal import Refusal

Put = Callable[[Record], object]


@contextmanager
def recording(put: Put) -> Iterator[None]:
    """Every router that runs in this process tells all it does."""
    choose, add, set_state = Dispatch.choose, Pool.add, Pool.set_state

    def told_choose(self: Dispatch, order: Order, failed: str | None = None) -> Choice | Refusal:
        loads = dict(self.standing.in_flight)
        found = choose(self, order, failed)
        put(_picked(order, failed, loads, found))
        return found

    def told_add(self: Pool, name: str, change: int) -> None:
        add(self, name, change)
        put(Added(name, change))

    def told_state(self: Pool, name: str, state: str) -> None:
        set_state(self, name, state)
        put(Stood(name, state))

    with ExitStack() as stack:
        stack.enter_context(patch.object(Dispatch, "choose", told_choose))
        stack.enter_context(patch.object(Pool, "add", told_add))
        stack.enter_context(patch.object(Pool, "set_state", told_state))
        yield


def _picked(
    order: Order, failed: str | None, loads: dict[str, int], found: Choice | Refusal
) -> Picked:
    facts = order.facts
    worker = found.upstream.name if isinstance(found, Choice) else None
    why = found.reason if isinstance(found, Choice) else found.message
    return Picked(
        order.incoming.header(b"x-request-id") or "",
        facts.type,
        facts.model,
        tuple(sorted(facts.fields)),
        facts.client,
        facts.head,
        failed,
        loads,
        worker,
        why,
    )


def main() -> None:
    encode = msgspec.json.Encoder().encode
    with (
        Path(sys.argv[1]).open("wb", buffering=2**20) as file,
        recording(lambda record: file.write(encode(record) + b"\n")),
    ):
        draftgate(sys.argv[2:])


if __name__ == "__main__":
    main()
