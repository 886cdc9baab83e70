"""YAML text to plain data with a line and column for every path, through a restricted loader.

PyYAML's own loaders turn `off` into False, `1e-3` into a string and `12:30:45` into 45045, and
keep the last of two equal keys in silence. Here only true and false are booleans, numbers are YAML
1.2's, and repeated keys, aliases, tags and a second document are refused.
"""

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path as FilePath
from typing import Any

import yaml

from adapters.problem import Path, Place, Problem

LARGEST_FILE = 16 * 2**20  # bytes; a fleet of 10,000 workers takes about 1 MiB
DEEPEST = 32
# Nobody mends more at a time; each costs some 10 µs, and a large file may hold 300,000.
MOST_MISTAKES = 1000
REPEATED = "repeated-key"
NOT_YAML = "not-yaml"

_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass
class Document:
    """What one file says. `keys` and `values` hold the place of a path's key and of its value."""

    file: str
    data: Any = None
    keys: dict[Path, Place] = field(default_factory=dict)
    values: dict[Path, Place] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    is_torn: bool = False  # the parse ended early: what stands in `data` is not all

    def locate(self, problem: Problem, at: str = "value") -> Problem:
        """The problem with its place: of the path itself, or of its nearest parent in the file."""
        if problem.place:
            return problem
        first, second = (self.keys, self.values) if at == "key" else (self.values, self.keys)
        for end in range(len(problem.path), -1, -1):
            path = problem.path[:end]
            place = first.get(path) or second.get(path)
            if place:
                return replace(problem, place=place)
        return replace(problem, place=Place(self.file, 1, 1))


def read_document(file: FilePath, shown_as: str | None = None) -> Document:
    """Read and parse one file; what is wrong with it stands in `problems`, nothing is raised."""
    name = shown_as or str(file)
    try:
        if file.exists() and not file.is_file():
            return _unreadable(name, "not a regular file")
        if file.stat().st_size > LARGEST_FILE:
            return _unreadable(name, f"the file is larger than {LARGEST_FILE // 2**20} MiB")
        text = file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        return _unreadable(name, f"not UTF-8 text: byte {error.start} cannot be read", line)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return _unreadable(name, f"cannot be read: {reason}")
    return parse_document(text, name)


def parse_document(text: str, file: str) -> Document:
    """Parse YAML text; a syntax error ends the parse, every other mistake is collected."""
    document = Document(file)
    builder = _Builder(document)
    try:
        for event in _events(text):
            builder.take(event)
            if len(document.problems) >= MOST_MISTAKES:
                document.problems.append(too_many(document))
                document.is_torn = True
                break
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(file, mark.line + 1, mark.column + 1) if mark else Place(file, 1, 1)
        words = ", ".join(w for w in (error.context, error.problem) if w)
        hint = _yaml_hint(words)
        document.problems.append(
            Problem((), f"not YAML: {words}", hint, code=NOT_YAML, place=place)
        )
        document.is_torn = True
    except yaml.reader.ReaderError:
        document.problems.append(_bad_character(text, file))
        document.is_torn = True
    return document


def too_many(document: Document) -> Problem:
    """Said after the last mistake that is told, at its place."""
    message = f"more than {MOST_MISTAKES} mistakes: the others are not told"
    last = max((p.place for p in document.problems if p.place), default=Place(document.file, 1, 1))
    return Problem((), message, "mend these first", code="too-many", place=last)


def _bad_character(text: str, file: str) -> Problem:
    """The first character that YAML does not allow; libyaml tells only a byte offset."""
    found = yaml.reader.Reader.NON_PRINTABLE.search(text)
    position = found.start() if found else 0
    before = text[:position]
    place = Place(file, before.count("\n") + 1, position - before.rfind("\n"))
    message = f"not YAML: the character {text[position : position + 1]!r} is not allowed"
    return Problem((), message, "remove it", code=NOT_YAML, place=place)


def _events(text: str) -> Iterator[Any]:
    events: Iterable[Any] = yaml.parse(text, Loader=_LOADER)
    yield from events


def _yaml_hint(words: str) -> str:
    if "cannot start any token" in words:
        return "indent with spaces, never tabs; put text that starts with @, ` or % in quotes"
    if "mapping values are not allowed" in words:
        return "put text that holds ': ' in quotes"
    return "check the indentation and the quotes here and in the line above"


def _unreadable(name: str, message: str, line: int = 1) -> Document:
    document = Document(name)
    document.problems.append(Problem((), message, code="unreadable", place=Place(name, line, 1)))
    document.is_torn = True
    return document


@dataclass
class _Frame:
    """One open mapping or sequence."""

    path: Path
    container: Any
    key: str | None = None
    is_skipped: bool = False


class _Builder:
    """Builds data from parser events with a stack of its own: no recursion, whatever the depth."""

    def __init__(self, document: Document):
        self.document = document
        self.stack: list[_Frame] = []
        self.skipping = 0  # containers open inside something refused

    def take(self, event: Any) -> None:
        if isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self._open(event)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            self._close()
        elif isinstance(event, yaml.ScalarEvent):
            self._scalar(event)
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event)
        elif isinstance(event, yaml.DocumentStartEvent) and self.document.values:
            self._complain(event, "a second YAML document in one file", "keep one document a file")
            self.skipping += 1

    def _alias(self, event: Any) -> None:
        frame = self.stack[-1] if self.stack else None
        message, hint = "aliases (*name) are not read here", "write the value out"
        if frame and isinstance(frame.container, dict) and frame.key is None:
            frame.key, frame.is_skipped = "", True
            self._complain(event, message, hint, frame.path)
        else:
            self._complain(event, message, hint, self._place(event, None))

    def _complain(
        self, event: Any, message: str, hint: str, path: Path = (), code: str = "yaml-not-read"
    ) -> None:
        problem = Problem(path, message, hint, code=code, place=self._mark(event))
        self.document.problems.append(problem)

    def _mark(self, event: Any) -> Place:
        mark = event.start_mark
        return Place(self.document.file, mark.line + 1, mark.column + 1)

    def _open(self, event: Any) -> None:
        if self.skipping:
            self.skipping += 1
            return
        if event.tag:
            self._complain(event, f"tags ({event.tag}) are not read here", "remove the tag")
        is_mapping = isinstance(event, yaml.MappingStartEvent)
        frame = self.stack[-1] if self.stack else None
        if frame and isinstance(frame.container, dict) and frame.key is None:
            self._complain(event, "a key must be plain text", "write `key: value`", frame.path)
            self.skipping, frame.key, frame.is_skipped = 1, "", True
            return
        if len(self.stack) >= DEEPEST:
            self._complain(event, f"nested more than {DEEPEST} deep", "nothing here needs that")
            self._place(event, None)
            self.skipping = 1
            return
        container: Any = {} if is_mapping else []
        path = self._place(event, container)
        self.stack.append(_Frame(path, container))

    def _close(self) -> None:
        if self.skipping:
            self.skipping -= 1
        else:
            self.stack.pop()

    def _scalar(self, event: Any) -> None:
        if self.skipping:
            return
        frame = self.stack[-1] if self.stack else None
        if frame and isinstance(frame.container, dict) and frame.key is None:
            self._take_key(frame, event)
            return
        if event.tag and event.tag not in ("!", "tag:yaml.org,2002:str"):
            self._complain(event, f"tags ({event.tag}) are not read here", "remove the tag")
        value = self._resolve(event)
        path = self._place(event, value)
        if isinstance(value, float) and not math.isfinite(value):
            self._complain(
                event, f"{event.value} is too large a number", "write a smaller one", path
            )

    def _take_key(self, frame: _Frame, event: Any) -> None:
        key = event.value
        path = (*frame.path, key)
        if key in frame.container:
            first = self.document.keys[path].line
            message = f"the key {key!r} stands twice (first in line {first})"
            self._complain(event, message, "keep one of them", path, REPEATED)
            frame.is_skipped = True
        else:
            self.document.keys[path] = self._mark(event)
        frame.key = key

    def _place(self, event: Any, value: Any) -> Path:
        """Put a value where the parser stands; returns its path."""
        if self.skipping:
            return ()
        if not self.stack:
            if not self.document.values:
                self.document.data = value
                self.document.values[()] = self._mark(event)
            return ()
        frame = self.stack[-1]
        if isinstance(frame.container, list):
            path: Path = (*frame.path, len(frame.container))
            frame.container.append(value)
        else:
            path = (*frame.path, frame.key or "")
            if frame.is_skipped:
                frame.key, frame.is_skipped = None, False
                return (*path, "(repeated)")
            frame.container[frame.key or ""] = value
            frame.key = None
        self.document.values[path] = self._mark(event)
        return path

    def _resolve(self, event: Any) -> Any:
        text = event.value
        if event.style in ("'", '"', "|", ">") or event.tag:
            return text
        if text in _NULLS:
            return None
        if text in ("true", "false"):
            return text == "true"
        if len(text) > 64:
            return text
        if _INTEGER.fullmatch(text):
            return int(text, 0) if text[:2] in ("0x", "0o") else int(text)
        if _FLOAT.fullmatch(text):
            return float(text)
        return text
