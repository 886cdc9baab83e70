"""Which llama.cpp a program is: its build number or, where it tells none, what its help has."""

import re
from collections.abc import Mapping
from typing import Final

from adapters.dialect import Dialect, choose_dialect, release, version_problems
from adapters.problem import Problem

TITLE = "llama.cpp"
# b10306 is the first build seen with counters of drafts in /metrics (#26389); b10662 the first
# with --spec-synth-*, which the older ones refuse.
SUPPORTED: tuple[Dialect, ...] = (
    Dialect("b10434", (10306,), (10662,)),
    Dialect("b11434", (10662,), (11550,)),
)
# `version: 11434 (515e85511)`, and `version: 0.1.0-dev (build 11434, commit 515e85511)` since
# llama.cpp has a version besides the build.
_BUILD: Final = re.compile(r"^version: (?:\S+ \(build )?(\d+)(?![.\d])", re.MULTILINE)
# Packagers who build without git leave 0 or 1 there.
_NO_BUILD: Final = 1
# What the help of a build has and the help of those before it has not, newest first.
_HELP: Final[Mapping[str, str]] = {
    "b11434": "--spec-synth-len",
    "b10434": "draft-dspark",
    "b9442": "draft-simple",
    "b9093": "--spec-type",
}


def version_commands(command: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """The help answers where a packaged build does not know its number."""
    return ((*command, "--version"), (*command, "--help"))


def read_version(output: str) -> str | None:
    """A build number; from a help, a build whose options are those."""
    build = _BUILD.search(output)
    if build is not None:
        return build[1] if int(build[1]) > _NO_BUILD else None
    return next((version for version, word in _HELP.items() if word in output), None)


def dialect_of(version: str) -> str:
    """The name of the dialect, nearest when the version is unknown."""
    return choose_dialect(SUPPORTED, version)[0].name


def known_problems(version: str) -> list[Problem]:
    """An unknown version is a warning; one that cannot be proved to speculate is refused."""
    number, oldest = release(version), SUPPORTED[0].since
    is_build = number is not None and len(number) == 1 and number > (_NO_BUILD,)
    if is_build and number is not None and number < oldest:
        message = f"{TITLE} {version} counts no drafts in /metrics, so none can be proved"
        hint = f"use build {oldest[0]} or newer"
        return [Problem((), message, hint, code="version-too-old")]
    return version_problems(TITLE, SUPPORTED, version)
