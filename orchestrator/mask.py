"""Mask: for one feature, which rules a value leaves in the running. Rules are bits. Pure.

What a request costs does not grow with the rules: a value is looked up, whatever their number.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, TypeAlias

from orchestrator.feature import Features
from orchestrator.pattern import PatternSet

# The rules that the request leaves in the running, as far as this feature tells.
Mask: TypeAlias = Callable[[Features], int]
# Each rule that asks for the feature, by its bit, and what it wants of it.
Asked: TypeAlias = Sequence[tuple[int, Any]]


def flag_mask(name: str, asked: Asked, indifferent: int) -> Mask:
    masks = {value: indifferent | _bits(asked, value) for value in (True, False)}
    read = attrgetter(name)
    return lambda features: masks[read(features)]


def member_mask(name: str, asked: Asked, indifferent: int) -> Mask:
    masks: dict[str, int] = defaultdict(lambda: indifferent)
    for bit, wanted in asked:
        for value in wanted:
            masks[value] |= bit
    read, found = attrgetter(name), dict(masks)
    return lambda features: found.get(read(features), indifferent)


def members_mask(name: str, asked: Asked, indifferent: int) -> Mask:
    """Of a feature that is a set of values: wanted are some, any (True) or none (False)."""
    none, some = indifferent | _bits(asked, False), indifferent | _bits(asked, True)
    by_value: dict[str, int] = defaultdict(int)
    for bit, wanted in asked:
        for value in () if isinstance(wanted, bool) else wanted:
            by_value[value] |= bit
    read, found = attrgetter(name), dict(by_value)

    def mask(features: Features) -> int:
        values = read(features)
        return some | _union(found.get(value, 0) for value in values) if values else none

    return mask


def number_mask(name: str, asked: Asked, indifferent: int) -> Mask:
    """Bounds cut the numbers into points and the ranges between: each has a mask of its own."""
    rules = [(bit, comparison.rstrip("0123456789.- "), comparison) for bit, comparison in asked]
    told = [(bit, sign, float(comparison[len(sign) :])) for bit, sign, comparison in rules]
    bounds = sorted({bound for _, _, bound in told})
    masks = [indifferent] * (2 * len(bounds) + 1)
    for bit, sign, bound in told:
        point = 2 * bounds.index(bound) + 1
        for place in range(len(masks)):
            side = "<" if place < point else ">" if place > point else "="
            masks[place] |= bit if side in sign.replace("==", "=") else 0

    read, most = attrgetter(name), len(bounds)

    def mask(features: Features) -> int:
        value = read(features)
        if value is None:
            return indifferent
        index = bisect_left(bounds, value)
        is_point = index < most and bounds[index] == value
        return masks[2 * index + 1 if is_point else 2 * index]

    return mask


class SearchMasks:
    """Of a text: which rules' expressions occur in it, or may; and of one, whether it does."""

    def __init__(self, name: str, asked: Asked, indifferent: int) -> None:
        by_pattern: dict[str, int] = defaultdict(int)
        for bit, pattern in asked:
            by_pattern[pattern] |= bit
        self._read = attrgetter(name)
        self._indifferent = indifferent
        self._patterns = PatternSet(tuple(by_pattern))
        self._bits = list(by_pattern.values())
        self._index = {pattern: index for index, pattern in enumerate(by_pattern)}

    @property
    def uncertain(self) -> list[str]:
        """Expressions of which `may` does not tell for sure."""
        return [text for text, at in self._index.items() if at in self._patterns.uncertain]

    def may(self, features: Features) -> int:
        text = self._read(features)
        left = self._indifferent
        if text is not None:
            bits = self._bits
            for index in self._patterns.candidates(text.encode()):
                left |= bits[index]
        return left

    def does(self, pattern: str) -> Mask:
        """All rules but those of this expression where it does not occur."""
        index = self._index[pattern]
        without = ~self._bits[index]

        def mask(features: Features) -> int:
            text = self._read(features)
            return -1 if self._patterns.occurs(index, text.encode()) else without

        return mask


def _bits(asked: Asked, value: object) -> int:
    return _union(bit for bit, wanted in asked if wanted is value)


def _union(masks: Iterable[int]) -> int:
    union = 0
    for mask in masks:
        union |= mask
    return union
