"""Write the option table of one vLLM version: `VLLM_PYTHON scripts/dump_vllm_flags.py > TABLE`.

Run by the python of an environment that holds vLLM. It imports nothing of this project and builds
only vLLM's own parser: no engine, no model, no network.

A CUDA wheel's parser can be read on a machine without a GPU: unpack the wheel into a directory,
put beside it a directory with a `vllm-<version>+cpu.dist-info/METADATA` (the local part makes vLLM
choose its CPU platform), and name both in PYTHONPATH.
"""

import argparse
import dataclasses
import enum
import importlib
import importlib.metadata
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
# These choices name the device that the table was made on.
DEVICE_CHOICES = frozenset({"mm-processor-device"})
# Rewritten before argparse sees it, so no action lists it.
PARSER_ALIASES = {"optimization-level": ("-O",)}


def layout(table: Mapping[str, Any]) -> str:
    """JSON with one entry of each section a line, so that two versions can be compared by diff."""
    sections = [f"{json.dumps(key)}: {section(value)}" for key, value in table.items()]
    return "{\n" + ",\n".join(sections) + "\n}\n"


def section(value: Any) -> str:
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


def flag_entry(action: argparse.Action, spelled: Sequence[str]) -> tuple[str, dict[str, Any]]:
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
    }
    return name, {key: value for key, value in entry.items() if value}


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


def type_name(hint: Any) -> str:
    return " | ".join(part_name(part) for part in members(hint))


def part_name(part: Any) -> str:
    if typing.get_origin(part) is typing.Literal:
        return "word"
    if part is type(None):
        return "None"
    return part.__name__ if isinstance(part, type) and not typing.get_args(part) else str(part)


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


def speculative_words(config: Any) -> Iterator[tuple[str, list[str]]]:
    for field in settable(config):
        found = words(field.type)
        if found:
            extra = EXTRA_WORDS.get(field.name, ())
            yield f"{SPECULATIVE}.{field.name}", sorted({*found, *extra})


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
    speculative = importlib.import_module("vllm.config.speculative").SpeculativeConfig
    parser = cli.make_arg_parser(parsing.FlexibleArgumentParser())
    keys = dict(object_options((engine, cli.FrontendArgs)))
    keys[SPECULATIVE] = sorted(field.name for field in settable(speculative))
    keys |= dict(speculative_words(speculative))
    return {
        "engine": "vllm",
        "version": vllm.__version__.partition("+")[0],
        "source": source(Path(vllm.__path__[0]), cli.__name__),
        "flags": dict(sorted(flag_entry(*found) for found in spellings(parser))),
        "config_keys": dict(sorted(keys.items())),
        "speculative_types": {
            field.name: type_name(field.type)
            for field in sorted(settable(speculative), key=lambda field: field.name)
        },
    }


def main() -> None:
    # vLLM logs to standard output; the table must be alone there.
    os.environ["VLLM_CONFIGURE_LOGGING"] = "0"
    os.environ["VLLM_NO_USAGE_STATS"] = "1"
    sys.stdout.write(layout(table()))


if __name__ == "__main__":
    main()
