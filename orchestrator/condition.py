"""Condition: what a rule asks of one feature. The definition that classify.py has to agree with."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from orchestrator.feature import Features
from orchestrator.pattern import compile_pattern
from orchestrator.type_rule import When, compare

Kind: TypeAlias = Literal["flag", "number", "member", "members", "search"]

# `flag`: true or false; `number`: a comparison; `member`: one value, any of those
# listed; `members`: several values, any of those listed, or whether there are any; `search`: an
# expression in a text.
# Cheap ones are read off the body's fields for every request.
CHEAP: Mapping[str, Kind] = {
    "stream": "flag",
    "model": "member",
    "temperature": "number",
    "top_p": "number",
    "min_p": "number",
    "n": "number",
    "max_tokens": "number",
    "penalties": "flag",
    "logit_bias": "flag",
    "logprobs": "flag",
    "tools": "flag",
    "lora": "members",
    "response_format": "member",
}
# In order of cost: worked out when a rule needs them.
DEAR: Mapping[str, Kind] = {
    "turns": "number",
    "images": "flag",
    "prompt_chars": "number",
    "last_user": "search",
    "system": "search",
    "intent": "members",
    "language": "member",
    "fenced": "number",
    "overlap": "number",
}
KINDS: Mapping[str, Kind] = {**CHEAP, **DEAR}


@dataclass(frozen=True)
class Condition:
    """One condition of a rule. `text` names it in reasons and never quotes the prompt."""

    name: str
    kind: Kind
    wanted: Any
    text: str

    def holds(self, features: Features) -> bool:
        return _HOLDS[self.kind](self.wanted, getattr(features, self.name))

    def seen(self, features: Features) -> str:
        """What the request has, told without its text."""
        return _seen(self.kind, getattr(features, self.name))


def conditions(when: When | None) -> tuple[Condition, ...]:
    """Those that are given, the cheap ones first."""
    if when is None:
        return ()
    given = ((name, kind, getattr(when, name)) for name, kind in KINDS.items())
    return tuple(
        Condition(name, kind, wanted, f"{name}{_told(kind, wanted)}")
        for name, kind, wanted in given
        if wanted is not None
    )


def _told(kind: Kind, wanted: Any) -> str:
    if kind == "search":
        return " matches"
    if kind == "number":
        return str(wanted)
    return f"={str(wanted).lower() if isinstance(wanted, bool) else '|'.join(wanted)}"


def _has_any(wanted: bool | tuple[str, ...], values: frozenset[str]) -> bool:
    return bool(values) is wanted if isinstance(wanted, bool) else not values.isdisjoint(wanted)


_HOLDS: Mapping[Kind, Callable[[Any, Any], bool]] = {
    "flag": lambda wanted, value: value is wanted,
    "number": lambda wanted, value: value is not None and compare(wanted, value),
    "member": lambda wanted, value: value in wanted,
    "members": _has_any,
    "search": lambda wanted, text: (
        text is not None and compile_pattern(wanted).search(text) is not None
    ),
}


def _seen(kind: Kind, value: Any) -> str:
    if value is None:
        return "none" if kind == "search" else "not said"
    if kind == "search":
        return f"not in its {len(value):,} characters"
    if kind == "number":
        return f"{value:.3g}" if value < 1000 else f"{value:.0f}"
    if kind == "members":
        return ", ".join(sorted(value)) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value)
