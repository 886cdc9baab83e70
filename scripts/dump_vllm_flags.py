"""Write the option table of one vLLM version: `VLLM_PYTHON scripts/dump_vllm_flags.py > TABLE`.

Run by the python of an environment that holds vLLM. It imports nothing of this project and builds
only vLLM's own parser: no engine, no model, no network.

A CUDA wheel's parser can be read on a machine without a GPU: unpack the wheel into a directory,
put beside it a directory with a `vllm-<version>+cpu.dist-info/METADATA` (the local part makes vLLM
choose its CPU platform), and name both in PYTHONPATH, the latter first.
"""

import argparse
import dataclasses
import enum
import importlib
import importlib.metadata
import inspect
import json
import os
import sys
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

# Newest first: the parser moved between 0.32 and 0.33.
PARSER_MODULES = ("vllm.entrypoints.common.cli_args", "vllm.entrypoints.launchers.cli_args")
SPECULATIVE = "speculative_config"
# Declared by vLLM only to refuse it with a hint.
REFUSED_KEYS = frozenset({"tensor_parallel_size"})
# Taken by a validator beside the declared words.
EXTRA_WORDS = {"attention_backend": ("auto",)}
# Checked by a validator (_validate_suffix_decoding), so that no field says it.
SUFFIX_BOUNDS: Mapping[str, dict[str, float]] = {
    "suffix_decoding_max_tree_depth": {"minimum": 1},
    "suffix_decoding_max_cached_requests": {"minimum": 0},
    "suffix_decoding_max_spec_factor": {"minimum": 0},
    "suffix_decoding_min_token_prob": {"minimum": 0, "maximum": 1},
}
# These choices name the device that the table was made on.
DEVICE_CHOICES = frozenset({"mm-processor-device"})
# Rewritten before argparse sees it, so no action lists it.
PARSER_ALIASES = {"optimization-level": ("-O",)}
# vLLM's own converters, by name; None is argparse's default.
CONVERTERS: Mapping[str | None, Sequence[str]] = {
    None: ("text",),
    "str": ("text",),
    "int": ("int",),
    "float": ("float",),
    "human_readable_int": ("size",),
    "human_readable_int_or_auto": ("size", "text"),
    "loads": ("mapping", "text"),
    "parse_dataclass": ("mapping", "text"),
    "union_dict_and_str": ("mapping", "text"),
}
PLAIN_TYPES: Mapping[Any, str] = {int: "int", float: "float", str: "text", bool: "bool"}


def layout(table: Mapping[str, Any]) -> str:
    """JSON with one entry of each section a line, so that two versions can be compared by diff."""
    sections = [f"{json.dumps(key)}: {section(value)}" for key, value in table.items()]
    return "{\n" + ",\n".join(sections) + "\n}\n"


def section(value: Any) -> str:
    if isinstance(value, list):
        return "[\n" + ",\n".join(f"  {json.dumps(name)}" for name in value) + "\n]"
    if not value or not isinstance(value, Mapping):
        return json.dumps(value, ensure_ascii=False)
    lines = (f"  {json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in value.items())
    return "{\n" + ",\n".join(lines) + "\n}"


def first_module(names: Sequence[str]) -> types.ModuleType:
    for name in names[:-1]:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            continue
    return importlib.import_module(names[-1])


def spellings(parser: argparse.ArgumentParser) -> Iterator[tuple[argparse.Action, list[str]]]:
    """Every optional argument with all spellings; 0.33 keeps the hidden ones in the parser only."""
    registered = parser._option_string_actions
    for action in parser._actions:
        if action.option_strings:
            hidden = [s for s, a in registered.items() if a is action]
            yield action, list(dict.fromkeys([*action.option_strings, *hidden]))


def is_negative(action: argparse.Action, spelling: str) -> bool:
    declared = vars(action).get("negative_option_strings", ())
    return action.nargs == 0 and (spelling in declared or spelling.startswith("--no-"))


def kind(action: argparse.Action) -> str:
    if action.nargs == 0:
        return "switch"
    return "values" if action.nargs in ("+", "*") else "value"


def converter(action: argparse.Action) -> Any:
    """What turns one argument into a value: the innermost of vLLM's wrappers for optional ones."""
    found: Any = action.type
    while "return_type" in getattr(getattr(found, "__code__", None), "co_freevars", ()):
        found = inspect.getclosurevars(found).nonlocals["return_type"]
    return found


def argument_types(action: argparse.Action) -> list[str]:
    """Kinds of adapters/value.py; an option that takes an object takes it as JSON text too."""
    found = converter(action)
    name = found if found is None else getattr(found, "__name__", "")
    if name == "loads" and isinstance(action.default, list):
        return ["list", "text"]
    return list(CONVERTERS.get(name, ("text",) if action.choices else ()))


def flag_entry(
    action: argparse.Action, spelled: Sequence[str], bounds: Mapping[str, Mapping[str, float]]
) -> tuple[str, dict[str, Any]]:
    positive = [s for s in spelled if not is_negative(action, s)]
    negative = [s for s in spelled if is_negative(action, s)]
    long = next(s for s in positive if s.startswith("--"))
    name = long.removeprefix("--")
    aliases = [s for s in (*positive, *negative[1:]) if s != long]
    choices = () if name in DEVICE_CHOICES else (action.choices or ())
    entry = {
        "kind": kind(action),
        "aliases": [*aliases, *PARSER_ALIASES.get(name, ())],
        "negative": negative[0].removeprefix("--") if negative else None,
        "choices": [str(choice) for choice in choices if choice is not None],
        "type": one_or_more(argument_types(action)) if action.nargs != 0 else None,
    }
    found = {key: value for key, value in entry.items() if value}
    return name, found | (dict(bounds.get(action.dest, {})) if action.nargs != 0 else {})


def one_or_more(kinds: list[str]) -> str | list[str]:
    return kinds[0] if len(kinds) == 1 else kinds


def field_bounds(field: Any) -> dict[str, float]:
    """Inclusive bounds of a pydantic field; above 0 is 1 for a whole number, 0 for another."""
    bounds: dict[str, float] = {}
    for rule in field.metadata:
        for name, bound in (("ge", "minimum"), ("gt", "minimum"), ("le", "maximum")):
            limit = getattr(rule, name, None)
            if limit is not None:
                step = 1 if name == "gt" and int in members(field.annotation) else 0
                bounds[bound] = limit + step
    return bounds


def config_bounds(config: types.ModuleType, but: Any) -> dict[str, dict[str, float]]:
    """Bounds by field name over the classes that options are copied into, where all agree."""
    found: dict[str, list[dict[str, float]]] = {}
    for name in sorted(vars(config)):
        fields = getattr(getattr(config, name), "__pydantic_fields__", {})
        for key, field in fields.items() if getattr(config, name) is not but else ():
            found.setdefault(key, []).append(field_bounds(field))
    return {key: all_[0] for key, all_ in found.items() if all(b == all_[0] for b in all_)}


def members(hint: Any) -> Iterator[Any]:
    """The parts of a union, flat; any other type as itself."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        for part in typing.get_args(hint):
            yield from members(part)
    else:
        yield hint


def words(hint: Any) -> list[str]:
    """The words that a type takes, or none where it takes any text."""
    parts = list(members(hint))
    if str in parts:
        return []
    found: list[str] = []
    for part in parts:
        if typing.get_origin(part) is typing.Literal:
            found += map(str, typing.get_args(part))
        elif isinstance(part, enum.EnumMeta):
            found += part.__members__
    return found


def key_types(hint: Any) -> list[str]:
    """Kinds of adapters/value.py that an annotation comes to."""
    found = [part_type(part) for part in members(hint) if part is not type(None)]
    return list(dict.fromkeys(found))


def part_type(part: Any) -> str:
    if part in PLAIN_TYPES:
        return PLAIN_TYPES[part]
    if typing.get_origin(part) is typing.Literal or isinstance(part, enum.EnumMeta):
        return "text"
    return "list" if typing.get_origin(part) is list else "mapping"


def key_entry(name: str, field: Any) -> dict[str, Any]:
    """One key of the speculative config: what a user may write, and within which bounds."""
    choices = words(field.annotation)
    entry: dict[str, Any] = {
        "type": one_or_more(key_types(field.annotation)),
        "choices": sorted({*choices, *EXTRA_WORDS.get(name, ())}) if choices else None,
        "nullable": type(None) in members(field.annotation),
    }
    bounds = field_bounds(field) | SUFFIX_BOUNDS.get(name, {})
    return {key: value for key, value in entry.items() if value} | bounds


def settable(config: Any) -> list[dataclasses.Field[Any]]:
    """Fields a user may give: not those that the engine fills in itself, nor the refused ones."""
    return [
        field
        for field in dataclasses.fields(config)
        if field.init and "SkipValidation" not in str(field.type) and field.name not in REFUSED_KEYS
    ]


def is_dict(hint: Any) -> bool:
    """One annotation is still text, for want of an import at run time."""
    return str(hint).startswith("dict[") or hint is dict


def object_options(classes: Iterable[Any]) -> Iterator[tuple[str, list[str]]]:
    """Options that take an object and its keys; no keys where any are taken."""
    for field in (field for cls in classes for field in dataclasses.fields(cls)):
        parts = list(members(field.type))
        config = next((part for part in parts if dataclasses.is_dataclass(part)), None)
        if config is not None:
            yield field.name, sorted(key.name for key in settable(config))
        elif any(is_dict(part) for part in parts):
            yield field.name, []


def speculative_keys(config: Any) -> dict[str, dict[str, Any]]:
    fields = config.__pydantic_fields__
    names = sorted(field.name for field in settable(config))
    return {name: key_entry(name, fields[name]) for name in names}


def source(package: Path, parser_module: str) -> str:
    """The distribution that lies beside the package, which a stub elsewhere cannot disguise."""
    names = sorted(
        f"{found.metadata['Name']} {found.version}"
        for found in importlib.metadata.distributions(path=[str(package.parent)])
        if found.metadata["Name"].lower().replace("_", "-").split("-")[0] == "vllm"
    )
    return f"{', '.join(names)}: parser of {parser_module}, on its CPU platform"


def table() -> dict[str, Any]:
    vllm = importlib.import_module("vllm")
    cli = first_module(PARSER_MODULES)
    parsing = importlib.import_module("vllm.utils.argparse_utils")
    engine = importlib.import_module("vllm.engine.arg_utils").EngineArgs
    config = importlib.import_module("vllm.config")
    speculative = importlib.import_module("vllm.config.speculative").SpeculativeConfig
    parser = cli.make_arg_parser(parsing.FlexibleArgumentParser())
    keys: dict[str, Any] = dict(object_options((engine, cli.FrontendArgs)))
    keys[SPECULATIVE] = speculative_keys(speculative)
    bounds = config_bounds(config, but=speculative)
    return {
        "engine": "vllm",
        "version": vllm.__version__.partition("+")[0],
        "source": source(Path(vllm.__path__[0]), cli.__name__),
        "flags": dict(sorted(flag_entry(*found, bounds) for found in spellings(parser))),
        "config_keys": dict(sorted(keys.items())),
        "environment": sorted(importlib.import_module("vllm.envs").environment_variables),
    }


def main() -> None:
    # vLLM logs to standard output; the table must be alone there.
    os.environ["VLLM_CONFIGURE_LOGGING"] = "0"
    os.environ["VLLM_NO_USAGE_STATS"] = "1"
    sys.stdout.write(layout(table()))


if __name__ == "__main__":
    main()
