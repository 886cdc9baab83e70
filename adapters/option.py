"""Engine options given natively (fleet `args:`, profile `engine:`): checked, spelled as argv."""

import json
from collections.abc import Mapping

from pydantic import JsonValue

from adapters.flag import Flag, FlagTable, normal
from adapters.problem import Path, Problem

Options = Mapping[str, JsonValue]


def option_problems(
    options: Options, table: FlagTable, rendered: Mapping[str, str], root: Path = ()
) -> list[Problem]:
    """Options that the engine does not know, that are ours to write, or whose value does not fit.

    `rendered` maps the names of options that draftgate writes itself to where they are set.
    """
    problems: list[Problem] = []
    seen: dict[str, str] = {}
    for name, value in options.items():
        path, flag, canonical = (*root, name), table.find(name), _canonical(name, table)
        if flag is None:
            problems.append(_unknown(path, name, table))
        elif flag.name in rendered:
            message = f"{name!r} is written by draftgate"
            problems.append(Problem(path, message, rendered[flag.name], code="option-is-ours"))
        elif canonical in seen:
            message = f"{name!r} repeats {seen[canonical]!r}"
            problems.append(Problem(path, message, "keep one of them", code="option-twice"))
        elif canonical == flag.name:
            problems += _value_problems(path, flag, value)
        seen.setdefault(canonical, name)
    return problems


def merge(table: FlagTable, *layers: Options) -> dict[str, JsonValue]:
    """All layers under the options' own names, later layers winning.

    Aliases and negative forms are resolved (`-np`, `no-repack: true`), so that a check that looks
    an option up by its name sees it however it was spelled. Unknown names stay as they are.
    """
    merged: dict[str, JsonValue] = {}
    for layer in layers:
        for name, value in layer.items():
            flag = table.find(name)
            is_negated = flag is not None and flag.kind == "switch" and flag.turns_off(name)
            merged[_canonical(name, table)] = not value if is_negated else value
    return merged


def spell(options: Options, table: FlagTable) -> tuple[str, ...]:
    """Options without problems as arguments, in the order given."""
    arguments: list[str] = []
    for name, value in merge(table, options).items():
        flag = table.find(name)
        if flag is not None:
            arguments += _spell_one(flag, name, value)
    return tuple(arguments)


def whole(options: Options, name: str, default: int) -> int:
    """A merged option as a whole number; the default where it is absent or something else."""
    value = options.get(name, default)
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def _canonical(name: str, table: FlagTable) -> str:
    flag = table.find(name)
    if flag is None:
        return normal(name)
    _, dot, key = normal(name).partition(".")
    return f"{flag.name}.{key}" if dot and "." not in flag.name else flag.name


def _spell_one(flag: Flag, name: str, value: JsonValue) -> list[str]:
    if name != flag.name:  # one key of an option that takes an object
        return [f"--{name}", _text(value)]
    if flag.kind == "switch":
        return [f"--{flag.name}" if value else f"--{flag.negative}"]
    if flag.kind == "values" and isinstance(value, list):
        return [f"--{flag.name}", *(_text(item) for item in value)]
    return [f"--{flag.name}", _text(value)]


def _text(value: JsonValue) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"))


def _unknown(path: Path, name: str, table: FlagTable) -> Problem:
    near = table.near(name)
    hint = f"did you mean {near!r}?" if near else "see the engine's own --help"
    message = f"{table.engine} {table.version} has no option {name!r}"
    return Problem(path, message, hint, code="unknown-option")


def _value_problems(path: Path, flag: Flag, value: JsonValue) -> list[Problem]:
    if flag.kind == "switch":
        return _switch_problems(path, flag, value)
    if value is None or isinstance(value, bool):
        message = f"{flag.name} takes a value, found {json.dumps(value)}"
        return [Problem(path, message, "write the value", code="option-value")]
    if flag.choices and isinstance(value, str | int) and not _is_choice(value, flag.choices):
        hint = f"one of: {', '.join(flag.choices)}"
        return [Problem(path, f"{flag.name} cannot be {value!r}", hint, code="option-value")]
    return []


def _switch_problems(path: Path, flag: Flag, value: JsonValue) -> list[Problem]:
    if not isinstance(value, bool):
        message = f"{flag.name} is a switch, found {json.dumps(value)}"
        return [Problem(path, message, "write true or false", code="option-value")]
    if value is False and flag.negative is None:
        message = f"{flag.name} has no form that turns it off"
        return [Problem(path, message, "leave it out", code="option-value")]
    return []


def _is_choice(value: str | int, choices: tuple[str, ...]) -> bool:
    """Engines compare words without case and take `_` for `-`; some take a list with commas."""
    known = {choice.lower().replace("_", "-") for choice in choices}
    words = str(value).lower().replace("_", "-").split(",")
    return all(word.strip() in known for word in words)
