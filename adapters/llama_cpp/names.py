"""Options and environment variables of llama-server that are draftgate's, lossy, or no more."""

import functools
import importlib.resources
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from adapters.flag import FlagTable, named_flags, normal
from adapters.llama_cpp.version import TITLE, dialect_of
from adapters.option import Options, option_problems
from adapters.problem import Path, Problem, near_match

_OTHER_MODELS = (
    "hf-file",
    "model-url",
    "docker-repo",
    "models-dir",
    "models-preset",
    "embd-gemma-default",
    "fim-qwen-1.5b-default",
    "fim-qwen-3b-default",
    "fim-qwen-7b-default",
    "fim-qwen-7b-spec",
    "fim-qwen-14b-spec",
    "fim-qwen-30b-default",
    "gpt-oss-20b-default",
    "gpt-oss-120b-default",
)
_PLAIN_HTTP = "remove it: draftgate speaks plain HTTP to its workers on loopback"
_GAMMA = "set speculation.gamma"
_MATCH = "set speculation.lookup.min"
_DRAFT = "it comes from models.<name>.drafts"
OURS: Final[Mapping[str, str]] = {
    "model": "it comes from models: in the fleet",
    "hf-repo": "it comes from models: in the fleet",
    **dict.fromkeys(_OTHER_MODELS, "it would load another model than models: in the fleet says"),
    "alias": "it is the model's name in the fleet",
    "ctx-size": "it comes from models.<name>.context",
    "host": "workers listen on loopback",
    "port": "it comes from workers: in the fleet",
    **dict.fromkeys(("ssl-cert-file", "ssl-key-file"), _PLAIN_HTTP),
    "api-prefix": "remove it: draftgate asks its workers at the paths without one",
    "metrics": "it is always on: readiness needs the counters",
    "slots": "it is always on: readiness needs it",
    "api-key": "secrets do not belong in argv: use api-key-file",
    "spec-draft-model": _DRAFT,
    "spec-draft-hf": _DRAFT,
    "spec-draft-type-k": "set speculation.kv_cache_dtype",
    "spec-draft-type-v": "set speculation.kv_cache_dtype",
    "spec-draft-n-max": _GAMMA,
    "spec-draft-n-min": "it is always 0: shorter guesses are kept",
    "spec-draft-p-min": "it is always 0: guesses end at gamma",
    "spec-ngram-mod-n-min": "it is always 1: shorter guesses are kept",
    "spec-default": "use speculation.method ngram with pool: shared",
    "spec-ngram-simple-size-n": _MATCH,
    "spec-ngram-simple-size-m": _GAMMA,
    "spec-ngram-map-k-size-n": _MATCH,
    "spec-ngram-map-k-size-m": _GAMMA,
    "spec-ngram-map-k4v-size-n": _MATCH,
    "spec-ngram-map-k4v-size-m": _GAMMA,
    "spec-ngram-mod-n-match": _MATCH,
    "spec-ngram-mod-n-max": _GAMMA,
}
LOSSY: Final = ("spec-synth-len", "spec-synth-rates")
_METHOD = "use speculation.method {}; the option belongs to the download tool"
_LOAD_MODE = "use load-mode"
# Refused as an unknown argument, without advice. Before the hint: the new name, if there is one.
_GONE: Final[Mapping[str, tuple[str, str]]] = {
    # integrators wrote it (atomantic/PortOS #4653); it never was an option
    "draft-model": ("spec-draft-model", _DRAFT),
    "ctx-size-draft": ("", "leave it out: the draft's context is the target's"),
    "cd": ("", "leave it out: the draft's context is the target's"),
    "spec-replace": ("", "leave it out: a draft must have the target's own vocabulary"),
    # docs/speculative.md names it; arg.cpp never had it
    "spec-draft-conf-min": ("spec-draft-p-min", "leave it out: guesses end at gamma"),
    "spec-ngram-adaptive": ("", "leave it out: it was never merged (#19744)"),
    **{name: ("", _METHOD.format(name)) for name in ("mtp", "eagle3", "dflash")},
    **{
        name: ("load-mode", f"{_LOAD_MODE}: {mode}")
        for name, mode in {
            "mlock": "mmap+mlock",
            "mmap": "mmap",
            "no-mmap": "none",
            "direct-io": "dio",
            "no-direct-io": "mmap",
            "dio": "dio",
            "ndio": "mmap",
        }.items()
    },
}
# What to write instead of what the parser itself has removed, by the end of the old name.
_INSTEAD: Final[Mapping[str, str]] = {
    "min": "leave it out: shorter guesses are kept",
    "n-min": "leave it out: shorter guesses are kept",
    "size-n": _MATCH,
    "size-m": _GAMMA,
    "min-hits": "write spec-ngram-map-k-min-hits or spec-ngram-map-k4v-min-hits",
}
_PREFIX = "LLAMA_ARG_"


@dataclass(frozen=True)
class Names:
    """What a build's parser says of old spellings, and the options behind its variables."""

    table: FlagTable
    removed: Mapping[str, str]
    variables: Mapping[str, str]

    def is_gone(self, name: str) -> bool:
        word = normal(name)
        return self.table.find(name) is None and (word in self.removed or word in _GONE)


@functools.cache
def _load(dialect: str, version: str) -> Names:
    file = importlib.resources.files("adapters") / "flags" / f"llama_cpp-{dialect}.json"
    data = json.loads(file.read_text("utf-8"))
    return Names(
        named_flags("llama_cpp", dialect, TITLE, version), data["removed"], data["variables"]
    )


def names_of(version: str) -> Names:
    return _load(dialect_of(version), version)


def native_problems(
    options: Options, version: str, ours: Mapping[str, str], root: Path
) -> list[Problem]:
    """Options that are not the build's, not the user's to write, or have a value it refuses."""
    names = names_of(version)
    gone = [name for name in options if names.is_gone(name)]
    kept = {name: value for name, value in options.items() if name not in gone}
    problems = option_problems(kept, names.table, ours, root)
    return problems + [_gone_problem((*root, name), normal(name), names, version) for name in gone]


def _gone_problem(path: Path, name: str, names: Names, version: str) -> Problem:
    advice = names.removed.get(name)
    if advice is None:
        new, hint = _GONE[name]
        code, what = "renamed-option" if new else "removed-option", f" has no option {name!r}"
        return Problem(path, f"{TITLE} {version}{what}: it does not start", hint, code=code)
    ending = next((end for end in _INSTEAD if name.endswith(f"-{end}")), "")
    message = f"{TITLE} {version} removed {name!r} and does not start with it: {advice}"
    return Problem(path, message, _INSTEAD.get(ending, _GAMMA), code="renamed-option")


def lossy_problems(options: Options, version: str, root: Path) -> list[Problem]:
    """Options that accept guesses without asking the target."""
    table = names_of(version).table
    found = [name for name in options if (flag := table.find(name)) and flag.name in LOSSY]
    return [_lossy((*root, name), name) for name in found]


def _lossy(path: Path, name: str) -> Problem:
    message = f"{name} is lossy: drafts are accepted at random, the output is not valid"
    hint = "remove it; a profile with lossless: false may have it for a bench"
    return Problem(path, message, hint, code="lossy")


def environment_problems(environment: Mapping[str, str], version: str) -> list[Problem]:
    """Variables that options are read from: they come in past every check of options."""
    names = names_of(version)
    wanted = [variable for variable in environment if variable.startswith(_PREFIX)]
    return [_variable_problem(variable, names, version) for variable in wanted]


def _variable_problem(variable: str, names: Names, version: str) -> Problem:
    path: Path = (variable,)
    option = names.variables.get(variable)
    if option is None:
        near = near_match(variable, names.variables)
        hint = f"did you mean {near}?" if near else "remove it"
        message = f"{TITLE} {version} reads no variable {variable}: it would be ignored"
        return Problem(path, message, hint, code="unknown-variable")
    if option in names.removed:
        message = f"{TITLE} {version} does not start while {variable} is set: {option} was removed"
        ending = "min" if variable.endswith("_MIN") else ""
        return Problem(path, message, _INSTEAD.get(ending, _GAMMA), code="dead-variable")
    if option in LOSSY:
        return _lossy(path, variable)
    if option == "spec-type":
        message = f"{TITLE} adds the types in {variable} to those of every profile"
        return Problem(path, message, "use speculation.method", code="option-is-ours")
    if option in OURS:
        message = f"{variable} is the option {option}, which draftgate writes"
        return Problem(path, message, OURS[option], code="option-is-ours")
    message = f"{variable} is the option {option}: given so, it would escape every check"
    return Problem(path, message, f"write {option} under args:", code="option-by-variable")
