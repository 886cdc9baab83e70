"""Readers of words that hold several values, or a value of the engine's own."""

import csv
import json
import re

from adapters.embedded.value import Read, choice, exact, real, whole, within

MAX_DEVICES = 16
MAX_THREADS = 512
EXPERTS = r"\.ffn_(up|down|gate|gate_up)_(ch|)exps"
DENSE = r"\.ffn_(up|down|gate)\."
CACHE_TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")

cache_type = choice(
    {name: f"GGML_TYPE_{name.upper()}" for name in CACHE_TYPES}, "Unsupported cache type: {}"
)


class Schema(str):
    """A JSON schema, which the engine turns into a grammar."""

    __slots__ = ()


def row(text: str) -> list[str]:
    """One line of comma-separated values with CSV quoting."""
    try:
        return next(csv.reader([text]), [""])
    except csv.Error as error:
        raise ValueError(str(error)) from error


def names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def hosts(text: str) -> tuple[str, ...]:
    found = tuple(host.strip() for host in row(text) if host.strip())
    if not found:
        raise ValueError("--host requires at least one address")
    return found


def keys(text: str) -> list[str]:
    return [key for key in row(text) if key]


def key_lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if line and not line.startswith("#")]


def per_device(text: str) -> list[str]:
    parts = re.split(r"[,/]+", text)
    if len(parts) >= MAX_DEVICES:
        raise ValueError(
            f"got {len(parts)} input configs, but system only has {MAX_DEVICES} devices"
        )
    return parts


def fractions(text: str) -> tuple[float, ...]:
    return tuple(real(part) for part in per_device(text))


def exact_row(text: str) -> tuple[float, ...]:
    return tuple(exact(part) for part in text.split(","))


def margins(text: str) -> tuple[int, ...]:
    """Bytes per device, from MiB; a single margin holds for every device, the default is 1 GiB."""
    sizes = tuple(whole(part) * 2**20 for part in per_device(text))
    return sizes * MAX_DEVICES if len(sizes) == 1 else sizes + (2**30,) * (MAX_DEVICES - len(sizes))


def mask(text: str) -> frozenset[int]:
    """Processors named by a hexadecimal mask."""
    digits = text.removeprefix("0x")[: MAX_THREADS // 4]
    if not re.fullmatch(r"[0-9a-fA-F]*", digits):
        raise ValueError("invalid cpumask")
    bits = int(digits or "0", 16)
    return frozenset(cpu for cpu in range(MAX_THREADS) if bits >> cpu & 1)


def span(text: str) -> frozenset[int]:
    """Processors from lo to hi; either end may be left open."""
    found = re.fullmatch(r"(\d*)-(\d*)", text)
    first, last = (found[1] or "0", found[2] or str(MAX_THREADS - 1)) if found else ("0", "inf")
    if not found or max(int(first), int(last)) >= MAX_THREADS:
        raise ValueError("invalid range")
    return frozenset(range(int(first), int(last) + 1))


def template_values(text: str) -> dict[str, str]:
    """Each value stays JSON: the chat template parses it."""
    values = json.loads(text)
    if not isinstance(values, dict):
        raise ValueError("not a JSON object")
    return {key: json.dumps(value, separators=(",", ":")) for key, value in values.items()}


def effort(text: str) -> dict[str, object]:
    """`default` takes an earlier effort back."""
    return {"reasoning_effort": None if text == "default" else json.dumps(text)}


def schema(text: str) -> Schema:
    json.loads(text)
    return Schema(text)


def overrides(text: str) -> list[str]:
    """Tensor patterns and where those tensors live; whether the place exists the engine knows."""
    if not all("=" in part for part in text.split(",")):
        raise ValueError("invalid value")
    return [text]


def first_layers(pattern: str) -> Read:
    """Keeps the tensors of that pattern in main memory, in as many layers as the word says."""
    count = within(0)

    def read(text: str) -> list[str]:
        return [f"blk\\.{layer}{pattern}=CPU" for layer in range(count(text))]

    return read


def scaled_adapters(text: str) -> list[tuple[str, float]]:
    pairs = [item.split(":") for item in row(text)]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError("lora-scaled format: FNAME:SCALE")
    return [(path, real(scale)) for path, scale in pairs]


def adapters(text: str) -> list[tuple[str, float]]:
    return [(path, 1.0) for path in row(text)]


def context(text: str) -> dict[str, object]:
    """An explicit 0 asks for the model's whole context, which fitting must then not reduce."""
    size = whole(text)
    return {"n_ctx": size, **({"fit_params_min_ctx": -1} if size == 0 else {})}
