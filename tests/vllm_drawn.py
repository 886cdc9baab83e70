"""Drafters of kinds that nobody trained for the tests, as vLLM loads them.

What is shown with them is that vLLM loads them, drafts, and changes no token. Tensors:
vllm/model_executor/models/llama_eagle.py, llama_eagle3.py and qwen3_dflash.py of 0.32.0.
"""

import json
import random
import shutil
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

HIDDEN, FORWARD, QUERIES, KEYS, HEAD = 128, 384, 128, 64, 32  # the test target's
LAYERS = (0, 2, 4)  # of the target, counted from 0
BLOCK = 4  # tokens: the last one and three guesses
MASK = 3  # the padding token, which no text has
SPREAD = 0.08

Values: TypeAlias = tuple[tuple[int, ...], list[float]]
Weights: TypeAlias = Mapping[str, Values]


def write_eagle(folder: Path, target: Path) -> None:
    """An EAGLE head that says the last token once more: its layer adds nothing to the embedding."""
    passes = [float(row == column) for row in range(HIDDEN) for column in range(2 * HIDDEN)]
    weights = {**_layer(lambda count: [0.0] * count), "fc.weight": ((HIDDEN, 2 * HIDDEN), passes)}
    del weights["layers.0.input_layernorm.weight"]  # EAGLE's first layer has none
    _write(folder, target, {"num_hidden_layers": 1}, weights)


def write_dflash(folder: Path, target: Path) -> None:
    """A DFlash drafter with drawn weights: what it guesses is wrong."""
    chance = random.Random(7)

    def draw(count: int) -> list[float]:
        return [chance.gauss(0, SPREAD) for _ in range(count)]

    states = len(LAYERS) * HIDDEN
    weights = {
        **_layer(draw),
        "fc.weight": ((HIDDEN, states), draw(HIDDEN * states)),
        **{f"layers.0.self_attn.{name}_norm.weight": _norm(HEAD) for name in "qk"},
        **{f"{name}.weight": _norm(HIDDEN) for name in ("hidden_norm", "norm")},
    }
    change = {
        "architectures": ["DFlashDraftModel"],
        "model_type": "qwen3",
        "num_hidden_layers": 1,
        "block_size": BLOCK,
        "dflash_config": {"mask_token_id": MASK, "target_layer_ids": list(LAYERS)},
    }
    _write(folder, target, change, weights)


def write_parallel_draft(folder: Path, draft: Path) -> None:
    """A draft model with a mask token, for which it was not trained: its first guess is good."""
    shutil.copytree(draft, folder)
    _change(folder, {"pard_token": MASK})


def write_parallel_eagle3(folder: Path, head: Path) -> None:
    """The same of an EAGLE-3 head, which also wants a state for the places to be guessed."""
    shutil.copytree(head, folder)
    _change(folder, {"ptd_token_id": MASK})
    size = len(LAYERS) * HIDDEN
    _add(folder / "model.safetensors", "mask_hidden", ((1, 1, size), [0.0] * size))


def _layer(fill: Callable[[int], list[float]]) -> dict[str, Values]:
    shapes = {
        "self_attn.q_proj": (QUERIES, HIDDEN),
        "self_attn.k_proj": (KEYS, HIDDEN),
        "self_attn.v_proj": (KEYS, HIDDEN),
        "self_attn.o_proj": (HIDDEN, QUERIES),
        "mlp.gate_proj": (FORWARD, HIDDEN),
        "mlp.up_proj": (FORWARD, HIDDEN),
        "mlp.down_proj": (HIDDEN, FORWARD),
    }
    layer: dict[str, Values] = {
        f"layers.0.{name}.weight": ((rows, columns), fill(rows * columns))
        for name, (rows, columns) in shapes.items()
    }
    norms = ("input_layernorm", "post_attention_layernorm")
    return {**layer, **{f"layers.0.{name}.weight": _norm(HIDDEN) for name in norms}}


def _norm(size: int) -> Values:
    return (size,), [1.0] * size


def _change(folder: Path, change: Mapping[str, Any]) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))


def _write(folder: Path, target: Path, change: Mapping[str, Any], weights: Weights) -> None:
    """The target's config with these changes, its tokenizer, and the weights in float16."""
    folder.mkdir()
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(target / name, folder / name)
    _change(folder, change)
    (folder / "model.safetensors").write_bytes(b"".join(_safetensors(weights)))


def _safetensors(weights: Weights) -> Iterator[bytes]:
    """Length of the header, header, values: https://github.com/huggingface/safetensors#format."""
    header: dict[str, Any] = {}
    place = 0
    for name, (shape, values) in weights.items():
        end = place + 2 * len(values)
        header[name] = {"dtype": "F16", "shape": shape, "data_offsets": [place, end]}
        place = end
    text = json.dumps(header).encode()
    yield len(text).to_bytes(8, "little") + text
    for _, values in weights.values():
        yield struct.pack(f"<{len(values)}e", *values)


def _add(file: Path, name: str, tensor: Values) -> None:
    """One more tensor behind those of a file."""
    data = file.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    shape, values = tensor
    offsets = [len(data) - start, len(data) - start + 2 * len(values)]
    entry = {"dtype": "F16", "shape": shape, "data_offsets": offsets}
    text = json.dumps({**json.loads(data[8:start]), name: entry}).encode()
    packed = struct.pack(f"<{len(values)}e", *values)
    file.write_bytes(len(text).to_bytes(8, "little") + text + data[start:] + packed)
