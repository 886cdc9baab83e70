"""What one step of a worker holds: how many requests, how many rows, logits of which type."""

from collections.abc import Mapping

from pydantic import JsonValue

from adapters.launch import WorkerSpec
from adapters.option import Options, merge, whole
from adapters.precision import chosen_type
from adapters.tensorrt_llm.decoder import SUPPORTED
from adapters.tensorrt_llm.given import BATCH_DEFAULT, table_of, under


def most_at_once(args: Mapping[str, JsonValue]) -> int | None:
    return whole(_merged(args), "max_batch_size", BATCH_DEFAULT)


def wide_arguments(width: int) -> Mapping[str, JsonValue] | None:
    """max_num_tokens could make pieces of prompts so small, but nothing tells of their rows."""
    return None


def logit_type(worker: WorkerSpec) -> str | None:
    """The model's type. What `auto` makes of float32 weights is not known here."""
    return chosen_type(_merged(worker.args).get("dtype"), worker, None)


def _merged(args: Mapping[str, JsonValue]) -> Options:
    merged = merge(table_of(SUPPORTED[-1].name), args)
    return {under(name): value for name, value in merged.items()}
