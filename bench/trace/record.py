"""Record: what a router decided and counted, in the order in which it did, as JSON lines."""

from collections.abc import Iterator
from pathlib import Path

import msgspec


class Added(msgspec.Struct, tag_field="is", tag="added"):
    """A request went to a worker (1) or left it (-1)."""

    worker: str
    change: int


class Stood(msgspec.Struct, tag_field="is", tag="stood"):
    """A worker's state changed."""

    worker: str
    state: str


class Picked(msgspec.Struct, tag_field="is", tag="picked"):
    """A pick: what was asked, the requests on each worker before it, and what came of it.

    `worker` is None where the request was refused.
    """

    id: str
    type: str
    model: str | None
    fields: tuple[str, ...]
    client: int
    head: int | None
    failed: str | None
    loads: dict[str, int]
    worker: str | None
    reason: str


Record = Added | Stood | Picked


def read_records(path: Path) -> Iterator[Record]:
    """The records of a file."""
    decoder = msgspec.json.Decoder(Record)
    with path.open("rb") as lines:
        for line in lines:
            yield decoder.decode(line)
