"""A folder's vocabulary: tokenizer.json (huggingface/tokenizers), or GPT-2's vocab.json."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from adapters.checkpoint import Vocabulary
from adapters.reader.source import Unreadable, read_json

# The largest vocabularies in use have 262 144 tokens; an id far beyond is a broken file.
LARGEST_ID = 1 << 22
LARGEST_OPTIONS = 8 << 20  # bytes; those of Llama 3 take 50 kB


class _Model(msgspec.Struct):
    """`vocab` maps texts to ids; Unigram lists [text, score] by id."""

    vocab: dict[str, int] | list[tuple[str, float]] = {}  # msgspec copies an empty default
    type: str | None = None


class _Added(msgspec.Struct):
    id: int
    content: str
    special: bool = False


class _Tokenizer(msgspec.Struct):
    model: _Model
    added_tokens: list[_Added] = []


@dataclass(frozen=True)
class _Tokens:
    """Ids by text, and the kind of tokenizer; the sets are those of `Vocabulary`."""

    ids: Mapping[str, int]
    model: str
    special: frozenset[int] = frozenset()
    added: frozenset[int] = frozenset()


def read_vocabulary(folder: Path, config: Mapping[str, Any]) -> Vocabulary:
    """The vocabulary of a folder; `config` is its config.json. Raises Unreadable."""
    found = _read(folder)
    tokens = _by_id(found.ids)
    options = _options(folder)
    return Vocabulary(
        tokens,
        found.model,
        _special(options, "bos_token", found.ids, config),
        _special(options, "eos_token", found.ids, config),
        _flag(options, "add_bos_token"),
        _flag(options, "add_eos_token"),
        found.special,
        found.added,
    )


def _read(folder: Path) -> _Tokens:
    if (folder / "tokenizer.json").exists():
        return _of_tokenizer(_named(folder / "tokenizer.json", _Tokenizer))
    if (folder / "vocab.json").exists():
        ids = _named(folder / "vocab.json", dict[str, int])
        file, added = folder / "added_tokens.json", {}
        if file.exists():
            added = _named(file, dict[str, int])
        return _Tokens(ids | added, "bpe", added=frozenset(added.values()))
    raise Unreadable(_absence(folder))


def _of_tokenizer(data: _Tokenizer) -> _Tokens:
    ids, added = _model_ids(data.model), data.added_tokens
    ids.update((token.content, token.id) for token in added)
    special = frozenset(token.id for token in added if token.special)
    return _Tokens(
        ids, _kind(data.model), special, frozenset(token.id for token in added) - special
    )


def _named(file: Path, kind: Any) -> Any:
    try:
        return read_json(file, kind)
    except Unreadable as error:
        raise Unreadable(f"{file.name}: {error}") from error


def _absence(folder: Path) -> str:
    others = ("tokenizer.model", "tekken.json", "tiktoken.model", "vocab.txt")
    there = [name for name in others if (folder / name).exists()]
    if there:
        return f"{there[0]} is not read here, only tokenizer.json and vocab.json"
    return "no tokenizer.json in the folder"


def _model_ids(model: _Model) -> dict[str, int]:
    if isinstance(model.vocab, dict):
        return model.vocab
    return {text: index for index, (text, _) in enumerate(model.vocab)}


def _kind(model: _Model) -> str:
    if model.type:
        return model.type.lower()
    return "bpe" if isinstance(model.vocab, dict) else "unigram"


def _by_id(ids: Mapping[str, int]) -> tuple[str | None, ...]:
    highest, lowest = max(ids.values(), default=-1), min(ids.values(), default=0)
    if highest > LARGEST_ID or lowest < 0:
        raise Unreadable(f"the tokenizer has ids from {lowest} to {highest}")
    tokens: list[str | None] = [None] * (highest + 1)
    for text, index in ids.items():
        tokens[index] = text
    return tuple(tokens)


def _options(folder: Path) -> Mapping[str, Any]:
    """tokenizer_config.json; empty where it is absent or broken: engines have defaults too."""
    try:
        data = read_json(folder / "tokenizer_config.json", largest=LARGEST_OPTIONS)
    except Unreadable:
        return {}
    return data if isinstance(data, dict) else {}


def _flag(options: Mapping[str, Any], key: str) -> bool | None:
    value = options.get(key)
    return value if isinstance(value, bool) else None


def _special(
    options: Mapping[str, Any], key: str, ids: Mapping[str, int], config: Mapping[str, Any]
) -> int | None:
    """The id of a special token: its text in the tokenizer's options, else its id in the config."""
    token = options.get(key)
    text = token.get("content") if isinstance(token, dict) else token
    if isinstance(text, str) and text in ids:
        return ids[text]
    return _first_id(config.get(f"{key}_id"))


def _first_id(value: Any) -> int | None:
    """A config may list several ends of text; the first is the usual one."""
    values: Iterable[Any] = value if isinstance(value, list) else [value]
    return next((v for v in values if isinstance(v, int) and not isinstance(v, bool)), None)
