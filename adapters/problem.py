"""Problem: everything that draftgate tells a user about a file, as data."""

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Literal, TypeAlias

_MOST_NAMED = 12

Path: TypeAlias = tuple[str | int, ...]

# "lost" is a key that this engine cannot honour: an error, unless the fleet says `degrade: allow`.
Severity: TypeAlias = Literal["error", "lost", "warning"]


@dataclass(frozen=True, order=True)
class Place:
    """A position in a file; line and column count from 1, as editors do."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True)
class Problem:
    """One complaint. Adapters fill `path` only; the reader of the file adds `place`."""

    path: Path
    message: str
    hint: str = ""
    severity: Severity = "error"
    code: str = ""
    place: Place | None = None
    rests_on: tuple[Path, ...] = ()  # lists and mappings that must be whole for this to be true

    @property
    def is_fatal(self) -> bool:
        return self.severity != "warning"

    def __str__(self) -> str:
        place = f"{self.place}: " if self.place else ""
        level = "warning: " if self.severity == "warning" else ""
        path = f"{path_text(self.path)}: " if self.path else ""
        code = f" [{self.code}]" if self.code else ""
        hint = f"\n    hint: {self.hint}" if self.hint else ""
        return f"{place}{level}{path}{self.message}{code}{hint}"

    def as_json(self) -> dict[str, object]:
        return {
            "file": self.place.file if self.place else None,
            "line": self.place.line if self.place else None,
            "column": self.place.column if self.place else None,
            "path": path_text(self.path),
            "severity": "warning" if self.severity == "warning" else "error",
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
        }


class ProfileError(Exception):
    """A profile or fleet that cannot be used; carries every problem found, not only the first."""

    def __init__(self, problems: Iterable[Problem]):
        self.problems = sort_problems(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


def path_text(path: Path) -> str:
    """`("a", "b", 1, "c")` as `a.b[1].c`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


def sort_problems(problems: Iterable[Problem]) -> list[Problem]:
    """By place, without repetitions: two checks may find the same mistake."""
    nowhere = Place("", 0, 0)
    unique = dict.fromkeys(problems)
    return sorted(unique, key=lambda p: (p.place or nowhere, path_text(p.path), p.message))


def degrade(problems: Iterable[Problem]) -> list[Problem]:
    """What `degrade: allow` means: keys the engine cannot honour become warnings."""
    return [replace(p, severity="warning") if p.severity == "lost" else p for p in problems]


def near_match(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` was probably meant to be, or None."""
    matches = get_close_matches(word, list(known), n=1, cutoff=0.7)
    return matches[0] if matches else None


def repeated(values: Iterable[Hashable]) -> Iterator[tuple[int, int]]:
    """Of values that came before: where each stands, and where it stood first."""
    first: dict[Hashable, int] = {}
    for index, value in enumerate(values):
        if value in first:
            yield index, first[value]
        first.setdefault(value, index)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint: the near match where there is one, else every known word."""
    choices = sorted(known)
    near = near_match(word, choices)
    if near:
        return f"did you mean {near!r}?"
    more = f", … ({len(choices)} in all)" if len(choices) > _MOST_NAMED else ""
    return f"known: {', '.join(choices[:_MOST_NAMED])}{more}"
