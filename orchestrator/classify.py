"""Classify: the type of a request by the fleet's rules, of which the first match decides. Pure.

The rules are bits of one number. Features that cost nothing strike out most of them at once; a
feature that has to be worked out is, when the first rule that is left asks for it. So the cost of a
request does not depend on the number of rules. What is found is what trying them in order finds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from orchestrator.condition import CHEAP, KINDS, Condition, conditions
from orchestrator.feature import Features
from orchestrator.mask import (
    Asked,
    Mask,
    SearchMasks,
    flag_mask,
    member_mask,
    members_mask,
    number_mask,
)
from orchestrator.type_rule import TypeRule

DEFAULT_TYPE = "default"
NO_MATCH = "no type rule matched"

_MASKS = {
    "flag": flag_mask,
    "member": member_mask,
    "members": members_mask,
    "number": number_mask,
}


@dataclass(frozen=True)
class Rule:
    """A type rule made ready: the cheap conditions first."""

    type: str
    conditions: tuple[Condition, ...]
    reason: str

    def matches(self, features: Features) -> bool:
        """By definition, and slowly."""
        return all(condition.holds(features) for condition in self.conditions)


class Classifier:
    """Rules compiled once, for many requests."""

    def __init__(self, rules: Sequence[TypeRule]) -> None:
        self.types = tuple(dict.fromkeys([*(rule.type for rule in rules), DEFAULT_TYPE]))
        self.rules = tuple(_rule(index, rule) for index, rule in enumerate(rules))
        self._all = (1 << len(rules)) - 1
        self._cheap: list[Mask] = []
        self._dear: list[Mask] = []
        # For each rule, which of the dear masks have to be seen before it is known to match.
        self._needs: list[list[int]] = [[] for _ in rules]
        for name, kind in KINDS.items():
            asked = list(self._asked(name))
            if not asked:
                continue
            indifferent = self._all & ~sum(bit for bit, _ in asked)
            if kind == "search":
                self._add_search(SearchMasks(name, asked, indifferent), asked)
            elif name in CHEAP:
                self._cheap.append(_MASKS[kind](name, asked, indifferent))
            else:
                self._add_dear(_MASKS[kind](name, asked, indifferent), asked)

    def __call__(self, features: Features) -> tuple[str, str]:
        """The type, and why: the rule's index and its conditions."""
        index = self.first(features)
        if index is None:
            return DEFAULT_TYPE, NO_MATCH
        rule = self.rules[index]
        return rule.type, rule.reason

    def first(self, features: Features) -> int | None:
        """The index of the rule that decides."""
        alive = self._all
        for mask in self._cheap:
            alive &= mask(features)
        needs, dear = self._needs, self._dear
        seen: set[int] = set()
        while alive:
            index = (alive & -alive).bit_length() - 1
            for need in needs[index]:
                if need not in seen:
                    seen.add(need)
                    alive &= dear[need](features)
                    break
            else:
                return index
        return None

    def _asked(self, name: str) -> Iterator[tuple[int, object]]:
        for index, rule in enumerate(self.rules):
            for condition in rule.conditions:
                if condition.name == name:
                    yield 1 << index, condition.wanted

    def _add_dear(self, mask: Mask, asked: Asked) -> None:
        for bit, _ in asked:
            self._needs[bit.bit_length() - 1].append(len(self._dear))
        self._dear.append(mask)

    def _add_search(self, masks: SearchMasks, asked: Asked) -> None:
        """First which expressions occur, in one pass; of some it only tells that they may."""
        self._add_dear(masks.may, asked)
        for pattern in masks.uncertain:
            self._add_dear(masks.does(pattern), [one for one in asked if one[1] == pattern])


def classify(features: Features, rules: Sequence[TypeRule]) -> tuple[str, str]:
    """The type of one request, and why."""
    return Classifier(rules)(features)


def _rule(index: int, rule: TypeRule) -> Rule:
    asked = conditions(rule.when)
    text = ", ".join(condition.text for condition in asked) or "matches everything"
    return Rule(rule.type, asked, f"types[{index}]: {text}")
