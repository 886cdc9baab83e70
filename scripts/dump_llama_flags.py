"""Write the option table of one llama.cpp build, from its llama-server or from its sources.

    python -m scripts.dump_llama_flags LLAMA_SERVER b10434 "PACKAGE: --help and refusals" > TABLE
    python -m scripts.dump_llama_flags LLAMA_CPP_TREE b11434 "PACKAGE: common/arg.cpp" > TABLE

A program is asked for its help, and what values it takes: it refuses a bad one before it loads
anything. The sources serve where no build can be run; they depend on no build option but RPC.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from scripts.dump_vllm_flags import layout

# The parser refuses these with a hint.
REMOVED = re.compile(r"the argument has been removed\. (.*)")
# What the handlers of arg.cpp read a number with, and what its standard library says of a bad one.
READERS: Mapping[str, str] = {
    "stoi": "int",
    "stoul": "int",
    "stof": "float",
    "stod": "float",
}
# Handlers that take a word or several numbers besides one number say so with these.
NOT_ONE_NUMBER = re.compile(r'== "|is_truthy|string_split|regex|parse_csv|stringstream')
CONSTANTS = {"GGML_SCHED_PRIO_LOW": -1, "GGML_SCHED_PRIO_REALTIME": 3}
MOST = 100_000  # larger numbers are no bound: some options allocate as many of something
# common_arg_utils::is_truthy, is_falsey and is_autoy
SYNONYMS = {"on": ("enabled", "true", "1"), "off": ("disabled", "false", "0"), "auto": ("-1",)}

STRING = re.compile(r'"((?:\\.|[^"\\])*)"')
COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
OPTION = re.compile(
    r"\s*\{(?P<args>[^}]*)\}\s*,\s*(?:\{(?P<negative>[^}]*)\}\s*,\s*)?"
    r"(?P<middle>.*?)\[\]\s*\((?P<params>[^)]*)\)(?P<tail>.*)",
    re.DOTALL,
)
EXAMPLE = re.compile(r"LLAMA_EXAMPLE_(\w+)")


@dataclass(frozen=True)
class Option:
    """One option as llama.cpp declares it; `hint` stands for its argument, if it takes any.

    `variable` is the environment variable it is read from; `rule` what one value must be.
    """

    positive: Sequence[str]
    negative: Sequence[str]
    hint: str
    text: str
    variable: str = ""
    rule: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The first long spelling, without dashes."""
        long = (name for name in self.positive if name.startswith("--"))
        return next(long, self.positive[0]).lstrip("-")


def read_help(help_text: str) -> Iterator[Option]:
    """Options start at the margin; the text that explains them is indented."""
    for block in re.split(r"\n(?=-)", help_text):
        first, _, rest = block.partition("\n")
        if first.startswith("-") and not first.startswith("----"):
            head, _, text = re.sub(r",\s+(?=-)", ", ", first).partition("  ")
            yield help_option(head, " ".join([text, *rest.split()]))


def help_option(head: str, text: str) -> Option:
    spelled = re.match(r"(?:-\S+, )*-\S+", head)
    if spelled is None:
        raise ValueError(f"not an option: {head!r}")
    names = spelled[0].split(", ")
    split = first_negative(names)
    hint, variable = head[spelled.end() :].strip(), re.search(r"\(env: (\w+)\)", text)
    told = variable[1] if variable else ""
    return Option(names[:split], names[split:], hint, text.strip(), told)


def first_negative(names: Sequence[str]) -> int:
    """Help prints a switch's negative spellings after its own, short ones first."""
    own = [i for i, n in enumerate(names) if n.startswith("--") and not n.startswith("--no-")]
    has_negative = any(name.startswith("--no-") for name in names)
    return own[-1] + 1 if own and has_negative else len(names)


def read_sources(tree: Path) -> Iterator[Option]:
    """The options of common/arg.cpp that apply to the server."""
    code = without_comments((tree / "common/arg.cpp").read_text("utf-8"))
    types = without_comments((tree / "common/speculative.cpp").read_text("utf-8"))
    known = {
        "common_speculative_all_types_str()": re.findall(
            r'\{"([\w-]+)",\s*COMMON_SPECULATIVE_TYPE_', types
        ),
        "get_all_kv_cache_types()": [
            name.lower() for name in re.findall(r"^\s+GGML_TYPE_(\w+),$", code, re.MULTILINE)
        ],
    }
    for chunk in re.split(r"add_opt\(\s*common_arg\(", code)[1:]:
        match = OPTION.match(chunk)
        if match is None:
            raise ValueError(f"not an option: {chunk[:80]!r}")
        if applies_to_server(match["tail"]):
            yield source_option(match, known)


def without_comments(code: str) -> str:
    return COMMENT.sub(lambda match: match[1] or "", code)


def applies_to_server(tail: str) -> bool:
    """As add_opt decides: an option without examples is common, and all inherit common ones."""
    examples = re.search(r"set_examples\(\{([^}]*)\}", tail)
    excludes = re.search(r"set_excludes\(\{([^}]*)\}", tail)
    wanted = set(EXAMPLE.findall(examples[1])) if examples else {"COMMON"}
    unwanted = set(EXAMPLE.findall(excludes[1])) if excludes else set()
    return bool(wanted & {"SERVER", "COMMON"}) and "SERVER" not in unwanted


def source_option(match: re.Match[str], known: dict[str, list[str]]) -> Option:
    """What the handler is called with tells how many arguments the option takes."""
    middle = match["middle"]
    arguments = [a for a in match["params"].split(",")[1:] if "bool" not in a]
    for call, listed in known.items():
        if middle.startswith(call):
            middle = f'"{",".join(listed)}" {middle}'
        elif call in middle:
            middle = middle.replace("%s", ", ".join(listed), 1)
    literals = STRING.findall(middle)
    hints, variable = literals[: len(arguments)], re.search(r'set_env\("(\w+)"\)', match["tail"])
    return Option(
        STRING.findall(match["args"]),
        STRING.findall(match["negative"] or ""),
        " ".join(hints),
        " ".join(literals[len(hints) :]),
        variable[1] if variable else "",
        handler_rule(arguments, match["tail"]),
    )


def handler_rule(arguments: Sequence[str], tail: str) -> dict[str, Any]:
    """What a handler does with its value: it is called with a whole number, or reads a number."""
    body = tail.partition(").set_")[0]
    if arguments and arguments[0].split()[0] == "int":
        return {"type": "int", **refused_bounds(arguments[0].split()[-1], body)}
    read = re.search(r"std::(sto\w+)\(", body)
    if read is None or read[1] not in READERS or NOT_ONE_NUMBER.search(body):
        return {}
    return {"type": READERS[read[1]]}


def refused_bounds(name: str, body: str) -> dict[str, int]:
    """The bounds in the condition under which a handler throws."""
    bounds: dict[str, int] = {}
    for sign, word in re.findall(rf"\b{name} ([<>]) (-?\w+)", body):
        limit = CONSTANTS.get(word) if not word.lstrip("-").isdigit() else int(word)
        if limit is not None:
            bounds["minimum" if sign == "<" else "maximum"] = limit
    return bounds


def ask(program: Path, options: Iterable[Option]) -> Iterator[Option]:
    """The options with what the program itself says of their values."""
    with tempfile.TemporaryDirectory() as folder:

        def complaint(*argv: str) -> str:
            """Why it refuses these arguments; empty when it reads past them, to one it refuses."""
            argv = (str(program), *argv, "--spec-type", "no-such-type")
            done = subprocess.run(
                argv, cwd=folder, capture_output=True, text=True, timeout=60, check=False
            )
            said = done.stderr + done.stdout
            return "" if "unknown speculative type: no-such-type" in said else said

        for option in options:
            if kind(option.hint) == "switch" or choices(option) or "," in option.hint:
                yield option
            else:
                count = 2 if kind(option.hint) == "values" else 1
                yield replace(option, rule=asked_rule(option.positive[-1], count, complaint))


def asked_rule(flag: str, count: int, complaint: Callable[..., str]) -> dict[str, Any]:
    """The kind of number that an option takes, if nothing else, and its bounds."""

    def refuses(value: str) -> str:
        return complaint(flag, *[value] * count)

    read = re.search(r'": (sto\w+)\n', refuses("lots"))
    if read is None or read[1] not in READERS or not refuses("auto") or not refuses("all"):
        return {}
    rule: dict[str, Any] = {"type": READERS[read[1]]}
    if read[1] != "stoi":
        return rule
    taken = [number for number in range(-2, 2) if not refuses(str(number))]
    if taken and taken[0] > -2:
        rule["minimum"] = taken[0]
    if refuses(str(MOST)):
        rule["maximum"] = largest(lambda number: not refuses(str(number)))
    return rule


def largest(takes: Callable[[int], bool]) -> int:
    """The largest number taken, by halving; 1 is taken and MOST is not."""
    low, high = 1, MOST
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if takes(middle) else (low, middle)
    return low


def kind(hint: str) -> str:
    """Only a pair of capital words stands for two arguments."""
    if not hint:
        return "switch"
    return "values" if re.fullmatch(r"[A-Z]+ [A-Z]+", hint) else "value"


def choices(option: Option) -> list[str]:
    """The words in `[on|off]`, `<0|1>`, `{none,linear}`, `a,b,c` or `allowed values: a, b`."""
    allowed = re.search(r"allowed values: ([\w-]+(?:, [\w-]+)*)", option.text.replace("\\n", " "))
    if allowed is not None:
        return allowed[1].split(", ")
    listed = re.split(r"[|,]", option.hint.strip("[]<>{}"))
    if len(listed) < 2 or not all(re.fullmatch(r"[a-z0-9-]+", word) for word in listed):
        return []
    return [word for first in listed for word in (first, *SYNONYMS.get(first, ()))]


def flag_entry(option: Option) -> tuple[str, dict[str, Any]]:
    long = next((n for n in option.positive if n.startswith("--")), option.positive[0])
    off = next((name for name in option.negative if name.startswith("--")), None)
    spelled = (*option.positive, *option.negative)
    entry = {
        "kind": kind(option.hint),
        "aliases": [name for name in spelled if name not in (long, off)],
        "negative": off and off.removeprefix("--"),
        "choices": choices(option),
    }
    return option.name, {**{key: value for key, value in entry.items() if value}, **option.rule}


def table(options: Iterable[Option], version: str, source: str) -> dict[str, Any]:
    """`removed` maps old spellings to the parser's advice, `variables` to what they stand for."""
    read = list(options)
    removed = [(o, found[1]) for o in read if (found := REMOVED.search(o.text))]
    dead = {option.name for option, _ in removed}
    return {
        "engine": "llama_cpp",
        "version": version,
        "source": source,
        "flags": dict(sorted(flag_entry(o) for o in read if o.name not in dead)),
        "config_keys": {},
        "removed": {
            spelling.lstrip("-"): re.sub(r"\s*\(env: \w+\)", "", advice)
            for option, advice in removed
            for spelling in option.positive
        },
        "variables": dict(sorted(variable for o in read for variable in variables(o))),
    }


def variables(option: Option) -> Iterator[tuple[str, str]]:
    """What an option is read from; a switch that can be turned off has a second one for that."""
    if option.variable:
        yield option.variable, option.name
        if option.negative:
            yield option.variable.replace("LLAMA_ARG_", "LLAMA_ARG_NO_"), option.name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("origin", type=Path, help="a llama-server, or a llama.cpp tree")
    parser.add_argument("version")
    parser.add_argument("source", help="package and version, kept in the table")
    given = parser.parse_args()
    sys.stdout.write(layout(table(read(given.origin), given.version, given.source)))


def read(origin: Path) -> Iterator[Option]:
    if origin.is_dir():
        return read_sources(origin)
    done = subprocess.run([origin, "--help"], capture_output=True, text=True, check=True)
    return ask(origin, read_help(done.stdout))


if __name__ == "__main__":
    main()
