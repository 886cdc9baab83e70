"""Dialect: a range of engine versions that are configured in the same words."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from adapters.problem import Problem

Release: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class Dialect:
    """`name` is the stem of the engine's option table and golden folder. `until` is excluded."""

    name: str
    since: Release
    until: Release


def release(version: str) -> Release | None:
    """The leading numbers of a version: `0.32.0+cpu` and `v0.32` alike, `b11434` as (11434,)."""
    match = re.match(r"[vb]?(\d{1,9}(?:\.\d{1,9})*)(?!\d)", version.strip())
    return tuple(int(part) for part in match[1].split(".")) if match else None


def choose_dialect(supported: Sequence[Dialect], version: str) -> tuple[Dialect, bool]:
    """The dialect for a version, nearest when unknown, and whether the version is known.

    `supported` is ordered from oldest to newest.
    """
    number = release(version)
    if number is None or number >= supported[-1].until:
        return supported[-1], False
    for dialect in reversed(supported):
        if number >= dialect.since:
            return dialect, number < dialect.until
    return supported[0], False


def between(first: Dialect, last: Dialect) -> str:
    """The first and the last version from one dialect to another: `b10662 to b11549`."""
    newest = (*last.until[:-1], last.until[-1] - 1)
    ends = dict.fromkeys(_number(first, version) for version in (first.since, newest))
    return " to ".join(ends)


def _number(dialect: Dialect, version: Release) -> str:
    """A version as users write it: `0.5.11`, `b10662`."""
    prefix = "b" if dialect.name.startswith("b") else ""
    return prefix + ".".join(str(part) for part in version)


def version_problems(title: str, supported: Sequence[Dialect], version: str) -> list[Problem]:
    """A warning that names the dialect used when this version is not one that was looked at."""
    dialect, is_known = choose_dialect(supported, version)
    if is_known:
        return []
    nearest, known = between(dialect, dialect), [between(d, d) for d in supported]
    message = f"{title} {version} is not a version known here; it is spoken to as {nearest}"
    hint = f"known: {', '.join(known)}; run the gate before you trust it"
    return [Problem((), message, hint, severity="warning", code="unknown-version")]
