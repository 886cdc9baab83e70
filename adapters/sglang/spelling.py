"""Options that SGLang's parser would complete, or that are spelled as other engines' are.

argparse completes what begins one option only (`--tp 2`), and then no check would know the option
by its name; every option is therefore written in full here.
"""

from dataclasses import replace

from adapters.flag import Flag, FlagTable, normal
from adapters.problem import Path, Problem
from adapters.sglang.words import OURS


def dotted_problem(path: Path, name: str, table: FlagTable) -> Problem | None:
    """vLLM takes `option.key`; SGLang's parser does not."""
    option, dot, key = normal(name).partition(".")
    flag = table.find(option)
    if not dot or flag is None:
        return None
    message = f"{table.engine} {table.version} has no option {name!r}: it takes no keys by a dot"
    return Problem(path, message, f"write {option}: {{{key}: …}}", code="unknown-option")


def explained(problem: Problem, table: FlagTable) -> Problem:
    """An unknown option, with the one that it begins or resembles and who writes that."""
    if problem.code != "unknown-option":
        return problem
    name = str(problem.path[-1])
    whole = _completed(normal(name), table)
    if whole is None:
        near = table.near(name)
        flag = table.find(near) if near else None
        ours = OURS.get(flag.name) if flag else None
        return replace(problem, hint=f"did you mean {near!r}? {ours}") if ours else problem
    spelling, flag = whole
    if flag.name in OURS:
        message = f"{name!r} is short for {spelling}, which is written by draftgate"
        return replace(problem, message=message, hint=OURS[flag.name], code="option-is-ours")
    return replace(problem, hint=f"write {spelling}")


def _completed(name: str, table: FlagTable) -> tuple[str, Flag] | None:
    """The spelling that `name` begins: the only one, or that of a size (`pp`, `ep`)."""
    found = {s: flag for flag in table.flags.values() for s in flag.spellings()}
    found = {spelling: flag for spelling, flag in found.items() if spelling.startswith(name)}
    size = f"{name}-size"
    if size in found:
        return size, found[size]
    if len({flag.name for flag in found.values()}) != 1:
        return None
    shortest = min(found, key=len)
    return shortest, found[shortest]
