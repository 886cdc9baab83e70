"""Checkpoint: what a model's own files say of it, as data; read by `adapters/reader`."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

HeadKind: TypeAlias = Literal[
    "eagle", "eagle3", "medusa", "mlp_speculator", "mtp", "dflash", "dspark"
]
# What layers keep of the tokens: keys and values of all of them, of the last ones only, a latent
# that both are made from (DeepSeek's MLA), or something else in some layers (Mamba, shared ones).
CacheForm: TypeAlias = Literal["full", "sliding", "latent", "hybrid"]


@dataclass(frozen=True)
class Vocabulary:
    """Tokens by id; None where an id has no token (padding of the embedding).

    `special` are the ids of control tokens, which are no text; `added` are other ids that the
    tokenizer's own training did not give: reserved ones, and words of a later training.
    """

    tokens: tuple[str | None, ...]
    model: str = ""  # bpe, unigram, wordpiece …, as the tokenizer's file says
    bos: int | None = None
    eos: int | None = None
    adds_bos: bool | None = None
    adds_eos: bool | None = None
    special: frozenset[int] = frozenset()
    added: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Head:
    """A drafter that reads the target's hidden states. A field is None where its files are silent.

    `layers` are the target's states it was trained on: i is the state after i layers, 0 the
    embedding, and () means that it reads the last one only. `length` is the number of positions it
    was trained to guess: heads of Medusa, guesses in a block of DFlash and DSpark, n_predict of an
    MLP speculator. `vocabulary_size` counts the tokens it can guess.
    """

    kind: HeadKind
    target_hidden: int | None = None
    layers: tuple[int, ...] | None = None
    vocabulary_size: int | None = None
    length: int | None = None


@dataclass(frozen=True)
class Checkpoint:
    """A model's or head's facts. A field is None where its files do not say.

    Sizes are counts (layers, elements, tokens), `weight_bytes` is the sum of all tensors, None when
    their headers could not be read; `mtp_bytes` is the part of it that only multi-token prediction
    needs. `layers` counts those of the model itself, `mtp_layers` come on top. `head_dim` is the
    width of a key, `value_dim` of a value where it differs. `block` is the number of guesses of a
    DSpark drafter inside this checkpoint. `silent` tells in words what could not be read, such as a
    tokenizer that is not there.
    """

    source: str
    form: Literal["huggingface", "gguf"]
    architecture: str | None = None
    layers: int | None = None
    hidden: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    value_dim: int | None = None
    cache: CacheForm = "full"
    context: int | None = None
    vocabulary_size: int | None = None
    dtype: str | None = None
    quantization: str | None = None
    weight_bytes: int | None = None
    mtp_layers: int = 0
    mtp_bytes: int = 0
    block: int | None = None
    mask_token: int | None = None
    is_multimodal: bool = False
    head: Head | None = None
    vocabulary: Vocabulary | None = None
    silent: tuple[str, ...] = ()
