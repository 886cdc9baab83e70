"""Options and variables given natively: unknown, retired, ours, lossy, or without effect."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from pydantic import JsonValue

from adapters.dialect import Release
from adapters.flag import FlagTable, normal
from adapters.option import Options, option_problems
from adapters.problem import Path, Problem
from adapters.sglang.given import ENGINE, Given, is_since, named_table, table_of
from adapters.sglang.size import size_problems
from adapters.sglang.spelling import dotted_problem, explained
from adapters.sglang.words import OURS, OWNERS, PARTIAL, TRIPLE


@dataclass(frozen=True)
class Retired:
    """`new` is what to write instead; a name alone makes it a renamed option."""

    since: Release
    new: str = ""
    hint: str = ""


# Options of 0.5.9 to 0.5.22 that a later parser does not know, from the tables of all versions.
_RETIRED: Final[Mapping[str, Retired]] = {
    "speculative-ngram-min-match-window-size": Retired(
        (0, 5, 10), hint="remove it: one matching token is enough since 0.5.10"
    ),
    "speculative-ngram-max-match-window-size": Retired(
        (0, 5, 10), hint="set speculation.lookup.max: max-trie-depth follows from it"
    ),
    "speculative-ngram-branch-length": Retired(
        (0, 5, 10), hint="set speculation.lookup.max: max-trie-depth follows from it"
    ),
    "speculative-dflash-draft-window-size": Retired((0, 5, 12), "speculative-draft-window-size"),
    "speculative-skip-dp-mlp-sync": Retired(
        (0, 5, 23), hint="remove it: 0.5.23 has no such switch"
    ),
    "enable-piecewise-cuda-graph": Retired((0, 5, 14), "cuda-graph-backend-prefill"),
    "disable-piecewise-cuda-graph": Retired((0, 5, 20), "disable-prefill-cuda-graph"),
    "piecewise-cuda-graph-tokens": Retired((0, 5, 20), "cuda-graph-bs-prefill"),
    "piecewise-cuda-graph-max-tokens": Retired((0, 5, 20), "cuda-graph-max-bs-prefill"),
    "cuda-graph-bs": Retired((0, 5, 20), "cuda-graph-bs-decode"),
    "cuda-graph-max-bs": Retired((0, 5, 20), "cuda-graph-max-bs-decode"),
    "enable-gdn-replayssm-spec": Retired((0, 5, 20), "enable-linear-replayssm-spec"),
    "mamba-scheduler-strategy": Retired((0, 5, 20), "mamba-radix-cache-strategy"),
    "nsa-prefill-backend": Retired((0, 5, 20), "dsa-prefill-backend"),
    "nsa-decode-backend": Retired((0, 5, 20), "dsa-decode-backend"),
    "torchao-config": Retired((0, 5, 18), hint="use quantization"),
}
_THRESHOLDS: Final = ("speculative-accept-threshold-single", "speculative-accept-threshold-acc")
_LOAD_FORMATS: Final = ("load-format", "speculative-draft-load-format")
_SIMULATED: Final = "SGLANG_SIMULATE_ACC_"


def native_problems(
    options: Options, version: str, root: Path, is_lossless: bool = True
) -> list[Problem]:
    """What is wrong with options whatever the profile: retired, unknown, ours, a wrong value."""
    problems: list[Problem] = []
    rest: dict[str, JsonValue] = {}
    table = named_table(version)
    for name, value in options.items():
        path = (*root, name)
        problem = _retired(path, name, version) or dotted_problem(path, name, table)
        problems += [problem] if problem else []
        if problem is None:
            rest[name] = value
    found = option_problems(rest, table, OURS, root)
    problems += [
        explained(problem, table) if _is_name(problem, root) else problem for problem in found
    ]
    problems += _random_problems(rest, table, root) + size_problems(rest, table, root)
    return problems + _threshold_problems(rest, version, root, is_lossless)


def _is_name(problem: Problem, root: Path) -> bool:
    """Whether it is about an option, not about a key in its value."""
    return len(problem.path) == len(root) + 1


def partial_problems(problems: list[Problem], given: Given) -> list[Problem]:
    """The complaint about one or two numbers of the three says what SGLang would do with them."""
    named = {given.name(name) for name in given.native} & set(TRIPLE)
    if not named or len(named) == len(TRIPLE):
        return problems
    return [
        replace(p, message=PARTIAL, code="partial-triple") if _is_of(p, given, named) else p
        for p in problems
    ]


def _is_of(problem: Problem, given: Given, named: set[str]) -> bool:
    return problem.code == "option-is-ours" and given.name(str(problem.path[-1])) in named


def _retired(path: Path, name: str, version: str) -> Problem | None:
    table, old = table_of(version), _RETIRED.get(normal(name))
    if old is None or table.find(name) is not None or not is_since(table.version, old.since):
        return None
    since = ".".join(map(str, old.since))
    if old.new:
        message = f"SGLang calls {normal(name)} {old.new} since {since}"
        return Problem(path, message, f"write {old.new}", code="renamed-option")
    message = f"SGLang has no {normal(name)} since {since}, and does not start with it"
    return Problem(path, message, old.hint, code="removed-option")


def _random_problems(options: Options, table: FlagTable, root: Path) -> list[Problem]:
    """Weights that are no model's, the target's or the draft's."""
    problems: list[Problem] = []
    for name, value in options.items():
        flag = table.find(name)
        is_random = isinstance(value, str) and value.lower() == "dummy"
        if flag is not None and flag.name in _LOAD_FORMATS and is_random:
            message = f"{flag.name} {value} is lossy: the weights are random"
            problems.append(Problem((*root, name), message, "remove it", code="lossy"))
    return problems


def _threshold_problems(
    options: Options, version: str, root: Path, is_lossless: bool
) -> list[Problem]:
    """Below 1, a guess is accepted more often than the target would have written it."""
    table = table_of(version)
    problems: list[Problem] = []
    for name, value in options.items():
        flag = table.find(name)
        if flag is None or flag.name not in _THRESHOLDS or not _is_below_one(value):
            continue
        message = f"{flag.name}: {value} is lossy: guesses are accepted that the target would not "
        problems.append(_lossy((*root, name), message + "have written", is_lossless))
    return problems


def _is_below_one(value: JsonValue) -> bool:
    try:
        return not isinstance(value, bool | list | dict) and float(value or 0) < 1
    except (ValueError, OverflowError):
        return False


def _lossy(path: Path, message: str, is_lossless: bool) -> Problem:
    if is_lossless:
        return Problem(path, message, "remove it, or write lossless: false", code="lossy")
    return Problem(path, message, "the gate will fail it", severity="warning", code="lossy")


def unused_problems(given: Given, method: str) -> list[Problem]:
    """The profile's options for drafting that its method does not read.

    The fleet's own may be meant for other workers of the same engine.
    """
    problems: list[Problem] = []
    for written in given.native:
        name = given.name(written)
        owners = next((who for prefix, who in OWNERS.items() if name.startswith(prefix)), None)
        if owners is None or name in OURS or method in owners or given.table.find(written) is None:
            continue
        message = f"{name} does nothing with method {method}, and SGLang does not say so"
        hint = f"remove it; it is for {', '.join(sorted(owners))}"
        path: Path = ("engine", ENGINE, written)
        problems.append(Problem(path, message, hint, code="option-unused"))
    return problems


def environment_problems(environment: Mapping[str, str], version: str) -> list[Problem]:
    """Variables that bend the output, and those that nothing reads any more (environ.py)."""
    problems = (_variable(name, value, version) for name, value in environment.items())
    return [problem for problem in problems if problem]


def _variable(name: str, value: str, version: str) -> Problem | None:
    """The old prefix is still taken: SGL_ for SGLANG_."""
    known = f"SGLANG_{name.removeprefix('SGL_')}" if name.startswith("SGL_") else name
    if known.startswith(_SIMULATED):
        message = f"{name} makes SGLang accept guesses by a number, whatever the target says"
        return Problem((name,), message, "remove it: it is for benches", code="lossy")
    is_dead = is_since(version, (0, 5, 14))
    if known == "SGLANG_NGRAM_FORCE_GREEDY_VERIFY":
        if is_dead:
            return _dead(name, "nothing reads it since 0.5.14")
        if value.lower() in ("1", "true", "yes", "y"):
            message = f"{name} makes n-gram guesses be checked against the greedy answer"
            hint = "remove it: sampled requests would be answered without their temperature"
            return Problem((name,), message, hint, code="lossy")
    if known == "SGLANG_ENABLE_SPEC_V2" and is_dead:
        return _dead(name, "there is one implementation since 0.5.14")
    return None


def _dead(name: str, why: str) -> Problem:
    return Problem((name,), f"{name} does nothing: {why}", "remove it", code="dead-variable")
