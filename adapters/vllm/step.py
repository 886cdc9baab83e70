"""What one step of a worker holds: how many requests, how many rows, logits of which type."""

from collections.abc import Mapping

from pydantic import JsonValue

from adapters.flag import named_flags
from adapters.launch import WorkerSpec
from adapters.option import Options, merge
from adapters.precision import chosen_type
from adapters.vllm.asked import SUPPORTED, TITLE, size


def most_at_once(args: Mapping[str, JsonValue]) -> int | None:
    """The default depends on the device's memory: 128, 256 or 1024."""
    options = _merged(args)
    active, most = size(options, "max-num-active-seqs"), size(options, "max-num-seqs")
    return min(active, most) if active and most else active or most


def wide_arguments(width: int) -> Mapping[str, JsonValue] | None:
    """Prompts are read in pieces of `width`: long-prefill-token-threshold would not do, which lets
    a request that is alone use the whole budget."""
    return {"max-num-seqs": 1, "max-num-batched-tokens": width}


def logit_type(worker: WorkerSpec) -> str | None:
    """The model's type, unless its head has another: logits are widened to float32 only after
    they were rounded to it. What `auto` makes of float32 weights depends on the device.
    """
    options = _merged(worker.args)
    overrides = options.get("hf-overrides")
    head = overrides.get("head_dtype") if isinstance(overrides, dict) else None
    return chosen_type(head or options.get("dtype"), worker, None)


def _merged(args: Mapping[str, JsonValue]) -> Options:
    newest = SUPPORTED[-1].name
    return merge(named_flags("vllm", newest, TITLE, newest), args)
