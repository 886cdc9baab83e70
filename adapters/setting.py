"""Setting: one key of a profile in an engine's own words. Launches and explanations share them."""

from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import JsonValue

from adapters.problem import Path


@dataclass(frozen=True)
class Setting:
    """`path` is the profile's key, `name` and `value` are the engine's.

    `how` says how the value came about where it is not the key's own (the bonus token counted in, a
    schedule as a file); `effect` says what the engine will make of it that the key does not say.
    One key may come to several settings, and a setting without a `name` is honoured without an
    option: the engine does it by itself.
    """

    path: Path
    name: str
    value: JsonValue = None
    how: str = ""
    effect: str = ""


def values(settings: Iterable[Setting]) -> dict[str, JsonValue]:
    """Native names and values, in the order given; settings without a name are left out."""
    return {setting.name: setting.value for setting in settings if setting.name}
