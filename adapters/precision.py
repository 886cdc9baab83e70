"""The floating-point type that an engine computes in, from its own words for it."""

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from adapters.launch import WorkerSpec

_TYPES: Final[Mapping[str, str]] = {
    "float32": "float32",
    "float": "float32",
    "bfloat16": "bfloat16",
    "float16": "float16",
    "half": "float16",
}


def chosen_type(option: JsonValue, worker: WorkerSpec, of_float32: str | None) -> str | None:
    """The type that `--dtype` means: under `auto` the weights' own, but for float32 ones another.

    None where neither the option nor the model's files tell.
    """
    if isinstance(option, str) and option.lower() != "auto":
        return _TYPES.get(option.lower())
    facts = worker.model.facts
    own = _TYPES.get(facts.dtype or "") if facts else None
    return of_float32 if own == "float32" else own
