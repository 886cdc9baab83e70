"""Tiny model files of every form that is read, written byte by byte."""

import json
import math
import pickle
import struct
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

Shapes = Mapping[str, tuple[int, ...]]

UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY, UINT64 = 4, 5, 6, 7, 8, 9, 10
F32, Q4_K = 0, 12
SMALL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 8,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 2048,
    "vocab_size": 8,
    "dtype": "float16",
    "bos_token_id": 0,
}
TOKENS = ("<s>", "</s>", "a", "b", "c", "ab", "bc", "abc")


def safetensors(shapes: Shapes, dtype: str = "F16", width: int = 2) -> bytes:
    """A file of zeros."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, shape in shapes.items():
        size = math.prod(shape) * width
        entry = {"dtype": dtype, "shape": shape, "data_offsets": (offset, offset + size)}
        header[name] = entry
        offset += size
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(offset)


def tokenizer(tokens: Iterable[str] = TOKENS, special: Iterable[str] = TOKENS[:2]) -> str:
    ids = {token: index for index, token in enumerate(tokens)}
    added = [{"id": ids[token], "content": token, "special": True} for token in special]
    vocab = {token: index for token, index in ids.items() if token not in set(special)}
    return json.dumps(
        {"added_tokens": added, "model": {"type": "BPE", "vocab": vocab, "merges": []}}
    )


def folder(
    path: Path,
    config: Mapping[str, Any] | None = None,
    shapes: Shapes | None = None,
    tokens: Iterable[str] | None = TOKENS,
) -> Path:
    """A Hugging Face folder: `config` is laid over a small Llama's, None there takes a key out."""
    path.mkdir(parents=True, exist_ok=True)
    merged = {k: v for k, v in {**SMALL, **(config or {})}.items() if v is not None}
    (path / "config.json").write_text(json.dumps(merged))
    shapes = {"model.embed_tokens.weight": (8, 64)} if shapes is None else shapes
    (path / "model.safetensors").write_bytes(safetensors(shapes))
    if tokens is not None:
        (path / "tokenizer.json").write_text(tokenizer(tokens))
        options = {"bos_token": "<s>", "eos_token": {"content": "</s>"}, "add_bos_token": True}
        (path / "tokenizer_config.json").write_text(json.dumps(options))
    return path


def string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def packed(value: Any) -> bytes:
    """A value with its type, as GGUF has it."""
    match value:
        case bool():
            return struct.pack("<I?", BOOL, value)
        case int():
            return struct.pack("<II", UINT32, value)
        case float():
            return struct.pack("<If", FLOAT32, value)
        case str():
            return struct.pack("<I", STRING) + string(value)
        case [int(), *_]:
            return struct.pack(f"<IIQ{len(value)}i", ARRAY, INT32, len(value), *value)
        case _:
            head = struct.pack("<IIQ", ARRAY, STRING, len(value))
            return head + b"".join(string(item) for item in value)


def gguf(
    facts: Mapping[str, Any], shapes: Shapes | None = None, kind: int = F32, version: int = 3
) -> bytes:
    """A file whose data is zeros; shapes are outermost first, as everywhere else."""
    shapes = shapes or {}
    parts = [b"GGUF", struct.pack("<IQQ", version, len(shapes), len(facts))]
    parts += [string(key) + packed(value) for key, value in facts.items()]
    offset = 0
    for name, shape in shapes.items():
        size = math.prod(shape) * 4 if kind == F32 else math.prod(shape) // 256 * 144
        dimensions = struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
        parts.append(string(name) + dimensions + struct.pack("<IQ", kind, offset))
        offset += size + -size % 32
    header = b"".join(parts)
    return header + bytes(-len(header) % 32) + bytes(offset)


def llama_facts(**more: Any) -> dict[str, Any]:
    return {
        "general.architecture": "llama",
        "llama.block_count": 8,
        "llama.embedding_length": 64,
        "llama.attention.head_count": 4,
        "llama.attention.head_count_kv": 2,
        "llama.attention.key_length": 16,
        "llama.context_length": 2048,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": list(TOKENS),
        "tokenizer.ggml.token_type": [3, 3, 1, 1, 1, 1, 1, 1],
        "tokenizer.ggml.merges": ["a b", "b c", "a bc"],
        "tokenizer.ggml.scores": [0, 1, 2, 3, 4, 5, 6, 7],
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 1,
        "tokenizer.ggml.add_bos_token": True,
        **more,
    }


def pickled(path: Path, names: Iterable[str]) -> None:
    """A zip as torch.save lays it out, with the names of tensors in its pickle."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(dict.fromkeys(names, 0)))
        archive.writestr("archive/data/0", bytes(1000))
