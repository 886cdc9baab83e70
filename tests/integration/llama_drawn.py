"""Models of kinds that nobody trained for the tests, as llama.cpp loads them, with drawn weights.

Their guesses come out of nothing: what is shown with them is that llama.cpp loads and drafts, how
far it guesses, and that it changes no token. Tensors: src/models/dflash.cpp and mimo2.cpp, b11549.
"""

import json
import random
from array import array
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.harness import ROOT
from tests.models.to_gguf import Tensor, header, padding, token_facts

TARGET = ROOT / "tests" / "models" / "target"
BLOCK = 4  # tokens: the one before and three guesses; DSpark guesses from it too
TAPPED = (1, 3, 5)
TRUNK = 2
HIDDEN, FORWARD, HEADS, KV_HEADS, HEAD_DIM, VOCABULARY, RANK = 128, 256, 4, 2, 32, 1024, 8


def write_block_drafter(file: Path, is_dspark: bool) -> None:
    """A DFlash drafter for the test target; DSpark has a Markov head besides."""
    facts = {
        **shape_facts("dflash", 1),
        "dflash.block_size": BLOCK,
        "dflash.target_layers": list(TAPPED),
        **({"dflash.sample_from_anchor": True} if is_dspark else {}),
        "tokenizer.ggml.mask_token_id": 3,
    }
    write(file, facts, block_tensors(Drawing(7), is_dspark))


def write_mtp_target(file: Path, layers: int) -> None:
    """A target of its own, with so many MTP layers behind it."""
    facts = {
        **shape_facts("mimo2", TRUNK + layers),
        "mimo2.nextn_predict_layers": layers,
        "mimo2.expert_feed_forward_length": FORWARD,
        "mimo2.attention.sliding_window": 128,
        "mimo2.attention.sliding_window_pattern": [0] * TRUNK + [1] * layers,
    }
    write(file, facts, mtp_tensors(Drawing(5), layers))


class Drawing:
    """Tensors with drawn values, and norms."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def weight(self, name: str, rows: int, columns: int) -> Tensor:
        values = (self.chance.gauss(0, 0.08) for _ in range(rows * columns))
        return Tensor(f"{name}.weight", (rows, columns), array("f", values))

    def norm(self, name: str, size: int = HIDDEN) -> Tensor:
        return Tensor(f"{name}.weight", (size,), array("f", [1.0] * size))

    def forward(self, layer: str) -> Iterator[Tensor]:
        yield self.norm(f"{layer}.attn_norm")
        yield self.norm(f"{layer}.ffn_norm")
        yield self.weight(f"{layer}.attn_output", HIDDEN, HEADS * HEAD_DIM)
        yield self.weight(f"{layer}.ffn_gate", FORWARD, HIDDEN)
        yield self.weight(f"{layer}.ffn_up", FORWARD, HIDDEN)
        yield self.weight(f"{layer}.ffn_down", HIDDEN, FORWARD)


def block_tensors(drawing: Drawing, is_dspark: bool) -> Iterator[Tensor]:
    yield drawing.weight("fc", HIDDEN, len(TAPPED) * HIDDEN)
    yield drawing.norm("enc.output_norm")
    yield drawing.norm("output_norm")
    yield from drawing.forward("blk.0")
    yield drawing.norm("blk.0.attn_q_norm", HEAD_DIM)
    yield drawing.norm("blk.0.attn_k_norm", HEAD_DIM)
    for name, heads in (("attn_q", HEADS), ("attn_k", KV_HEADS), ("attn_v", KV_HEADS)):
        yield drawing.weight(f"blk.0.{name}", heads * HEAD_DIM, HIDDEN)
    if is_dspark:
        yield drawing.weight("markov_w1", VOCABULARY, RANK)
        yield drawing.weight("markov_w2", VOCABULARY, RANK)


def mtp_tensors(drawing: Drawing, layers: int) -> Iterator[Tensor]:
    yield drawing.weight("token_embd", VOCABULARY, HIDDEN)
    yield drawing.weight("output", VOCABULARY, HIDDEN)
    yield drawing.norm("output_norm")
    for layer in (f"blk.{number}" for number in range(TRUNK + layers)):
        yield from drawing.forward(layer)
        yield drawing.weight(f"{layer}.attn_qkv", (HEADS + 2 * KV_HEADS) * HEAD_DIM, HIDDEN)
    for layer in (f"blk.{number}" for number in range(TRUNK, TRUNK + layers)):
        yield drawing.weight(f"{layer}.nextn.eh_proj", HIDDEN, 2 * HIDDEN)
        yield drawing.norm(f"{layer}.nextn.enorm")
        yield drawing.norm(f"{layer}.nextn.hnorm")
        yield drawing.norm(f"{layer}.layer_output_norm")


def shape_facts(kind: str, layers: int) -> dict[str, Any]:
    config = json.loads((TARGET / "config.json").read_text())
    return {
        "general.architecture": kind,
        f"{kind}.block_count": layers,
        f"{kind}.context_length": config["max_position_embeddings"],
        f"{kind}.embedding_length": HIDDEN,
        f"{kind}.feed_forward_length": FORWARD,
        f"{kind}.attention.head_count": HEADS,
        f"{kind}.attention.head_count_kv": KV_HEADS,
        f"{kind}.attention.key_length": HEAD_DIM,
        f"{kind}.attention.value_length": HEAD_DIM,
        f"{kind}.attention.layer_norm_rms_epsilon": 1e-6,
        f"{kind}.rope.dimension_count": HEAD_DIM,
        f"{kind}.rope.freq_base": 10000.0,
        f"{kind}.vocab_size": VOCABULARY,
        **token_facts(TARGET, config),
    }


def write(file: Path, facts: Mapping[str, Any], tensors: Iterable[Tensor]) -> None:
    drawn = list(tensors)
    with file.open("wb") as output:
        output.write(header(dict(facts), drawn))
        for tensor in drawn:
            values = tensor.values.tobytes()
            output.write(values + padding(len(values)))
