"""Usage: how many tokens an answer took, read from its last bytes without decoding the rest. Pure.

Engines put these numbers at the end of an answer or of a stream. In JSON a quotation mark within
text is escaped, so that `"usage":` can only be a field.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_TAIL = 16 * 1024  # bytes; what is further from the end is not looked at
_SPAN = 400  # bytes of an object that hold its numbers, detailed objects within it included
_NUMBER = re.compile(rb'"(\w+)"\s?:\s?(\d{1,18})')

# OpenAI's chat and completions, and what its responses and Anthropic's messages call them.
_USAGE = {
    "prompt_tokens": "prompt",
    "input_tokens": "prompt",
    "completion_tokens": "completion",
    "output_tokens": "completion",
}


@dataclass(frozen=True, slots=True)
class Usage:
    """Numbers of tokens; None where the answer does not say."""

    prompt: int | None = None
    completion: int | None = None
    drafted: int | None = None
    accepted: int | None = None


class UsageReader:
    """Reads the answers of one engine; `counts` is its Adapter.ANSWER_COUNTS."""

    def __init__(self, counts: Mapping[str, str]) -> None:
        objects: dict[str, dict[bytes, str]] = {}
        for ours, place in counts.items():
            name, _, field = place.partition(".")
            objects.setdefault(name, {})[field.encode()] = ours
        usage = {field.encode(): ours for field, ours in _USAGE.items()}
        # OpenAI's numbers last: where both tell the same, they hold.
        self._objects = tuple(
            (b'"%b":' % name.encode(), fields)
            for name, fields in [*objects.items(), ("usage", usage)]
        )

    def __call__(self, pieces: Sequence[bytes]) -> Usage | None:
        """What the last pieces of an answer say; None when they say nothing.

        Where an object stands several times, as in a stream that counts on, the last one holds.
        """
        tail = b"".join(pieces)
        if len(tail) > _TAIL:
            tail = tail[-_TAIL:]
        found: dict[str, int] = {}
        for mark, fields in self._objects:
            start = tail.rfind(mark)
            if start < 0:
                continue
            for name, number in _NUMBER.findall(tail, start, start + _SPAN):
                ours = fields.get(name)
                if ours is not None:
                    found[ours] = int(number)
        return Usage(**found) if found else None
