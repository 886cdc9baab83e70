"""Request log: the requests of a JSONL file, one line at a time.

A line is a request body; or a line of a prompt file, which has a `type` of its own; or a record of
some log that holds the body as `body` or `request`, as an object or as text.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from adapters.problem import Place, Problem
from orchestrator.body import Fields, decode, scan
from orchestrator.feature import Features, read_features

_ENVELOPES = ("body", "request")
_ASKING = ("messages", "prompt", "input")


@dataclass(frozen=True)
class Logged:
    """A request of a line. `type` is what the line itself says it is."""

    line: int
    features: Features
    type: str | None = None


def read_log(file: Path) -> Iterator[Logged | Problem]:
    """The requests of a file, and what is wrong with lines that hold none. Empty lines are none."""
    with file.open("rb") as lines:
        for number, text in enumerate(lines, start=1):
            if not text.strip():
                continue
            try:
                yield _logged(number, text)
            except ValueError as error:
                yield Problem((), str(error), place=Place(str(file), number, 1))


def _logged(number: int, text: bytes) -> Logged:
    """Raises ValueError: no request in it."""
    fields = scan(text)
    kind = decode(fields["type"]) if "type" in fields else None
    source = text if any(name in fields for name in _ASKING) else _enclosed(fields)
    return Logged(number, read_features(source), kind if isinstance(kind, str) else None)


def _enclosed(fields: Fields) -> bytes:
    given = next((fields[name] for name in _ENVELOPES if name in fields), None)
    if given is None:
        names = ", ".join((*_ASKING, *_ENVELOPES))
        raise ValueError(f"no request: the line has none of {names}")
    inner = decode(given)
    return inner.encode() if isinstance(inner, str) else bytes(given)
