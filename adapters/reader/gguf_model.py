"""A GGUF file, or the parts of a split one, as a checkpoint.

Names of keys: llama.cpp src/llama-arch.cpp and its speculative models, b11434.
"""

import re
from array import array
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from adapters.checkpoint import CacheForm, Checkpoint, Head, HeadKind, Vocabulary
from adapters.reader.gguf import Gguf, read_gguf
from adapters.reader.settings import Settings
from adapters.reader.shape import is_wide
from adapters.reader.source import Unreadable
from adapters.reader.tensor import Tensors

MOST_PARTS = 512
_PART = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.gguf")
# Kinds of tokens (llama_token_type in include/llama.h); unused ones pad the vocabulary.
_CONTROL, _USER_DEFINED, _UNUSED = 3, 4, 5
_HYBRID = (
    "ssm.conv_kernel",
    "wkv.head_size",
    "shortconv.l_cache",
    "full_attention_interval",
    "attention.recurrent_layers",
    "attention.shared_kv_layers",
    "attention.compress_ratios",
    "decoder_block_count",
    "kda.head_dim",
)
_DTYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}


def read_file(path: Path) -> Checkpoint:
    """What a GGUF says of its model. Never raises: what could not be read is in `silent`."""
    try:
        first = read_gguf(path)
    except Unreadable as error:
        return Checkpoint(str(path), "gguf", silent=(str(error),))
    silent = [first.problem] if first.problem else []
    tensors = _tensors(path, first, silent)
    architecture = first.facts.get("general.architecture")
    if not isinstance(architecture, str):
        silent.append("its metadata has no general.architecture")
        architecture = ""
    prefix = f"{architecture}."
    own = {k.removeprefix(prefix): v for k, v in first.facts.items() if k.startswith(prefix)}
    config = Settings(own, prefix.rstrip("."))
    tokenizer = _below(first, "tokenizer.ggml.")
    found = _checkpoint(path, architecture, config, tensors, tokenizer)
    silent += [*config.complaints, *tokenizer.complaints]
    if found.vocabulary is None:
        silent.append("no tokens in its metadata")
    return replace(found, silent=tuple(silent))


def _below(file: Gguf, prefix: str) -> Settings:
    facts = {k.removeprefix(prefix): v for k, v in file.facts.items() if k.startswith(prefix)}
    return Settings(facts, prefix.rstrip("."))


def _checkpoint(
    path: Path, architecture: str, config: Settings, tensors: Tensors, tokenizer: Settings
) -> Checkpoint:
    blocks, mtp_layers = config.count("block_count"), config.count("nextn_predict_layers") or 0
    layers = None if blocks is None else max(blocks - mtp_layers, 0)  # block_count has both
    vocabulary = _vocabulary(tokenizer)
    heads = config.size("attention.head_count") if _is_one(config, "head_count") else None
    hidden, dtype = config.size("embedding_length"), tensors.dtype or ""
    key = config.size("attention.key_length") or (hidden // heads if hidden and heads else None)
    return Checkpoint(
        str(path),
        "gguf",
        architecture=architecture or None,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=_kv_heads(config, heads),
        head_dim=key,
        value_dim=config.size("attention.value_length"),
        cache=_cache_form(config),
        context=config.size("context_length"),
        vocabulary_size=_rows(tensors) or config.size("vocab_size"),
        dtype=_DTYPES.get(dtype),
        quantization=None if dtype in _DTYPES or not dtype else dtype,
        weight_bytes=tensors.weight_bytes,
        mtp_layers=mtp_layers,
        mtp_bytes=tensors.size_of(tensors.names_of_mtp(layers)) if mtp_layers else 0,
        mask_token=tokenizer.count("mask_token_id"),
        head=_head(architecture, config, tensors),
        vocabulary=vocabulary,
    )


def _is_one(config: Settings, name: str) -> bool:
    return not isinstance(config.data.get(f"attention.{name}"), array)


def _kv_heads(config: Settings, heads: int | None) -> int | None:
    """One number for all layers; a list counts where all its numbers are the same."""
    if _is_one(config, "head_count_kv"):
        return config.size("attention.head_count_kv") or heads
    numbers = set(config.counts("attention.head_count_kv") or ())
    return numbers.pop() if len(numbers) == 1 else None


def _cache_form(config: Settings) -> CacheForm:
    if config.has(*_HYBRID):
        return "hybrid"
    if config.has("attention.kv_lora_rank"):
        return "latent"
    window = config.count("attention.sliding_window")
    if window and not is_wide(window, config.size("context_length")):
        return "sliding"
    differs = not _is_one(config, "head_count_kv") and _kv_heads(config, None) is None
    return "hybrid" if differs else "full"


def _rows(tensors: Tensors) -> int | None:
    shape = tensors.shape("token_embd.weight", "output.weight")
    return shape[0] if shape and len(shape) == 2 else None


def _vocabulary(tokenizer: Settings) -> Vocabulary | None:
    tokens, kinds = tokenizer.data.get("tokens"), tokenizer.data.get("token_type")
    if not isinstance(tokens, list):
        return None
    texts: list[str | None] = list(tokens)
    kinds = kinds if isinstance(kinds, array) and len(kinds) == len(texts) else array("i")
    if _UNUSED in kinds:
        texts = [None if k == _UNUSED else t for t, k in zip(texts, kinds, strict=True)]
    return Vocabulary(
        tuple(texts),
        tokenizer.text("model") or "",
        tokenizer.count("bos_token_id"),
        tokenizer.count("eos_token_id"),
        tokenizer.flag("add_bos_token"),
        tokenizer.flag("add_eos_token"),
        _of_kind(kinds, _CONTROL),
        _of_kind(kinds, _USER_DEFINED),
    )


def _of_kind(kinds: Iterable[int], kind: int) -> frozenset[int]:
    return frozenset(index for index, found in enumerate(kinds) if found == kind)


def _head(architecture: str, config: Settings, tensors: Tensors) -> Head | None:
    kinds: dict[str, HeadKind] = {"eagle3": "eagle3", "dflash": "dflash", "dspark": "dspark"}
    kind = kinds.get(architecture)
    if kind is None:
        return None
    if kind == "dflash" and tensors.any_name("markov"):
        kind = "dspark"  # llama.cpp keeps DSpark as a DFlash with a Markov head
    shortened = tensors.shape("d2t.weight", "d2t") or tensors.shape("output.weight")
    return Head(
        kind,
        config.size("target_hidden_size") or config.size("embedding_length"),
        config.counts("target_layers", "extract_layers"),
        shortened[0] if shortened else None,
        _block(config, kind),
    )


def _block(config: Settings, kind: HeadKind) -> int | None:
    size = None if kind == "eagle3" else config.size("block_size")
    if size is None or config.flag("sample_from_anchor"):
        return size
    return max(size - 1, 1)


def _tensors(path: Path, first: Gguf, silent: list[str]) -> Tensors:
    """All parts' tensors; a split model is named by its first part."""
    by_name = dict(first.tensors)
    is_whole = not first.problem
    for part in _other_parts(path, silent):
        try:
            found = read_gguf(part)
        except Unreadable as error:
            silent.append(f"{part.name}: {error}")
            is_whole = False
            continue
        by_name |= found.tensors
        if found.problem:
            silent.append(f"{part.name}: {found.problem}")
            is_whole = False
    return Tensors(by_name, is_whole and bool(by_name))


def _other_parts(path: Path, silent: list[str]) -> list[Path]:
    match = _PART.fullmatch(path.name)
    if match is None:
        return []
    stem, number, parts = match[1], int(match[2]), int(match[3])
    if number != 1:
        silent.append(f"it is part {number} of {parts}: name the first, {stem}-00001-of-{match[3]}")
    last = min(parts, MOST_PARTS)
    numbers = (n for n in range(1, last + 1) if n != number)
    return [path.with_name(f"{stem}-{n:05}-of-{match[3]}.gguf") for n in numbers]
