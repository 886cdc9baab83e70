"""Write the option table of one SGLang version: `PYTHON scripts/dump_sglang_flags.py > TABLE`.

Run by the python of a vLLM CPU environment (scripts/setup --vllm) with, in PYTHONPATH, the folder
that scripts/sglang-check.txt was installed to; another version's unpacked wheel goes before it. It
imports nothing of this project and builds only SGLang's own parser: no engine, no model, no GPU.
"""

import argparse
import importlib
import importlib.metadata
import importlib.util
import json
import logging
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

KINDS: Mapping[Any, str] = {int: "int", float: "float", str: "text"}
# Functions that SGLang gives argparse as `type`, and what they read.
READERS = {"human_readable_int": "size", "int": "int", "float": "float"}
# What takes a JSON object: readers of such text, and options that are text to the parser alone.
OBJECT_READERS = ("loads", "parse_cuda_graph_config_arg")
OBJECT_OPTIONS = (
    "--hisparse-config",
    "--json-model-override-args",
    "--kv-events-config",
    "--model-loader-extra-config",
    "--modelexpress-config",
)


def layout(table: Mapping[str, Any]) -> str:
    """JSON with one entry of each section a line, so that two versions can be compared by diff."""
    sections = [f"{json.dumps(key)}: {section(value)}" for key, value in table.items()]
    return "{\n" + ",\n".join(sections) + "\n}\n"


def section(value: Any) -> str:
    if not value or not isinstance(value, Mapping):
        return json.dumps(value, ensure_ascii=False)
    lines = (f"  {json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in value.items())
    return "{\n" + ",\n".join(lines) + "\n}"


def declare_operators() -> None:
    """Empty torchvision operators: the compiled ones do not fit the CPU torch, and are not used."""
    found = importlib.util.find_spec("torchvision")
    if found is None or found.origin is None:
        return
    library = importlib.import_module("torch.library")
    source = (Path(found.origin).parent / "_meta_registrations.py").read_text("utf-8")
    pattern = r'(?:register_meta|register_fake)\("(?:torchvision::)?(\w+)"'
    for name in sorted(set(re.findall(pattern, source))):
        library.define(f"torchvision::{name}", "(Tensor a) -> Tensor")


def admit_known_configs() -> None:
    """Versions before 0.5.19 register model configs that a newer transformers has by itself."""
    mapping = importlib.import_module("transformers.models.auto.configuration_auto").CONFIG_MAPPING
    register = mapping.register
    mapping.register = lambda key, value, exist_ok=True: register(key, value, exist_ok=True)


def is_refused(action: argparse.Action) -> bool:
    """Registered only to stop the launch and name the replacement."""
    return vars(action).get("error_message") is not None


def kind(action: argparse.Action) -> str:
    if action.nargs == 0:
        return "switch"
    return "values" if action.nargs in ("+", "*") else "value"


def takes_object(action: argparse.Action) -> bool:
    """A JSON object and nothing else, no path to a file with one."""
    is_read = getattr(action.type, "__name__", "") in OBJECT_READERS
    return is_read or bool({*OBJECT_OPTIONS} & {*action.option_strings})


def value_type(action: argparse.Action) -> str | None:
    """None where a reader of SGLang's own takes the text: JSON, mostly."""
    if action.nargs == 0 or takes_object(action):
        return None
    if action.type is None or action.type in KINDS:
        return KINDS.get(action.type, "text")
    return READERS.get(getattr(action.type, "__name__", ""))


def choices(action: argparse.Action) -> list[str]:
    """In the parser's order; some are a set, which has none."""
    found = [str(choice) for choice in action.choices or () if choice is not None]
    return sorted(found) if isinstance(action.choices, set | frozenset) else found


def is_negative(action: argparse.Action, spelling: str) -> bool:
    return isinstance(action, argparse.BooleanOptionalAction) and spelling.startswith("--no-")


def entry(action: argparse.Action) -> tuple[str, dict[str, Any]]:
    positive = [s for s in action.option_strings if not is_negative(action, s)]
    negative = [s for s in action.option_strings if is_negative(action, s)]
    long = next(s for s in positive if s.startswith("--"))
    name = long.removeprefix("--")
    fields = {
        "kind": kind(action),
        "aliases": [s for s in (*positive, *negative[1:]) if s != long],
        "negative": negative[0].removeprefix("--") if negative else None,
        "choices": choices(action),
        "type": value_type(action),
    }
    return name, {key: value for key, value in fields.items() if value}


def entries(parser: argparse.ArgumentParser) -> Iterator[tuple[str, dict[str, Any]]]:
    for action in parser._actions:
        if action.option_strings and not is_refused(action):
            yield entry(action)


def object_keys(parser: argparse.ArgumentParser) -> dict[str, list[str]]:
    """Options that take an object, by their names with underscores; any key may be in it."""
    known = (action for action in parser._actions if action.option_strings)
    objects = (action for action in known if takes_object(action) and not is_refused(action))
    return {name.replace("-", "_"): [] for name in sorted(entry(one)[0] for one in objects)}


def main() -> None:
    logging.disable(logging.CRITICAL)
    out, sys.stdout = sys.stdout, sys.stderr  # importing SGLang prints
    declare_operators()
    admit_known_configs()
    module = importlib.import_module("sglang.srt.server_args")
    version = importlib.import_module("sglang.version").__version__
    parser = argparse.ArgumentParser()
    module.ServerArgs.add_cli_args(parser)
    table = {
        "engine": "sglang",
        "version": version,
        "source": f"sglang {version}: parser of sglang.srt.server_args, built without a GPU",
        "flags": dict(sorted(entries(parser))),
        "config_keys": object_keys(parser),
    }
    out.write(layout(table))


if __name__ == "__main__":
    main()
