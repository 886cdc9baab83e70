"""Write a test model as GGUF, for llama.cpp, with nothing but the standard library.

Usage: python -m tests.models.to_gguf MODEL_DIR OUT.gguf
The weights are widened from float16 to float32, which changes no value, so that llama.cpp and an
engine that runs the folder in float32 compute from the same numbers. An EAGLE-3 head
(`draft_vocab_size` in its config) is written as llama.cpp's architecture `eagle3`.
Layout: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import json
import struct
import sys
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VERSION = 3
ALIGNMENT = 32
UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
TENSOR_FLOAT32 = 0
NORMAL, CONTROL = 1, 3
# A tensor's name in the folder, its layer cut out, and in GGUF.
NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
    "fc.weight": "fc.weight",
    "input_layernorm.weight": "attn_norm.weight",
    "hidden_norm.weight": "attn_norm_2.weight",
    "post_attention_layernorm.weight": "ffn_norm.weight",
    "self_attn.q_proj.weight": "attn_q.weight",
    "self_attn.k_proj.weight": "attn_k.weight",
    "self_attn.v_proj.weight": "attn_v.weight",
    "self_attn.o_proj.weight": "attn_output.weight",
    "mlp.gate_proj.weight": "ffn_gate.weight",
    "mlp.up_proj.weight": "ffn_up.weight",
    "mlp.down_proj.weight": "ffn_down.weight",
}


@dataclass(frozen=True)
class Tensor:
    """Values row by row; the last dimension is the nearest in memory."""

    name: str
    shape: tuple[int, ...]
    values: "array[float]"


def read_safetensors(path: Path) -> Iterator[Tensor]:
    """Every float16 tensor of a file; ValueError for another type."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    for name, entry in json.loads(data[8:start]).items():
        if name == "__metadata__":
            continue
        if entry["dtype"] != "F16":
            raise ValueError(f"{path}: {name} is {entry['dtype']}, not F16")
        first, last = entry["data_offsets"]
        halves = struct.unpack(f"<{(last - first) // 2}e", data[start + first : start + last])
        yield Tensor(name, tuple(entry["shape"]), array("f", halves))


def gguf_name(name: str) -> str:
    """llama.cpp's name of a tensor; KeyError for one that a Llama or its head does not have."""
    for prefix in ("model.layers.", "midlayer."):
        if name.startswith(prefix):
            rest = name.removeprefix(prefix)
            layer, rest = rest.split(".", 1) if prefix == "model.layers." else ("0", rest)
            return f"blk.{layer}.{NAMES[rest]}"
    return NAMES[name]


def interleave(tensor: Tensor, heads: int) -> Tensor:
    """Rows of queries or keys in llama.cpp's order.

    The folder rotates row i of a head with row i + half; llama.cpp rotates neighbours.
    """
    rows, width = tensor.shape
    half = rows // heads // 2
    values = array("f")
    for head in range(heads):
        for index in range(half):
            for row in (2 * head * half + index, (2 * head + 1) * half + index):
                values += tensor.values[row * width : (row + 1) * width]
    return Tensor(tensor.name, tensor.shape, values)


def convert(tensor: Tensor, config: dict[str, Any]) -> Tensor:
    """One tensor as llama.cpp wants it."""
    if "q_proj" in tensor.name:
        tensor = interleave(tensor, config["num_attention_heads"])
    if "k_proj" in tensor.name:
        tensor = interleave(tensor, config["num_key_value_heads"])
    return Tensor(gguf_name(tensor.name), tensor.shape, tensor.values)


def shape_facts(config: dict[str, Any]) -> dict[str, Any]:
    """GGUF's keys for the shape of the model."""
    head = "draft_vocab_size" in config
    kind = "eagle3" if head else "llama"
    facts = {
        "general.architecture": kind,
        "general.file_type": 0,
        f"{kind}.block_count": config["num_hidden_layers"],
        f"{kind}.context_length": config["max_position_embeddings"],
        f"{kind}.embedding_length": config["hidden_size"],
        f"{kind}.feed_forward_length": config["intermediate_size"],
        f"{kind}.attention.head_count": config["num_attention_heads"],
        f"{kind}.attention.head_count_kv": config["num_key_value_heads"],
        f"{kind}.attention.layer_norm_rms_epsilon": float(config["rms_norm_eps"]),
        f"{kind}.rope.dimension_count": config["hidden_size"] // config["num_attention_heads"],
        f"{kind}.rope.freq_base": float(config["rope_parameters"]["rope_theta"]),
        f"{kind}.vocab_size": config["vocab_size"],
    }
    if head:
        facts["eagle3.target_layers"] = config["eagle_aux_hidden_state_layer_ids"]
        facts["eagle3.target_hidden_size"] = config["target_hidden_size"]
    return facts


def token_facts(folder: Path, config: dict[str, Any]) -> dict[str, Any]:
    """GGUF's keys for the tokenizer."""
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    ids = sorted(tokenizer["model"]["vocab"].items(), key=lambda item: item[1])
    special = {token["id"] for token in tokenizer["added_tokens"] if token["special"]}
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": [text for text, _ in ids],
        "tokenizer.ggml.token_type": [CONTROL if i in special else NORMAL for _, i in ids],
        "tokenizer.ggml.merges": [" ".join(pair) for pair in tokenizer["model"]["merges"]],
        "tokenizer.ggml.bos_token_id": config["bos_token_id"],
        "tokenizer.ggml.eos_token_id": config["eos_token_id"],
        "tokenizer.ggml.padding_token_id": config["pad_token_id"],
        "tokenizer.ggml.add_bos_token": True,
        "tokenizer.chat_template": (folder / "chat_template.jinja").read_text(),
    }


def packed(value: Any) -> tuple[int, bytes]:
    """GGUF's type number and bytes of a value; ints in lists are signed, alone unsigned."""
    match value:
        case bool():
            return BOOL, struct.pack("<?", value)
        case int():
            return UINT32, struct.pack("<I", value)
        case float():
            return FLOAT32, struct.pack("<f", value)
        case str():
            text = value.encode()
            return STRING, struct.pack("<Q", len(text)) + text
        case [int(), *_]:
            numbers = struct.pack(f"<{len(value)}i", *value)
            return ARRAY, struct.pack("<IQ", INT32, len(value)) + numbers
        case _:
            texts = b"".join(packed(item)[1] for item in value)
            return ARRAY, struct.pack("<IQ", STRING, len(value)) + texts


def padding(size: int) -> bytes:
    return bytes(-size % ALIGNMENT)


def header(facts: dict[str, Any], tensors: list[Tensor]) -> bytes:
    """All that comes before the values, padded."""
    parts = [b"GGUF", struct.pack("<IQQ", VERSION, len(tensors), len(facts))]
    for key, value in facts.items():
        kind, content = packed(value)
        parts += [packed(key)[1], struct.pack("<I", kind), content]
    offset = 0
    for tensor in tensors:
        dimensions = struct.pack(f"<{len(tensor.shape)}Q", *reversed(tensor.shape))
        parts += [packed(tensor.name)[1], struct.pack("<I", len(tensor.shape)), dimensions]
        parts.append(struct.pack("<IQ", TENSOR_FLOAT32, offset))
        size = 4 * len(tensor.values)
        offset += size + len(padding(size))
    whole = b"".join(parts)
    return whole + padding(len(whole))


def write_gguf(folder: Path, target: Path) -> None:
    """Write the model of this folder; target appears only when it is whole."""
    config = json.loads((folder / "config.json").read_text())
    tensors = [convert(tensor, config) for tensor in read_safetensors(folder / "model.safetensors")]
    facts = shape_facts(config) | {"general.name": folder.name} | token_facts(folder, config)
    partial = target.with_name(f".{target.name}.partial")
    with partial.open("wb") as output:
        output.write(header(facts, tensors))
        for tensor in tensors:
            if sys.byteorder == "big":
                tensor.values.byteswap()
            values = tensor.values.tobytes()
            output.write(values + padding(len(values)))
    partial.replace(target)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python -m tests.models.to_gguf MODEL_DIR OUT.gguf")
    write_gguf(Path(sys.argv[1]), Path(sys.argv[2]))
