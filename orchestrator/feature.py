"""Feature: what a request body tells, each read when it is first asked for.

The body is scanned once into raw top-level fields; only fields that a rule or a limit needs are
decoded further. A field of a wrong type tells nothing here: the engine owns that error.
"""

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any

import msgspec

# Counting 4-grams costs about 0.4 µs a word, so that a long prompt is judged by its beginning.
OVERLAP_WORDS = 20_000

_GRAM = 4
_SHORT = 16  # bytes; no longer value is empty
_scan = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode = msgspec.json.Decoder().decode


class Features:
    """One request body. `fields` are its top-level fields, still as JSON."""

    def __init__(self, fields: Mapping[str, msgspec.Raw]) -> None:
        self.fields = fields

    def get(self, name: str) -> Any:
        """A field as data; None when it is absent, null or no valid JSON."""
        raw = self.fields.get(name)
        if raw is None:
            return None
        try:
            return _decode(raw)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return None

    def is_set(self, name: str) -> bool:
        """Whether a field asks for something: not null, false, 0 or empty."""
        raw = self.fields.get(name)
        return raw is not None and (len(memoryview(raw)) > _SHORT or bool(self.get(name)))

    def set_among(self, names: Collection[str]) -> frozenset[str]:
        """Those of `names` that are set."""
        return frozenset(name for name in self.fields if name in names and self.is_set(name))

    def number(self, *names: str) -> float | None:
        """The first of the fields that is a number."""
        values = (self.get(name) for name in names if name in self.fields)
        return next((float(v) for v in values if type(v) in (int, float)), None)

    @cached_property
    def model(self) -> str | None:
        value = self.get("model")
        return value if isinstance(value, str) else None

    @cached_property
    def response_format(self) -> str:
        """OpenAI's default is text."""
        value = self.get("response_format")
        kind = value.get("type") if isinstance(value, dict) else None
        return kind if isinstance(kind, str) else "text"

    @property
    def temperature(self) -> float | None:
        return self.number("temperature")

    @property
    def max_tokens(self) -> float | None:
        return self.number("max_completion_tokens", "max_tokens")

    @property
    def tools(self) -> bool:
        return self.is_set("tools") or self.is_set("functions")

    @property
    def stream(self) -> bool:
        return self.get("stream") is True

    @cached_property
    def messages(self) -> tuple[tuple[str, str], ...]:
        """Role and text of every message; a completion prompt is one message of the user."""
        if "messages" not in self.fields:
            return (("user", _prompt_text(self.get("prompt"))),)
        messages = self.get("messages")
        entries = messages if isinstance(messages, list) else []
        return tuple(
            (str(m.get("role")), _content_text(m.get("content")))
            for m in entries
            if isinstance(m, dict)
        )

    @property
    def turns(self) -> float:
        return float(len(self.messages))

    @cached_property
    def prompt_chars(self) -> float:
        return float(sum(len(text) for _, text in self.messages))

    @cached_property
    def fenced(self) -> float:
        """Share of characters between ``` and ```; an open fence lasts to its message's end."""
        inside = sum(len(part) for _, text in self.messages for part in text.split("```")[1::2])
        return inside / self.prompt_chars if inside else 0.0

    @cached_property
    def overlap(self) -> float:
        """Share of word 4-grams that occurred earlier, over the first OVERLAP_WORDS words."""
        text = "\n".join(text for _, text in self.messages)
        words = text.split(None, OVERLAP_WORDS)[:OVERLAP_WORDS]
        count = len(words) - _GRAM + 1
        if count < 1:
            return 0.0
        distinct = len(set(zip(words, words[1:], words[2:], words[3:], strict=False)))
        return (count - distinct) / count

    @cached_property
    def last_user(self) -> str | None:
        return next((text for role, text in reversed(self.messages) if role == "user"), None)

    @cached_property
    def system(self) -> str | None:
        """Text of the system and developer messages."""
        texts = [text for role, text in self.messages if role in ("system", "developer")]
        return "\n".join(texts) if texts else None


def read_features(body: bytes) -> Features:
    """The features of a request body. Raises ValueError when it is not a JSON object."""
    try:
        return Features(_scan(body))
    except msgspec.ValidationError:
        raise ValueError("the request body must be a JSON object") from None
    except msgspec.DecodeError as error:
        raise ValueError(f"the request body is not JSON: {error}") from None
    except (RecursionError, UnicodeDecodeError):
        raise ValueError("the request body is nested too deeply or is not UTF-8") from None


def _content_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = (part.get("text") for part in parts if isinstance(part, dict))
    return "\n".join(text for text in texts if isinstance(text, str))


def _prompt_text(prompt: Any) -> str:
    if isinstance(prompt, str):
        return prompt
    return "\n".join(p for p in prompt if isinstance(p, str)) if isinstance(prompt, list) else ""
