"""Engine options given natively (fleet `args:`, profile `engine:`): checked, spelled as argv."""

import json
from collections.abc import Mapping

from pydantic import JsonValue

from adapters.flag import Flag, FlagTable
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
        path, flag = (*root, name), table.find(name)
        if flag is None:
            problems.append(_unknown(path, name, table))
        elif flag.name in rendered:
            message = f"{name!r} is written by draftgate"
            problems.append(Problem(path, message, rendered[flag.name], code="option-is-ours"))
        elif flag.name in seen:
            message = f"{name!r} repeats {seen[flag.name]!r}"
            problems.append(Problem(path, message, "keep one of them", code="option-twice"))
        else:
            problems += _value_problems(path, flag, value)
        if flag is not None:
            seen.setdefault(flag.name, name)
    return problems


def spell(options: Options, table: FlagTable) -> tuple[str, ...]:
    """The options as arguments, in the order given. They have no problems."""
    arguments: list[str] = []
    for name, value in options.items():
        flag = table.find(name)
        if flag is not None:
            arguments += _spell_one(flag, name, value)
    return tuple(arguments)


def merge(*layers: Options) -> dict[str, JsonValue]:
    """Later layers win; `max-num-seqs` and `max_num_seqs` are the same option."""
    merged: dict[str, JsonValue] = {}
    for layer in layers:
        merged.update({normal(name): value for name, value in layer.items()})
    return merged


def normal(name: str) -> str:
    return name.lstrip("-").replace("_", "-")


def _spell_one(flag: Flag, name: str, value: JsonValue) -> list[str]:
    if flag.kind == "switch":
        wants_on = bool(value) != (normal(name) == flag.negative)
        return [f"--{flag.name}" if wants_on else f"--{flag.negative}"]
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
        if not isinstance(value, bool):
            message = f"{flag.name} is a switch, found {value!r}"
            return [Problem(path, message, "write true or false", code="option-value")]
        if value is False and flag.negative is None:
            message = f"{flag.name} has no form that turns it off"
            return [Problem(path, message, "leave it out", code="option-value")]
        return []
    if value is None or isinstance(value, bool):
        message = f"{flag.name} takes a value, found {json.dumps(value)}"
        return [Problem(path, message, "write the value", code="option-value")]
    if flag.choices and isinstance(value, str | int) and not _is_choice(value, flag.choices):
        hint = f"one of: {', '.join(flag.choices)}"
        return [Problem(path, f"{flag.name} cannot be {value!r}", hint, code="option-value")]
    return []


def _is_choice(value: str | int, choices: tuple[str, ...]) -> bool:
    """Engines compare words without case and take `_` for `-`; some take a list with commas."""
    known = {choice.lower().replace("_", "-") for choice in choices}
    words = str(value).lower().replace("_", "-").split(",")
    return all(word.strip() in known for word in words)
