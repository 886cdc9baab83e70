"""What values an engine's parser takes for one option or key, as data in its option table."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from pydantic import JsonValue

# "size" is a number of things as vLLM reads it: 16K is 16 x 1024, 25.6k is 25,600.
Kind: TypeAlias = Literal["int", "float", "size", "bool", "text", "list", "mapping"]

_SIZE_SUFFIXES = frozenset("kKmMgGtT")
_WORDS: Mapping[Kind, str] = {
    "int": "a whole number",
    "float": "a number",
    "size": "a whole number such as 8192 or 8K",
    "bool": "true or false",
    "text": "text",
    "list": "a list",
    "mapping": "a mapping",
}


@dataclass(frozen=True)
class ValueRule:
    """`kinds` empty means that nothing is known of the type; bounds are inclusive."""

    kinds: tuple[Kind, ...] = ()
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    nullable: bool = False

    def complaint(self, value: JsonValue) -> tuple[str, str] | None:
        """What is wrong with a value and what to write, or None."""
        if value is None:
            return None if self.nullable or not self.kinds else ("found nothing", "write the value")
        if self.kinds and not any(_fits(kind, value) for kind in self.kinds):
            expected = " or ".join(_WORDS[kind] for kind in self.kinds)
            return f"expected {expected}, found {shown(value)}", ""
        if self.choices and isinstance(value, str | int) and not self._is_choice(value):
            return f"{shown(value)} is not one of its values", f"one of: {', '.join(self.choices)}"
        return self._bound_complaint(value)

    def _bound_complaint(self, value: JsonValue) -> tuple[str, str] | None:
        number = _number(value)
        if number is None:
            return None
        if self.minimum is not None and number < self.minimum:
            return f"must be at least {self.minimum:g}, found {shown(value)}", ""
        if self.maximum is not None and number > self.maximum:
            return f"must be at most {self.maximum:g}, found {shown(value)}", ""
        return None

    def _is_choice(self, value: str | int) -> bool:
        """Engines compare words without case and take `_` for `-`; some take commas."""
        known = {choice.lower().replace("_", "-") for choice in self.choices}
        words = str(value).lower().replace("_", "-").split(",")
        return all(word.strip() in known for word in words)


ANYTHING = ValueRule()


def rule_of(entry: Mapping[str, Any]) -> ValueRule:
    """A rule from its form in a table: `type` is one kind or a list of them."""
    found = entry.get("type", ())
    kinds = (found,) if isinstance(found, str) else tuple(found)
    unknown = set(kinds) - set(get_args(Kind))
    if unknown:
        raise ValueError(f"no kinds of values: {sorted(unknown)}")
    return ValueRule(
        kinds,
        tuple(entry.get("choices", ())),
        entry.get("minimum"),
        entry.get("maximum"),
        entry.get("nullable", False),
    )


def shown(value: JsonValue) -> str:
    """A value as it can stand in a message."""
    text = repr(value) if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _fits(kind: Kind, value: JsonValue) -> bool:
    if kind == "text":
        return isinstance(value, str)
    if kind == "bool":
        return isinstance(value, bool)
    if kind == "list":
        return isinstance(value, list)
    if kind == "mapping":
        return isinstance(value, dict)
    return _is_number(kind, value)


def _is_number(kind: Kind, value: JsonValue) -> bool:
    """Engines read numbers from argv, so that a number in quotes is one too."""
    if isinstance(value, bool):
        return False
    if kind == "size" and isinstance(value, str) and value[-1:] in _SIZE_SUFFIXES:
        # capitals are powers of 1024 and take whole numbers only
        return _number(value[:-1]) is not None and (value[-1].islower() or _is_whole(value[:-1]))
    if _number(value) is None:
        return False
    return kind == "float" or _is_whole(value)


def _is_whole(value: JsonValue) -> bool:
    if isinstance(value, str):
        return value.lstrip("+-").isdecimal()
    return isinstance(value, int)


def _number(value: JsonValue) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except ValueError:
        return None
