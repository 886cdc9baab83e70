"""Addition: the counts of two processes as one. Pure."""

import copy
from typing import Any, TypeVar

T = TypeVar("T")


def added(one: T, other: T) -> T:
    """The sum of two things of one type, of which neither changes: numbers, element by element,
    key by key, field by field. None adds nothing. What is no number is the same on both sides."""
    return _added(one, other)  # type: ignore[no-any-return]


def _added(one: Any, other: Any) -> Any:
    if one is None or other is None:
        return other if one is None else one
    if isinstance(one, bool | str | bytes | tuple):
        return one
    if isinstance(one, int | float):
        return one + other
    if isinstance(one, list):
        return [_added(a, b) for a, b in zip(one, other, strict=True)]
    if isinstance(one, dict):
        return _by_key(one, other)
    result = copy.copy(one)
    for name in _fields(one):
        setattr(result, name, _added(getattr(one, name), getattr(other, name)))
    return result


def _by_key(one: dict[Any, Any], other: dict[Any, Any]) -> dict[Any, Any]:
    result = copy.copy(one)
    for key, value in other.items():
        result[key] = _added(result[key], value) if key in result else value
    return result


def _fields(thing: object) -> tuple[str, ...]:
    slots = getattr(type(thing), "__slots__", ())
    return (*slots, *getattr(thing, "__dict__", ()))
