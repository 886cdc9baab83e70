"""An argv for llama-server becomes settings for the embedded server, or a complaint."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from adapters.embedded.kind import Flag
from adapters.embedded.media import MEDIA
from adapters.embedded.refused import REFUSED
from adapters.embedded.sampling import SAMPLING
from adapters.embedded.serving import SERVING
from adapters.embedded.speculation import SPECULATION
from adapters.embedded.table import TABLE

FLAGS: tuple[Flag, ...] = (*TABLE, *SERVING, *SAMPLING, *MEDIA, *SPECULATION, *REFUSED)
VARIABLES = frozenset(name for flag in FLAGS for name in flag.variables)
# Where llama-server and a fresh CommonParams differ.
DEFAULTS: dict[str, object] = {
    "n_parallel": -1,
    "port": 9931,
    "default_template_kwargs": {"preserve_reasoning": "true"},
}
ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "'": "'", '"': '"', "\\": "\\"}


class ArgumentError(ValueError):
    """The argv or the environment says what llama-server, or this server, refuses."""


class Disk(Protocol):
    """The few questions about files that arguments raise."""

    def read(self, path: str) -> str:
        """Raises ValueError if it cannot."""
        ...

    def is_file(self, path: str) -> bool: ...

    def is_directory(self, path: str) -> bool: ...


@dataclass(slots=True)
class Arguments:
    """Settings by path of attributes in CommonParams, and what else the argv asks for."""

    settings: dict[str, object] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    action: Literal["serve", "help", "version"] = "serve"


def parse(argv: Sequence[str], environ: Mapping[str, str], disk: Disk) -> Arguments:
    """Environment first, then argv, which wins; raises ArgumentError at the first fault."""
    arguments = Arguments(settings=dict(DEFAULTS))
    read_environment(arguments, environ, disk)
    known = {name: flag for flag in FLAGS for name in (*flag.names, *flag.negative)}
    seen: set[str] = set()
    words = list(argv)
    while words and arguments.action != "version":
        name = words.pop(0)
        name = name.replace("_", "-") if name.startswith("--") else name
        if name in ("-h", "--help", "--usage", "--version"):
            arguments.action = "version" if name == "--version" else "help"
            continue
        if name not in known:
            raise ArgumentError(f"error: invalid argument: {name}")
        arguments.warnings += complaints(known[name], name, seen, environ)
        seen.add(name)
        read_flag(arguments, known[name], name, words, disk)
    if arguments.action == "serve":
        finish(arguments.settings)
    return arguments


def read_environment(arguments: Arguments, environ: Mapping[str, str], disk: Disk) -> None:
    unknown = sorted(name for name in environ if name.startswith("LLAMA_ARG_"))
    for name in unknown:
        if name not in VARIABLES:
            raise ArgumentError(f"error: no flag of llama-server reads the variable {name}")
    for flag in FLAGS:
        word = environment_word(flag, environ)
        if word is None:
            continue
        try:
            merge(arguments.settings, flag, word, disk)
        except ValueError as error:
            message = f'error while handling environment variable "{flag.env}": {error}'
            raise ArgumentError(message + "\n\n") from error


def environment_word(flag: Flag, environ: Mapping[str, str]) -> str | None:
    if any(name in environ for name in flag.variables[1:]):
        return "0"
    return environ.get(flag.env) if flag.env else None


def complaints(flag: Flag, name: str, seen: set[str], environ: Mapping[str, str]) -> list[str]:
    """What llama-server only warns of."""
    found = []
    if name in seen and name != "--spec-type":
        found.append(
            f"DEPRECATED: argument '{name}' specified multiple times, use comma-separated values"
            " instead (only last value will be used)"
        )
    if environment_word(flag, environ) is not None:
        found.append(
            f"warn: {flag.env} environment variable is set, but will be overwritten by command"
            f" line argument {name}"
        )
    return found


def read_flag(arguments: Arguments, flag: Flag, name: str, words: list[str], disk: Disk) -> None:
    """Takes the flag's word, if it has one, off the front of `words`."""
    try:
        if flag.takes_word and not words:
            raise ValueError("expected value for argument")
        word = words.pop(0) if flag.takes_word else str(int(name not in flag.negative))
        merge(arguments.settings, flag, word, disk)
    except ValueError as error:
        if flag.status == "refused":
            raise ArgumentError(f"error: {name}: {error}") from error
        message = (
            f'error while handling argument "{name}": {error}\n\nusage:\n{flag.usage()}\n\n\n'
            "to show complete usage, run with -h"
        )
        raise ArgumentError(message) from error


def merge(settings: dict[str, object], flag: Flag, word: str, disk: Disk) -> None:
    """A reader that sets nothing (a switch whose variable says no) answers with no settings."""
    read = flag.read(sourced(flag, word, disk))
    if read == {}:
        return
    found = read if isinstance(read, dict) and not flag.to else {flag.to: read}
    for paths, value in found.items():
        for path in paths.split():
            settings[path] = united(settings.get(path), value)


def sourced(flag: Flag, word: str, disk: Disk) -> str:
    if flag.source == "text":
        return disk.read(word)
    if flag.source == "file" and not disk.is_file(word):
        raise ValueError(f"error: failed to open file '{word}'\n")
    if flag.source == "directory" and not disk.is_directory(word):
        raise ValueError(f"not a directory: {word}")
    return word


def united(old: object, new: object) -> object:
    """See value.py for the rule; a mapping's None takes its key out."""
    if isinstance(old, list) and isinstance(new, list):
        return [*old, *new]
    if isinstance(old, frozenset) and isinstance(new, frozenset):
        return old | new
    if isinstance(old, dict) and isinstance(new, dict):
        return {key: value for key, value in {**old, **new}.items() if value is not None}
    return new


def finish(settings: dict[str, object]) -> None:
    """What llama-server decides once it has read all arguments."""
    if not settings.get("model.path"):
        raise ArgumentError(
            "error: no model given (-m FNAME): llama-server would start its router for many"
            " models, which the embedded server cannot honour"
        )
    stops = settings.get("antiprompt")
    if isinstance(stops, list) and settings.get("escape", True):
        settings["antiprompt"] = [unescaped(stop) for stop in stops]


def unescaped(text: str) -> str:
    def plain(found: re.Match[str]) -> str:
        code = found[1]
        return chr(int(code[1:], 16)) if code.startswith("x") else ESCAPES[code]

    return re.sub(r"\\(x[0-9a-fA-F]{2}|[nrt'\"\\])", plain, text)


def help_text() -> str:
    """Every flag that is honoured, laid out as llama-server lays out its own help."""
    honoured = (flag.usage() for flag in FLAGS if flag.status == "honoured")
    own = ("-h, --help, --usage", "--version")
    closing = "Any other flag of llama-server is refused with the reason why."
    return "\n".join((*own, *honoured, "", closing))
