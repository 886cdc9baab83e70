"""What one step of a worker holds: how many requests, how many rows, logits of which type."""

from collections.abc import Mapping

from pydantic import JsonValue

from adapters.flag import load_flags
from adapters.launch import WorkerSpec
from adapters.llama_cpp.version import SUPPORTED
from adapters.option import merge, whole

_SLOTS_OF_AUTO = 4


def most_at_once(args: Mapping[str, JsonValue]) -> int | None:
    """Slots: 4 where nothing is said."""
    slots = whole(merge(load_flags("llama_cpp", SUPPORTED[-1].name), args), "parallel", -1)
    return slots if slots > 0 else _SLOTS_OF_AUTO


def wide_arguments(width: int) -> Mapping[str, JsonValue] | None:
    """None are needed: a prompt whose beginning is cached is read in as many rows as are left."""
    return {}


def logit_type(worker: WorkerSpec) -> str | None:
    """Results of multiplications are float32; with quantised weights their inputs are rounded to
    8 bits, which is far coarser, and nobody tells how much (facts unknown: not known either)."""
    facts = worker.model.facts
    return "float32" if facts and facts.dtype and not facts.quantization else None
