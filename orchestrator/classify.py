"""Classify: the type of a request by the fleet's rules, of which the first match decides. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from orchestrator.feature import Features
from orchestrator.pattern import compile_pattern
from orchestrator.type_rule import TypeRule, When, compare

DEFAULT_TYPE = "default"

Test: TypeAlias = Callable[[Features], bool]


@dataclass(frozen=True)
class Condition:
    """One condition of a rule; `text` names it in reasons and never quotes the prompt."""

    text: str
    holds: Test


@dataclass(frozen=True)
class Rule:
    """A type rule made ready: expressions compiled, cheap conditions first."""

    type: str
    conditions: tuple[Condition, ...]

    def matches(self, features: Features) -> bool:
        return all(condition.holds(features) for condition in self.conditions)


class Classifier:
    """Rules compiled once, for many requests."""

    def __init__(self, rules: Sequence[TypeRule]) -> None:
        self.types = tuple(dict.fromkeys([*(rule.type for rule in rules), DEFAULT_TYPE]))
        self._rules = tuple(Rule(rule.type, _conditions(rule.when)) for rule in rules)
        self._reasons = tuple(
            f"types[{index}]: {', '.join(c.text for c in rule.conditions) or 'matches everything'}"
            for index, rule in enumerate(self._rules)
        )

    def __call__(self, features: Features) -> tuple[str, str]:
        """The type, and why: the rule's index and its conditions."""
        for rule, reason in zip(self._rules, self._reasons, strict=True):
            if rule.matches(features):
                return rule.type, reason
        return DEFAULT_TYPE, "no type rule matched"


def classify(features: Features, rules: Sequence[TypeRule]) -> tuple[str, str]:
    """The type of one request, and why."""
    return Classifier(rules)(features)


def _conditions(when: When | None) -> tuple[Condition, ...]:
    if when is None:
        return ()
    given = ((name, getattr(when, name)) for name in _TESTS)
    return tuple(_TESTS[name](name, value) for name, value in given if value is not None)


def _number(name: str, comparison: str) -> Condition:
    def holds(features: Features) -> bool:
        value: float | None = getattr(features, name)
        return value is not None and compare(comparison, value)

    return Condition(f"{name}{comparison}", holds)


def _member(name: str, values: tuple[str, ...]) -> Condition:
    return Condition(f"{name}={'|'.join(values)}", lambda f: getattr(f, name) in values)


def _flag(name: str, wanted: bool) -> Condition:
    return Condition(f"{name}={str(wanted).lower()}", lambda f: getattr(f, name) is wanted)


def _pattern(name: str, pattern: str) -> Condition:
    search = compile_pattern(pattern).search

    def holds(features: Features) -> bool:
        text: str | None = getattr(features, name)
        return text is not None and search(text) is not None

    return Condition(f"{name} matches", holds)


# In order of cost, so that a cheap condition that fails spares the dear ones.
_TESTS: Mapping[str, Callable[[str, Any], Condition]] = {
    "stream": _flag,
    "model": _member,
    "tools": _flag,
    "temperature": _number,
    "max_tokens": _number,
    "response_format": _member,
    "turns": _number,
    "prompt_chars": _number,
    "last_user": _pattern,
    "system": _pattern,
    "fenced": _number,
    "overlap": _number,
}
