"""Native options: what this version's files and flags know, and what would bend the output."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from pydantic import JsonValue

from adapters.flag import FlagTable
from adapters.launch import WorkerSpec
from adapters.option import Options, option_problems
from adapters.problem import Path, Problem, did_you_mean, near_match
from adapters.profile import Profile
from adapters.tensorrt_llm.decoder import TITLE, Backend, Decoder, decoder_of, dialect_of
from adapters.tensorrt_llm.given import (
    ENGINE,
    SPECULATIVE,
    backend_of,
    decoder_keys,
    extra_of,
    file_keys,
    named_table,
    native_of,
    table_of,
    under,
)
from adapters.tensorrt_llm.names import (
    GATES,
    OURS,
    PROFILE_KEYS,
    REMOVED_LATER,
    RENAMED,
    RENAMED_LATER,
    SPECULATIVE_EARLIER,
    SPECULATIVE_REMOVED_LATER,
    SPECULATIVE_RENAMED,
    SPECULATIVE_RENAMED_LATER,
    TREE_KEYS,
)
from adapters.value import ValueRule, shown

# PR #9371: the number of accepted guesses is forced, whatever they were.
FORCED_ACCEPTANCE: Final = "TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS"
_LOSSY_KEYS: Final[Mapping[str, Any]] = {
    "use_relaxed_acceptance_for_thinking": False,
    "greedy_sampling": True,
    "posterior_threshold": None,
}
_OUTPUT: Final = "guesses are accepted that the target would not have written"


def lossy(path: Path, what: str, is_lossless: bool = True) -> Problem:
    message = f"{what} is lossy: {_OUTPUT}"
    if is_lossless:
        return Problem(path, message, "remove it, or write lossless: false", code="lossy")
    return Problem(path, message, "the gate will fail it", severity="warning", code="lossy")


def profile_options(profile: Profile, worker: WorkerSpec) -> list[Problem]:
    """Problems of a profile's `engine.tensorrt_llm`."""
    root: Path = ("engine", ENGINE)
    version, backend = worker.engine_version, backend_of(profile, worker)
    problems = server_problems(native_of(profile), version, backend, root)
    problems += _twice_problems(profile.engine.get(ENGINE, {}), root, {SPECULATIVE})
    return problems + _extra_problems(profile, decoder_of(profile, version), version)


def _twice_problems(
    options: Options, root: Path, among: Collection[str] | None = None
) -> list[Problem]:
    """Names that are another spelling of an earlier one: only one of the two would be read."""
    seen: dict[str, str] = {}
    problems: list[Problem] = []
    for name in options:
        first = seen.setdefault(under(name), name)
        if first != name and (among is None or under(name) in among):
            message = f"{name!r} repeats {first!r}"
            path = (*root, name)
            problems.append(Problem(path, message, "keep one of them", code="option-twice"))
    return problems


def server_problems(
    options: Options, version: str, backend: Backend | None = None, root: Path = ()
) -> list[Problem]:
    """Problems of options for the server, of a profile or of a fleet.

    A fleet's may be for any backend: which one it will be, a profile decides.
    """
    table, problems, seen = table_of(version), list[Problem](), dict[str, str]()
    for name, value in options.items():
        flag = table.find(name)
        key = under(flag.name if flag else name)
        if key in seen:
            message = f"{name!r} repeats {seen[key]!r}"
            problems.append(
                Problem((*root, name), message, "keep one of them", code="option-twice")
            )
        else:
            problems += _server_problem((*root, name), key, value, version, backend)
        seen.setdefault(key, name)
    return problems


def _server_problem(
    path: Path, key: str, value: JsonValue, version: str, backend: Backend | None
) -> list[Problem]:
    table = named_table(version)
    name, is_later = str(path[-1]), dialect_of(version) != "1.2"
    if key in OURS:
        return [
            Problem(path, f"{name!r} is written by draftgate", OURS[key], code="option-is-ours")
        ]
    moved = _moved(
        key, RENAMED, RENAMED_LATER if is_later else {}, REMOVED_LATER if is_later else {}
    )
    if moved:
        return [_moved_problem(path, f"{TITLE} {version}", moved)]
    if key == "backend":
        return _backend_problems(path, value, is_later)
    rules = file_keys(table, backend)
    if key in rules:
        found = _value_problems(path, key, value, rules[key])
        return found or _inner_problems(path, key, value, table)
    if table.find(name):
        return option_problems({name: value}, table, {}, path[:-1])
    message = f"{TITLE} {version} has no option {name!r}"
    hint = _meant(key, {*rules, *map(under, table.flags)}, OURS.get)
    if key in file_keys(table, None):
        message += f" on the {backend} backend"
        hint = "the method needs that backend: remove the option"
    return [Problem(path, message, hint, code="unknown-option")]


def _moved(
    key: str,
    renamed: Mapping[str, str],
    renamed_later: Mapping[str, str],
    removed: Mapping[str, str],
) -> tuple[str, str] | None:
    """The code and the hint for a name that is no longer the engine's."""
    hint = renamed.get(key) or renamed_later.get(key)
    if hint:
        return "renamed-option", hint
    return ("removed-option", removed[key]) if key in removed else None


def _moved_problem(path: Path, owner: str, moved: tuple[str, str]) -> Problem:
    code, hint = moved
    verb = "spells" if code == "renamed-option" else "no longer has"
    message = f"{owner} {verb} {path[-1]!r}" + (" otherwise" if verb == "spells" else "")
    return Problem(path, message, hint, code=code)


def _value_problems(path: Path, key: str, value: JsonValue, rule: ValueRule) -> list[Problem]:
    """A file has types, so that a number in quotes is text. The engine's classes may convert it,
    but not every release and not every reader of the file does (issue #6827)."""
    is_number = bool({"int", "float"} & set(rule.kinds)) and "text" not in rule.kinds
    if is_number and isinstance(value, str):
        message = f"{key}: expected a number, found {shown(value)}"
        hint = f"write {value} without quotes" if value.lstrip("+-").isdecimal() else ""
        return [Problem(path, message, hint, code="option-value")]
    complaint = rule.complaint(value)
    if complaint is None:
        return _random_problems(path, key, value)
    return [Problem(path, f"{key}: {complaint[0]}", complaint[1], code="option-value")]


def _random_problems(path: Path, key: str, value: JsonValue) -> list[Problem]:
    """LoadFormat is read without case (llm_args.py, convert_load_format)."""
    if key != "load_format" or not isinstance(value, str) or value.lower() != "dummy":
        return []
    message = f"load_format {value} is lossy: the weights are random"
    return [Problem(path, message, "remove it", code="lossy")]


def _inner_problems(path: Path, key: str, value: JsonValue, table: FlagTable) -> list[Problem]:
    """The keys of a key that takes a mapping, where they are known."""
    if key == "env_overrides" and isinstance(value, dict) and FORCED_ACCEPTANCE in value:
        return [_forced((*path, FORCED_ACCEPTANCE))]
    rules = table.config_keys.get(key)
    if not rules or not isinstance(value, dict):
        return []
    problems: list[Problem] = []
    for name, inner in value.items():
        if name in rules:
            problems += _value_problems((*path, name), name, inner, rules[name])
        else:
            message = f"{key} of {table.engine} {table.version} has no key {name!r}"
            hint = did_you_mean(name, rules)
            problems.append(Problem((*path, name), message, hint, code="unknown-option"))
    return problems


def _backend_problems(path: Path, value: JsonValue, is_later: bool) -> list[Problem]:
    """AutoDeploy's arguments are another class, which is not known here."""
    known = ("pytorch",) if is_later else ("pytorch", "tensorrt", "trt")
    if value in known:
        return []
    message = f"backend: {shown(value)} is not a backend that draftgate knows"
    return [Problem(path, message, f"one of: {', '.join(known)}", code="option-value")]


def _extra_problems(profile: Profile, decoder: Decoder | None, version: str) -> list[Problem]:
    """Keys for the decoding class under engine.tensorrt_llm.speculative_config."""
    root, extra = ("engine", ENGINE, SPECULATIVE), extra_of(profile)
    if not isinstance(extra, dict):
        message = "expected a mapping of the decoding class's keys"
        return [Problem(root, message, code="bad-value")]
    if extra and not profile.is_speculating:
        message = "method none has no speculative config"
        return [Problem(root, message, "remove it", code="option-is-ours")]
    if decoder is None:
        return []
    problems = _twice_problems(extra, root)
    for name, value in extra.items():
        problems += _key_problems((*root, name), value, decoder, version)
        problems += _lossy_problems((*root, name), value, decoder, profile.lossless)
    return problems


def _lossy_problems(
    path: Path, value: JsonValue, decoder: Decoder, is_lossless: bool
) -> list[Problem]:
    key = under(str(path[-1]))
    if key not in _LOSSY_KEYS or value == _LOSSY_KEYS[key]:
        return []
    return [lossy(path, f"{key}: {shown(value)}", is_lossless)]


def _key_problems(path: Path, value: JsonValue, decoder: Decoder, version: str) -> list[Problem]:
    table, key = named_table(version), under(str(path[-1]))
    is_later, rules = dialect_of(version) != "1.2", decoder_keys(table, decoder)
    owner = f"{decoder.kind} of {TITLE} {version}"
    ours = {known: _ours(known, decoder, is_later) for known in (*rules, "decoding_type")}
    moved = _moved(
        key,
        SPECULATIVE_RENAMED,
        SPECULATIVE_RENAMED_LATER if is_later else {},
        SPECULATIVE_REMOVED_LATER if is_later else {},
    )
    if moved:
        return [_moved_problem(path, owner, moved)]
    if ours.get(key):
        message = f"{path[-1]!r} is written by draftgate"
        return [Problem(path, message, ours[key], code="option-is-ours")]
    if key not in rules:
        message = f"{owner} has no key {path[-1]!r}"
        hint = SPECULATIVE_EARLIER.get(key) if not is_later else None
        hint = hint or _meant(key, {*rules}, ours.get)
        return [Problem(path, message, hint, code="unknown-option")]
    found = _value_problems(path, key, value, rules[key]) + _sampling_problems(path, key, is_later)
    found += _gate_problems(path, key, decoder)
    return found or _inner_problems(path, key, value, table)


def _meant(key: str, known: set[str], ours: Callable[[str], str | None]) -> str:
    """A hint at what a user may write; `ours` says of the rest what to write instead."""
    near = near_match(key, sorted(known))
    if near and ours(near):
        return f"did you mean {near!r}? {ours(near)}"
    free = {name for name in known if not ours(name)}
    return did_you_mean(key, free) if free else "draftgate writes all of its keys: remove it"


def _ours(key: str, decoder: Decoder, is_later: bool) -> str:
    """What to write instead of a key that the profile says, or nothing."""
    if key in PROFILE_KEYS and (key, decoder.kind) != ("max_matching_ngram_size", "SA"):
        return f"set speculation.{PROFILE_KEYS[key]} instead"
    if key == "max_matching_ngram_size":
        return "it is always the longest match"
    if key in TREE_KEYS and not (decoder.kind == "MTP" and is_later):
        is_tree = decoder.kind in ("Eagle", "Eagle3")
        return f"set speculation.{TREE_KEYS[key]} instead" if is_tree else "it follows from gamma"
    if key == "allow_advanced_sampling" and not is_later:
        return "it is always on: without it requests with a temperature are decoded greedily"
    return ""


def _sampling_problems(path: Path, key: str, is_later: bool) -> list[Problem]:
    if key != "allow_advanced_sampling" or not is_later:
        return []
    message = "allow_advanced_sampling has no effect any more: a request's own fields decide"
    return [Problem(path, message, "remove it", severity="warning", code="removed-option")]


def _gate_problems(path: Path, key: str, decoder: Decoder) -> list[Problem]:
    """In 1.2 host-side drafters had it, later one-engine decoders have (PR #12905)."""
    if key not in GATES:
        return []
    if decoder.is_one_engine == (GATES[key] == "1.2"):
        message = f"{decoder.kind} of TensorRT-LLM {GATES[key]} does not read {key}"
        return [Problem(path, message, "remove it", code="ignored-option")]
    message = f"{key} ends speculation for as long as the worker lives"
    hint = "remove it, and let a route leave the profile instead"
    return [Problem(path, message, hint, severity="warning", code="acceptance-gate")]


def environment_problems(environment: Mapping[str, str]) -> list[Problem]:
    """Variables that bend the output, whatever the profile says."""
    if FORCED_ACCEPTANCE not in environment:
        return []
    return [_forced((FORCED_ACCEPTANCE,))]


def _forced(path: Path) -> Problem:
    message = f"{FORCED_ACCEPTANCE} forces how many guesses are accepted: the output is not valid"
    return Problem(path, message, "unset it", code="lossy")
