"""What one step of a worker holds: how many requests, how many rows, logits of which type."""

from collections.abc import Mapping

from pydantic import JsonValue

from adapters.launch import WorkerSpec
from adapters.option import Options, merge, whole
from adapters.precision import chosen_type
from adapters.sglang.given import SUPPORTED, table_of


def most_at_once(args: Mapping[str, JsonValue]) -> int | None:
    """Where it is not given, plain workers take what their memory holds and others 48."""
    return whole(_merged(args), "max-running-requests", 0) or None


def wide_arguments(width: int) -> Mapping[str, JsonValue] | None:
    """Prompts are read in pieces of `width`, from their first token on. Attention backends with
    pages of several tokens refuse pieces that are no multiple of a page."""
    return {
        "chunked-prefill-size": width,
        "max-running-requests": 1,
        "disable-radix-cache": True,
    }


def logit_type(worker: WorkerSpec) -> str | None:
    """The weights' type as loaded, unless the head is told to be float32. `auto` makes float16 of
    float32 weights, but bfloat16 for Gemma (configs/model_config.py)."""
    options = _merged(worker.args)
    if options.get("enable-fp32-lm-head") is True:
        return "float32"
    facts = worker.model.facts
    is_gemma = facts is not None and (facts.architecture or "").lower().startswith("gemma")
    return chosen_type(options.get("dtype"), worker, "bfloat16" if is_gemma else "float16")


def _merged(args: Mapping[str, JsonValue]) -> Options:
    return merge(table_of(SUPPORTED[-1].name), args)
