"""What values an engine's parser takes for one option or key, as data in its option table."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from pydantic import JsonValue

# "size" is a number of things as vLLM reads it: 16K is 16 x 1024, 25.6k is 25,600.
Kind: TypeAlias = Literal["int", "float", "size", "bool", "text", "list", "mapping"]

_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)([kKmMgGtT])")
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

    def choice(self, value: JsonValue) -> JsonValue:
        """The choice that a word means, in the engine's own spelling; other values as they are.

        Some engines compare without case or take `_` for `-`, others do not: what is written is
        always their own form, so that rules see one spelling and every engine takes it.
        """
        if not self.choices or not isinstance(value, str):
            return value
        known = {_folded(choice): choice for choice in self.choices}
        return known.get(_folded(value), value)

    def _is_choice(self, value: str | int) -> bool:
        return self.choice(str(value)) in self.choices


def _folded(word: str) -> str:
    return word.lower().replace("_", "-")


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
    if kind == "size" and _size(value) is not None:
        return True
    if isinstance(value, bool) or _number(value) is None:
        return False
    return kind == "float" or whole_number(value) is not None


def whole_number(value: JsonValue) -> int | None:
    """A whole number as engines read it from argv, `+4`, `16K` and `25.6k` too; else None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    return _size(value)


def _size(value: JsonValue) -> int | None:
    """vLLM's sizes: small suffixes are powers of 1000 and take decimals, capitals are of 1024."""
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    number, suffix = match.groups()
    power = "kmgt".index(suffix.lower()) + 1
    if suffix.islower():
        return int(float(number) * 1000**power)
    return int(number) * 1024**power if number.isdecimal() else None


def _number(value: JsonValue) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None
