"""Numbers of requests and sizes of graphs that SGLang's parser takes and nothing can serve."""

from typing import Final

from pydantic import JsonValue

from adapters.flag import FlagTable
from adapters.option import Options
from adapters.problem import Path, Problem
from adapters.sglang.schedule import MOST_REQUESTS
from adapters.value import shown, whole_number

_SIZES: Final = (
    "max-running-requests",
    "cuda-graph-bs",
    "cuda-graph-max-bs",
    "cuda-graph-bs-decode",
    "cuda-graph-max-bs-decode",
)


def size_problems(options: Options, table: FlagTable, root: Path) -> list[Problem]:
    """Values below 1, above MOST_REQUESTS, or none where a list is given."""
    problems: list[Problem] = []
    for name, value in options.items():
        flag = table.find(name)
        if flag is None or flag.name not in _SIZES:
            continue
        message, wrong = f"{flag.name} must be 1 to {MOST_REQUESTS:,}", _wrong(value)
        if wrong:
            message += f", found {shown(wrong[0])}"
            problems.append(Problem((*root, name), message, code="option-value"))
        elif value == []:
            hint = "leave it out"
            problems.append(Problem((*root, name), "an empty list", hint, code="option-value"))
    return problems


def _wrong(value: JsonValue) -> list[JsonValue]:
    """That something is no number at all is said elsewhere."""
    items = value if isinstance(value, list) else [value]
    numbers = ((item, whole_number(item)) for item in items)
    return [i for i, number in numbers if number is not None and not 1 <= number <= MOST_REQUESTS]
