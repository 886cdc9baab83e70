"""Checkpoint: what a model's own files say of it, as data; read by `adapters/reader`."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

HeadKind: TypeAlias = Literal[
    "eagle", "eagle3", "medusa", "mlp_speculator", "mtp", "dflash", "dspark"
]


@dataclass(frozen=True)
class Vocabulary:
    """Tokens by id; None where an id has no token (padding of the embedding)."""

    tokens: tuple[str | None, ...]
    model: str = ""  # bpe, unigram, wordpiece …, as the tokenizer's file says
    bos: int | None = None
    eos: int | None = None
    adds_bos: bool | None = None
    adds_eos: bool | None = None


@dataclass(frozen=True)
class Head:
    """A drafter that reads the target's hidden states. A field is None where its files are silent.

    `layers` are the target's layers it was trained on; `length` is the number of positions it was
    trained to guess: heads of Medusa, block of DFlash and DSpark, n_predict of an MLP speculator.
    """

    kind: HeadKind
    target_hidden: int | None = None
    layers: tuple[int, ...] | None = None
    vocabulary_size: int | None = None
    length: int | None = None


@dataclass(frozen=True)
class Checkpoint:
    """A model's or head's facts. A field is None where its files do not say.

    Sizes are counts (layers, elements, tokens), `weight_bytes` is the sum of all tensors. `silent`
    tells in words what could not be read, such as a tokenizer that is not there.
    """

    source: str
    form: Literal["huggingface", "gguf"]
    architecture: str | None = None
    layers: int | None = None
    hidden: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    context: int | None = None
    vocabulary_size: int | None = None
    dtype: str | None = None
    quantization: str | None = None
    weight_bytes: int | None = None
    mtp_layers: int = 0
    mask_token: int | None = None
    is_multimodal: bool = False
    head: Head | None = None
    vocabulary: Vocabulary | None = None
    silent: tuple[str, ...] = ()
