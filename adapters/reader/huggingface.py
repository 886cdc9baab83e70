"""A Hugging Face folder: config.json, the headers of its weight files, its tokenizer."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec

from adapters.checkpoint import Checkpoint, Vocabulary
from adapters.reader import shape
from adapters.reader.head import bundled_block, mask_token, read_head
from adapters.reader.pickled import read_pickled
from adapters.reader.safetensors import read_safetensors
from adapters.reader.settings import Settings
from adapters.reader.source import Unreadable, read_json, reason
from adapters.reader.tensor import Tensor, Tensors
from adapters.reader.tokenizer import read_vocabulary

LARGEST_CONFIG = 8 << 20  # bytes
LARGEST_INDEX = 64 << 20  # bytes; DeepSeek-V3's has 9 MB
MOST_FILES = 10_000
INDEX = "model.safetensors.index.json"
_PICKLED = (".bin", ".pt", ".pth")
_NOT_WEIGHTS = ("training_args", "optimizer", "scheduler", "rng_state", "adapter_model")
_SENSES = ("vision_config", "audio_config", "vision_tower", "mm_vision_tower", "visual")
_DTYPES: Final[Mapping[str, str]] = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
}


class _Index(msgspec.Struct):
    """`weight_map` gives the file of each tensor."""

    weight_map: dict[str, str] = {}  # msgspec copies an empty default


def read_folder(path: Path) -> Checkpoint:
    """What a folder says of its model. Never raises: what could not be read is in `silent`."""
    silent: list[str] = []
    data = _config(path, silent)
    tensors = _tensors(path, silent)
    if data is None:
        return Checkpoint(str(path), "huggingface", silent=tuple(silent))
    config = Settings(shape.language_config(data), "config.json")
    found = _checkpoint(path, config, tensors)
    is_head = found.head is not None
    vocabulary = _vocabulary(path, config.data, silent, is_head)
    silent += [*config.complaints, *_doubts(found)]
    has_senses = config.has(*_SENSES)
    return replace(found, vocabulary=vocabulary, is_multimodal=has_senses, silent=tuple(silent))


def _checkpoint(path: Path, config: Settings, tensors: Tensors) -> Checkpoint:
    layers, head = shape.layers(config), read_head(config, tensors)
    attention = shape.attention(config)
    mtp = [] if head else tensors.names_of_mtp(layers)
    return Checkpoint(
        str(path),
        "huggingface",
        architecture=_architecture(config),
        layers=layers,
        hidden=shape.hidden(config),
        heads=attention.heads,
        kv_heads=attention.kv_heads,
        head_dim=attention.head_dim,
        value_dim=attention.value_dim,
        cache=shape.cache_form(config),
        context=shape.context(config),
        vocabulary_size=config.size("vocab_size", "padded_vocab_size"),
        dtype=config.text("dtype", "torch_dtype") or _dtype(tensors),
        quantization=shape.quantization(config),
        weight_bytes=tensors.weight_bytes,
        mtp_layers=0 if head else shape.mtp_layers(config) or _counted(mtp),
        mtp_bytes=tensors.size_of(mtp),
        block=None if head else bundled_block(config, tensors),
        mask_token=mask_token(config),
        head=head,
    )


def _counted(names: list[str]) -> int:
    """Layers of an `mtp.` part that the config does not mention."""
    return 1 if any("mtp." in name for name in names) else 0


def _config(path: Path, silent: list[str]) -> Mapping[str, Any] | None:
    file = path / "config.json"
    if not os.path.lexists(file):
        hint = "; name one of its GGUF files" if any(_named(path, (".gguf",))) else ""
        silent.append(f"no config.json in the folder{hint}")
        return None
    try:
        data = read_json(file, largest=LARGEST_CONFIG)
    except Unreadable as error:
        silent.append(f"config.json: {error}")
        return None
    if not isinstance(data, dict):
        silent.append("config.json is not a mapping")
        return None
    return data


def _architecture(config: Settings) -> str | None:
    names = config.data.get("architectures")
    first = names[0] if isinstance(names, list) and names else None
    return first if isinstance(first, str) else None


def _dtype(tensors: Tensors) -> str | None:
    return _DTYPES.get(tensors.dtype or "")


def _tensors(path: Path, silent: list[str]) -> Tensors:
    files = _weight_files(path, silent)
    if not files:
        return Tensors()
    by_name: dict[str, Tensor] = {}
    is_whole, pickled_bytes = True, 0
    for file in files:
        try:
            if file.name.endswith(_PICKLED):
                found, size = read_pickled(file)
                pickled_bytes += size
            else:
                found = read_safetensors(file)
        except Unreadable as error:
            silent.append(f"{file.name}: {error}")
            is_whole = False
        else:
            by_name |= found
    return Tensors(by_name, is_whole and bool(by_name), pickled_bytes or None)


def _weight_files(path: Path, silent: list[str]) -> list[Path]:
    """Those an engine would load: the index's, else safetensors, else PyTorch's."""
    if (path / INDEX).exists():
        try:
            return _indexed(path)
        except Unreadable as error:
            silent.append(f"{INDEX}: {error}")
    try:
        tensors = list(_named(path, (".safetensors",)))
        # Mistral's repositories hold their weights twice.
        own = [file for file in tensors if not file.name.startswith("consolidated")]
        files = sorted(own or tensors) or sorted(_named(path, _PICKLED))
        silent += [] if files else ["no weight files in the folder"]
        return files
    except OSError as error:
        silent.append(f"the folder: {reason(error)}")
        return []


def _indexed(path: Path) -> list[Path]:
    index: _Index = read_json(path / INDEX, _Index, LARGEST_INDEX)
    names = set(index.weight_map.values())
    if not names:
        raise Unreadable("no weight_map in it")
    if len(names) > MOST_FILES:
        raise Unreadable(f"it names {len(names)} files, more than the {MOST_FILES} that are read")
    strange = sorted(name for name in names if "/" in name or "\0" in name)
    if strange:
        raise Unreadable(f"it names files outside the folder: {strange[:1]}")
    return [path / name for name in sorted(names)]


def _named(path: Path, endings: tuple[str, ...]) -> Iterator[Path]:
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.name.endswith(endings) and not entry.name.startswith(_NOT_WEIGHTS):
                yield path / entry.name


def _vocabulary(
    path: Path, config: Mapping[str, Any], silent: list[str], is_head: bool
) -> Vocabulary | None:
    """A head without a tokenizer uses its target's: that is no gap."""
    try:
        return read_vocabulary(path, config)
    except Unreadable as error:
        if not (is_head and str(error).startswith("no tokenizer.json")):
            silent.append(str(error))
        return None


def _doubts(found: Checkpoint) -> Iterator[str]:
    """Where config and weights do not go together."""
    if found.mtp_layers and not found.mtp_bytes and found.weight_bytes is not None:
        layers = found.mtp_layers
        yield f"config.json counts {layers} MTP layers, but none of the tensors is named like one"
