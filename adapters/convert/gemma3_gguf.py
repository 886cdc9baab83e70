"""Turn a Gemma 3 GGUF into a Hugging Face folder, because vLLM reads no GGUF on a CPU.

Usage: gemma3_gguf.py IN.gguf OUT_DIR [float32|bfloat16]

A program for the Python of a vLLM environment: draftgate runs it and never imports it.
Exit codes: 0 converted (or already there), 1 could not finish, 2 this input cannot be converted.
"""

import contextlib
import fcntl
import hashlib
import json
import re
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import torch
from gguf import GGUFReader, dequantize
from safetensors import SafetensorError
from safetensors.torch import save_file
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing
from transformers import AutoTokenizer

OUTER = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}
INNER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_output": "self_attn.o_proj",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "post_ffw_norm": "post_feedforward_layernorm",
}
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
# Every sixth Gemma 3 layer sees the whole context; GGUF does not record it.
FULL_ATTENTION_EVERY = 6
LOCAL_ROPE_BASE = 10000.0
TOKENIZER_BYTES = 64 << 20
RECORD = "draftgate_source.json"
# Raise it with every change to what is written, so that older folders are not taken for current.
REVISION = "1"


class InputError(Exception):
    """This input cannot be converted, however often one tries."""


class ConversionError(Exception):
    """The conversion could not finish here and now."""


def weight_name(name: str) -> str:
    """The Hugging Face name of a GGUF tensor. Raises InputError."""
    if outer := OUTER.get(name.removesuffix(".weight")):
        return f"{outer}.weight"
    match = re.fullmatch(r"blk\.(\d+)\.(\w+)\.weight", name)
    if match is None or match[2] not in INNER:
        raise InputError(f"unknown tensor {name!r}: only text-only Gemma 3 models are converted")
    return f"model.layers.{match[1]}.{INNER[match[2]]}.weight"


def expected_names(layers: int) -> set[str]:
    """The names of all weights of a model with so many layers."""
    inner = {f"model.layers.{i}.{name}.weight" for i in range(layers) for name in INNER.values()}
    return inner | {f"{name}.weight" for name in OUTER.values()}


class Source:
    """An open GGUF file of the gemma3 architecture."""

    def __init__(self, path: Path) -> None:
        """Raises InputError when the file is none."""
        try:
            self.reader = GGUFReader(path)
        except (OSError, ValueError, IndexError) as error:
            raise InputError(f"{path}: not a complete GGUF file: {error}") from error
        self.path = path
        architecture = self.field("general.architecture")
        if architecture != "gemma3":
            raise InputError(f"{path}: architecture {architecture!r}, only 'gemma3' is converted")
        if self.find("gemma3.rope.scaling.type") not in (None, "none"):
            raise InputError(f"{path}: scaled rotary embeddings are not converted (4B and larger)")

    def find(self, key: str) -> Any:
        """A metadata value, None when absent."""
        field = self.reader.fields.get(key)
        return None if field is None else field.contents()

    def field(self, key: str) -> Any:
        """A metadata value. Raises InputError when absent."""
        value = self.find(key)
        if value is None:
            raise InputError(f"{self.path}: metadata {key!r} is missing")
        return value

    def weight_bytes(self, dtype: str) -> int:
        """Size of all weights once dequantised to dtype."""
        elements = sum(int(tensor.n_elements) for tensor in self.reader.tensors)
        return elements * int(DTYPES[dtype].itemsize)

    def weights(self, dtype: str) -> dict[str, Any]:
        """All weights, dequantised. Raises InputError for one too many or one too few."""
        found = {
            weight_name(tensor.name): self._weight(tensor, dtype) for tensor in self.reader.tensors
        }
        missing = expected_names(self.field("gemma3.block_count")) - found.keys()
        if missing:
            raise InputError(f"{self.path}: {len(missing)} weights missing, e.g. {min(missing)}")
        return found

    @staticmethod
    def _weight(tensor: Any, dtype: str) -> Any:
        rows_first = [int(size) for size in reversed(tensor.shape)]
        values = torch.from_numpy(dequantize(tensor.data, tensor.tensor_type).copy())
        if tensor.name.endswith("norm.weight"):
            # GGUF holds 1 + w, because llama.cpp's norm multiplies by the weight alone.
            values = values - 1
        return values.reshape(rows_first).to(DTYPES[dtype]).contiguous()


def model_config(source: Source, vocabulary: int, dtype: str) -> dict[str, Any]:
    """config.json of the folder. Raises InputError."""
    layers = source.field("gemma3.block_count")
    head_size = source.field("gemma3.attention.key_length")
    return {
        "architectures": ["Gemma3ForCausalLM"],
        "model_type": "gemma3_text",
        "dtype": dtype,
        "vocab_size": vocabulary,
        "hidden_size": source.field("gemma3.embedding_length"),
        "intermediate_size": source.field("gemma3.feed_forward_length"),
        "num_hidden_layers": layers,
        "num_attention_heads": source.field("gemma3.attention.head_count"),
        "num_key_value_heads": source.field("gemma3.attention.head_count_kv"),
        "head_dim": head_size,
        "query_pre_attn_scalar": head_size,
        "sliding_window": source.field("gemma3.attention.sliding_window"),
        "layer_types": [attention_kind(index) for index in range(layers)],
        "rope_theta": source.field("gemma3.rope.freq_base"),
        "rope_local_base_freq": LOCAL_ROPE_BASE,
        "max_position_embeddings": source.field("gemma3.context_length"),
        "rms_norm_eps": source.field("gemma3.attention.layer_norm_rms_epsilon"),
        "hidden_activation": "gelu_pytorch_tanh",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "attn_logit_softcapping": None,
        "final_logit_softcapping": None,
        "tie_word_embeddings": True,
        "bos_token_id": source.field("tokenizer.ggml.bos_token_id"),
        "eos_token_id": source.field("tokenizer.ggml.eos_token_id"),
        "pad_token_id": source.field("tokenizer.ggml.padding_token_id"),
        "use_cache": True,
    }


def attention_kind(layer: int) -> str:
    """Which attention a layer, counted from 0, has."""
    return "sliding_attention" if (layer + 1) % FULL_ATTENTION_EVERY else "full_attention"


def write_tokenizer(source: Source, folder: Path) -> None:
    """Write the tokenizer with BOS before every text: without it Gemma's output is garbage."""
    path = source.path.resolve()
    AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name).save_pretrained(folder)
    number = source.field("tokenizer.ggml.bos_token_id")
    start = source.field("tokenizer.ggml.tokens")[number]
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.post_processor = TemplateProcessing(
        single=f"{start} $A",
        pair=f"{start} $A {start} $B",
        special_tokens=[(start, number)],
    )
    tokenizer.save(str(folder / "tokenizer.json"))


def write_model(source: Source, folder: Path, dtype: str) -> None:
    """Write everything that vLLM loads into an existing folder."""
    weights = source.weights(dtype)
    vocabulary = weights["model.embed_tokens.weight"].shape[0]
    config = model_config(source, vocabulary, dtype)
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    file = folder / "model.safetensors"
    save_file(weights, file, metadata={"format": "pt"})
    # save_file lets nobody but its owner read the weights.
    file.chmod(0o644)
    write_tokenizer(source, folder)


def origin(path: Path, dtype: str) -> dict[str, str]:
    """What a folder was made from. Raises InputError when the file cannot be read."""
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    return {"sha256": digest, "dtype": dtype, "revision": REVISION}


def is_made_from(folder: Path, made_from: dict[str, str]) -> bool:
    """Whether an existing folder is this very conversion. Raises ConversionError if it is other."""
    if not folder.exists():
        return False
    record = folder / RECORD
    if not record.is_file() or json.loads(record.read_text()) != made_from:
        raise ConversionError(f"{folder} exists and is another conversion: remove it to go on")
    return True


def require_space(folder: Path, needed: int) -> None:
    """Raises ConversionError when fewer than so many bytes are free."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ConversionError(
            f"disk full: {folder} has {free >> 20} MB free, {needed >> 20} MB needed"
        )


@contextlib.contextmanager
def exclusive(target: Path) -> Iterator[None]:
    """Hold the right to write target; a second conversion waits for the first."""
    with target.with_name(f".{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def appearing(target: Path) -> Iterator[Path]:
    """A folder to fill that becomes target at the end, and vanishes on any failure."""
    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir()
        yield partial
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def convert(path: Path, target: Path, dtype: str) -> str:
    """Convert, and say in a line what was done. Raises InputError or ConversionError."""
    began = time.monotonic()
    made_from = origin(path, dtype)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with exclusive(target):
            if is_made_from(target, made_from):
                return f"{target}: already converted"
            source = Source(path)
            require_space(target.parent, source.weight_bytes(dtype) + TOKENIZER_BYTES)
            with appearing(target) as folder:
                write_model(source, folder, dtype)
                (folder / RECORD).write_text(json.dumps(made_from, indent=1))
    except (OSError, SafetensorError) as error:
        raise ConversionError(f"cannot write {target}: {error}") from error
    return f"{target}: converted to {dtype} in {time.monotonic() - began:.0f} s"


def stop(_number: int, _frame: object) -> NoReturn:
    """Let SIGTERM unwind the stack, so that the half-made folder is removed."""
    sys.exit(1)


def main(arguments: list[str]) -> int:
    """Run the program and return its exit code."""
    signal.signal(signal.SIGTERM, stop)
    if len(arguments) not in (2, 3) or arguments[2:] not in ([], *([name] for name in DTYPES)):
        sys.stderr.write("usage: gemma3_gguf.py IN.gguf OUT_DIR [float32|bfloat16]\n")
        return 2
    dtype = arguments[2] if len(arguments) == 3 else "float32"
    try:
        said = convert(Path(arguments[0]), Path(arguments[1]), dtype)
    except (InputError, ConversionError) as error:
        sys.stderr.write(f"gemma3_gguf: {error}\n")
        return 2 if isinstance(error, InputError) else 1
    sys.stdout.write(f"{said}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
