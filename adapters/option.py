"""Engine options given natively (fleet `args:`, profile `engine:`): checked, spelled as argv."""

import json
import re
from collections.abc import Mapping

from pydantic import JsonValue

from adapters.flag import Flag, FlagTable, normal
from adapters.problem import Path, Problem, did_you_mean
from adapters.value import ValueRule, shown, whole_number

Options = Mapping[str, JsonValue]

_MOST_HINTS = 50  # near matches of a file; each takes half a millisecond to find
_SECRET = re.compile(r"(^|-)(api-key|hf-token|password|passphrase|secret)$")
_DASHED = re.compile(r"-(?![0-9.])")
# Images start with these already; written again they end the start (vLLM #22072, #37133).
_ENTRYPOINT_WORDS = frozenset(
    {"serve", "vllm", "sglang", "trtllm-serve", "llama-server", "launch-server", "api-server"}
)


def option_problems(
    options: Options, table: FlagTable, rendered: Mapping[str, str], root: Path = ()
) -> list[Problem]:
    """Options that the engine does not know, that are ours to write, or whose value does not fit.

    `rendered` maps the names of options that draftgate writes itself to where they are set.
    """
    problems: list[Problem] = []
    seen: dict[str, str] = {}
    unknown = 0
    for name, value in options.items():
        path, flag, canonical = (*root, name), table.find(name), normal(_canonical(name, table))
        repeated = _repeated(canonical, seen)
        if flag is None:
            unknown += 1
            problems.append(_unknown(path, name, table, unknown <= _MOST_HINTS))
        elif flag.name in rendered:
            message = f"{name!r} is written by draftgate"
            problems.append(Problem(path, message, rendered[flag.name], code="option-is-ours"))
        elif repeated:
            message = f"{name!r} repeats {repeated!r}"
            problems.append(Problem(path, message, "keep one of them", code="option-twice"))
        else:
            problems += _given_problems(path, flag, value, table)
        seen.setdefault(canonical, name)
    return problems


def is_secret(name: str) -> bool:
    """Whether an option's value is a secret by its name."""
    return bool(_SECRET.search(normal(name)))


def _repeated(canonical: str, seen: Mapping[str, str]) -> str | None:
    """The earlier option that says the same: itself, or a whole object beside one of its keys."""
    owner = canonical.partition(".")[0]
    if canonical in seen:
        return seen[canonical]
    if owner != canonical:
        return seen.get(owner)
    return next((seen[name] for name in seen if name.startswith(f"{canonical}.")), None)


def _given_problems(path: Path, flag: Flag, value: JsonValue, table: FlagTable) -> list[Problem]:
    if is_secret(flag.name):
        message = f"{flag.name} is a secret, which would stand in argv and in logs"
        hint = "set it in draftgate's own environment, or give the engine a file"
        return [Problem(path, message, hint, code="secret")]
    words = value if isinstance(value, list) else [value]
    dashed = next((w for w in words if isinstance(w, str) and _DASHED.match(w)), None)
    if dashed is not None:
        message = f"{flag.name}: the engine would read {dashed!r} as another option"
        return [Problem(path, message, "a value does not begin with '-'", code="option-value")]
    if "." in normal(str(path[-1])) and "." not in flag.name:
        return []  # one key of an object
    return _value_problems(path, flag, value) + _object_problems(path, flag, value, table)


def key_problems(
    mapping: Mapping[str, JsonValue], rules: Mapping[str, ValueRule], root: Path, owner: str
) -> list[Problem]:
    """Keys of an option that takes an object: those it has not, and values that do not fit.

    `owner` names it in messages, as in "vLLM 0.32.0's speculative_config".
    """
    problems: list[Problem] = []
    for key, value in mapping.items():
        rule = rules.get(key.replace("-", "_"))
        if rule is None:
            message = f"{owner} has no key {key!r}"
            hint = did_you_mean(key.replace("-", "_"), rules)
            problems.append(Problem((*root, key), message, hint, code="unknown-option"))
        elif complaint := rule.complaint(value):
            message, hint = complaint
            problems.append(Problem((*root, key), message, hint, code="option-value"))
    return problems


def merge(table: FlagTable, *layers: Options) -> dict[str, JsonValue]:
    """All layers under the options' own names, later layers winning.

    Aliases and negative forms are resolved (`-np`, `no-repack: true`), so that a check that looks
    an option up by its name sees it however it was spelled. Unknown names stay as they are.
    """
    merged: dict[str, JsonValue] = {}
    for layer in layers:
        for name, value in layer.items():
            flag = table.find(name)
            is_negated = flag is not None and flag.kind == "switch" and flag.turns_off(name)
            value = not value if is_negated else value
            _put(merged, _canonical(name, table), flag.rule.choice(value) if flag else value)
    return merged


def _put(merged: dict[str, JsonValue], name: str, value: JsonValue) -> None:
    """Set an option; an object and its own keys, given apart, become one: engines keep only one."""
    owner, dot, key = name.partition(".")
    whole_one = merged.get(owner) if dot else None
    if isinstance(whole_one, str):
        whole_one = _from_json(whole_one)
    if isinstance(whole_one, dict):
        merged[owner] = _with_key(whole_one, key.split("."), value)
        return
    if not dot:
        for part in [known for known in merged if known.startswith(f"{name}.")]:
            del merged[part]
    merged[name] = value


def _with_key(data: dict[str, JsonValue], keys: list[str], value: JsonValue) -> JsonValue:
    first, *rest = keys
    inner = data.get(first)
    if rest:
        value = _with_key(inner if isinstance(inner, dict) else {}, rest, value)
    return {**data, first: value}


def spell(options: Options, table: FlagTable) -> tuple[str, ...]:
    """Options without problems as arguments, in the order given."""
    arguments: list[str] = []
    for name, value in merge(table, options).items():
        flag = table.find(name)
        if flag is not None:
            arguments += _spell_one(flag, name, value)
    return tuple(arguments)


def whole(options: Options, name: str, default: int) -> int:
    """A merged option as a whole number; the default where it is absent or something else."""
    number = whole_number(options.get(name))
    return default if number is None else number


def _canonical(name: str, table: FlagTable) -> str:
    flag = table.find(name)
    if flag is None:
        return normal(name)
    _, dot, key = name.lstrip("-").partition(".")  # the key reaches the engine as it is written
    return f"{flag.name}.{key}" if dot and "." not in flag.name else flag.name


def _spell_one(flag: Flag, name: str, value: JsonValue) -> list[str]:
    if name != flag.name:  # one key of an option that takes an object
        return [f"--{name}", _text(value)]
    if flag.kind == "switch":
        return [f"--{flag.name}" if value else f"--{flag.negative}"]
    if flag.kind == "values" and isinstance(value, list):
        return [f"--{flag.name}", *(_text(item) for item in value)]
    return [f"--{flag.name}", _text(value)]


def _text(value: JsonValue) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"))


def _unknown(path: Path, name: str, table: FlagTable, is_near_asked: bool) -> Problem:
    if set(normal(name).split()) & _ENTRYPOINT_WORDS:
        message = f"{name!r} is the engine's program or subcommand, which draftgate writes"
        hint = "remove it: repeated, the engine takes it for an argument it does not know"
        return Problem(path, message, hint, code="entrypoint-repeated")
    near = table.near(name) if is_near_asked else None
    hint = f"did you mean {near!r}?" if near else "see the engine's own --help"
    message = f"{table.engine} {table.version} has no option {name!r}"
    return Problem(path, message, hint, code="unknown-option")


def _value_problems(path: Path, flag: Flag, value: JsonValue) -> list[Problem]:
    if flag.kind == "switch":
        return _switch_problems(path, flag, value)
    complaint = _complaint(flag, value)
    if complaint is None:
        return []
    said, hint = complaint
    return [Problem(path, f"{flag.name}: {said}", hint, code="option-value")]


def _object_problems(path: Path, flag: Flag, value: JsonValue, table: FlagTable) -> list[Problem]:
    """The keys of an option that takes an object, where the table knows them."""
    rules = table.config_keys.get(flag.name.replace("-", "_"))
    if rules is None:
        return []
    if isinstance(value, str):
        value = _from_json(value)
    if not isinstance(value, dict):
        message = f"{flag.name} takes a mapping, and this text is no JSON object"
        hint = "write a YAML mapping: it reaches the engine as one argument, without a shell"
        return [Problem(path, message, hint, code="shell-json")]
    if not rules:
        return []
    return key_problems(value, rules, path, f"{flag.name} of {table.engine} {table.version}")


def _from_json(text: str) -> JsonValue:
    """What the text says as JSON; itself where it is none, as after a shell's quoting."""
    try:
        value: JsonValue = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value


def _complaint(flag: Flag, value: JsonValue) -> tuple[str, str] | None:
    if flag.kind == "values" and isinstance(value, list):
        complaints = (flag.rule.complaint(item) for item in value)
        return next((found for found in complaints if found), None)
    if value is None or (isinstance(value, bool) and "bool" not in flag.rule.kinds):
        return f"it takes a value, found {shown(value)}", "write the value"
    return flag.rule.complaint(value)


def _switch_problems(path: Path, flag: Flag, value: JsonValue) -> list[Problem]:
    if not isinstance(value, bool):
        message = f"{flag.name} is a switch, found {json.dumps(value)}"
        return [Problem(path, message, "write true or false", code="option-value")]
    if value is False and flag.negative is None:
        message = f"{flag.name} has no form that turns it off"
        return [Problem(path, message, "leave it out", code="option-value")]
    return []
