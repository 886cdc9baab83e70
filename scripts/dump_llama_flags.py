"""Write the option table of one llama.cpp build, from `llama-server --help` or from its sources.

    llama-server --help | python -m scripts.dump_llama_flags - b10434 "PACKAGE: --help" > TABLE
    python -m scripts.dump_llama_flags LLAMA_CPP_TREE b11434 "PACKAGE: common/arg.cpp" > TABLE

The sources serve where no build can be run; what they offer depends on no build option but RPC.
"""

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.dump_vllm_flags import layout

# The parser refuses these with a hint; to us they are unknown.
REMOVED = "the argument has been removed"
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
    """One option as llama.cpp declares it; `hint` stands for its argument, if it takes any."""

    positive: Sequence[str]
    negative: Sequence[str]
    hint: str
    text: str


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
    return Option(names[:split], names[split:], head[spelled.end() :].strip(), text.strip())


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
    hints = literals[: len(arguments)]
    return Option(
        STRING.findall(match["args"]),
        STRING.findall(match["negative"] or ""),
        " ".join(hints),
        " ".join(literals[len(hints) :]),
    )


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
    spelled = option.positive
    long = next((name for name in spelled if name.startswith("--")), spelled[0])
    off = next((name for name in option.negative if name.startswith("--")), None)
    entry = {
        "kind": kind(option.hint),
        "aliases": [name for name in (*spelled, *option.negative) if name not in (long, off)],
        "negative": off and off.removeprefix("--"),
        "choices": choices(option),
    }
    return long.lstrip("-"), {key: value for key, value in entry.items() if value}


def table(options: Iterator[Option], version: str, source: str) -> dict[str, Any]:
    known = (flag_entry(option) for option in options if REMOVED not in option.text)
    return {
        "engine": "llama_cpp",
        "version": version,
        "source": source,
        "flags": dict(sorted(known)),
        "config_keys": {},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("origin", help="a llama.cpp tree, a file of --help text, or - for stdin")
    parser.add_argument("version")
    parser.add_argument("source", help="package and version, kept in the table")
    given = parser.parse_args()
    origin = Path(given.origin)
    if origin.is_dir():
        options = read_sources(origin)
    else:
        options = read_help(sys.stdin.read() if given.origin == "-" else origin.read_text("utf-8"))
    sys.stdout.write(layout(table(options, given.version, given.source)))


if __name__ == "__main__":
    main()
