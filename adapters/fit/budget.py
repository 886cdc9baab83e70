"""What weights take once they are loaded, and what a worker's budget leaves for sequences."""

from adapters.checkpoint import Checkpoint
from adapters.fit.kv_cache import loaded_bits
from adapters.fit.pair import Pair
from adapters.launch import Model, WorkerSpec
from adapters.option import Options, whole

GIB = 1 << 30
LARGEST = 1 << 60  # bytes; more than this, or no number at all, bounds nothing
MOST_DEVICES = 1 << 16
_SUFFIXES = {"k": 10**3, "K": 1 << 10, "m": 10**6, "M": 1 << 20, "g": 10**9, "G": 1 << 30}
_BITS = {"float32": 32, "float16": 16, "bfloat16": 16}


def weights_of(model: Model, pair: Pair | None, options: Options) -> tuple[float, float] | None:
    """Bytes of the target and of the draft as they are loaded; None where one is not known.

    A plain engine leaves MTP layers in the file.
    """
    if model.facts is None or model.facts.weight_bytes is None:
        return None
    target = _loaded(model.facts, options)
    bundled = target * min(model.facts.mtp_bytes / (model.facts.weight_bytes or 1), 1)
    if pair is None:
        return target - bundled, 0
    if pair.name is None:
        return target - bundled, bundled
    if pair.draft is None or pair.draft.weight_bytes is None:
        return None
    return target - bundled, _loaded(pair.draft, options)


def _loaded(facts: Checkpoint, options: Options) -> float:
    """Bytes of weights in memory: engines load float32 folders in half, quantised ones as is."""
    held = _BITS.get(facts.dtype or "")
    size = facts.weight_bytes or 0
    if held is None or facts.quantization or facts.form == "gguf":
        return size
    return size * loaded_bits(options) / held


def budget_of(worker: WorkerSpec) -> float | None:
    """Bytes that the fleet gives the worker; None where it gives no bound."""
    size = None if worker.memory_gib is None else worker.memory_gib * GIB
    return size if size is not None and size <= LARGEST else None  # false for nan too


def cache_room(worker: WorkerSpec, options: Options, weights: float) -> float | None:
    """Bytes left for sequences: of the fleet's budget, and no more than vLLM is told to take."""
    rooms: list[float] = []
    if (budget := budget_of(worker)) is not None:
        rooms.append(budget - weights)
    told = _size(options.get("kv-cache-memory-bytes"))
    if told:  # of each device
        devices = min(max(whole(options, "tensor-parallel-size", 1), 1), MOST_DEVICES)
        rooms.append(told * devices)
    return min(rooms, default=None)


def _size(value: object) -> float | None:
    """A number of bytes, or one with a unit as vLLM writes it: k is 1000, K is 1024."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    text = str(value)
    digits = text.rstrip("kKmMgG")
    is_number = digits.isascii() and digits.isdigit() and len(text) - len(digits) <= 1
    return float(int(digits[:20]) * _SUFFIXES.get(text[-1:], 1)) if is_number else None
