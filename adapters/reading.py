"""From a document to a checked model: every mistake at once, each at its line and column."""

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import Any, Generic, TypeVar

import msgspec
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from adapters.document import (
    MOST_MISTAKES,
    REPEATED,
    Document,
    read_document,
    too_many,
)
from adapters.problem import Path, Problem, did_you_mean, near_match, path_text
from adapters.profile import LARGEST_GAMMA, NAME_PATTERN, Profile
from adapters.pruning import Pruned, StandIn
from adapters.schedule import profile_problems

M = TypeVar("M", bound=BaseModel)

_KINDS = {"dict": "a mapping", "list": "a list", "str": "text", "NoneType": "nothing"}
_BOUNDS = {
    "greater_than_equal": ("ge", "at least"),
    "less_than_equal": ("le", "at most"),
    "greater_than": ("gt", "above"),
    "less_than": ("lt", "below"),
}
_EXPECTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}


@dataclass(frozen=True)
class Reading(Generic[M]):
    """One file as read. `value` is None when not even a part of it can be used.

    With fatal problems `value` holds what could still be read, so that later checks can go on; it
    must not be acted on.
    """

    document: Document
    value: M | None
    problems: list[Problem]
    pruned: Pruned
    unread: frozenset[Path] = frozenset()  # paths whose values could not be read

    @property
    def is_usable(self) -> bool:
        return self.value is not None and not any(p.is_fatal for p in self.problems)


def read_profile(file: FilePath, shown_as: str | None = None) -> Reading[Profile]:
    """Read and check one profile file."""
    return check_profile(read_document(file, shown_as))


def check_profile(document: Document) -> Reading[Profile]:
    """The profile that a document holds, and every mistake in it."""
    reading = read_model(document, Profile)
    if reading.value is None:
        return reading
    return with_problems(reading, profile_problems(reading.value))


def with_problems(reading: Reading[M], problems: list[Problem]) -> Reading[M]:
    """The reading with more problems, located in its document.

    Left out are those that only follow from what could not be read.
    """
    moved = (_moved(reading.pruned, problem) for problem in problems)
    true = (p for p in moved if p.path not in reading.unread and _is_founded(reading.pruned, p))
    located = [reading.document.locate(problem) for problem in true]
    return replace(reading, problems=[*reading.problems, *located])


def _moved(pruned: Pruned, problem: Problem) -> Problem:
    rests_on = tuple(pruned.original(path) for path in problem.rests_on)
    return replace(problem, path=pruned.original(problem.path), rests_on=rests_on)


def _is_founded(pruned: Pruned, problem: Problem) -> bool:
    return all(pruned.is_whole(path) for path in problem.rests_on)


def read_model(document: Document, model: type[M]) -> Reading[M]:
    """Validate strictly as JSON; after mistakes, validate what is left without them."""
    problems, pruned = list(document.problems), Pruned(document.data)
    if document.is_torn:
        return Reading(document, None, problems, pruned)
    if document.data is None:
        empty = Problem((), "the file is empty", code="empty-file")
        return Reading(document, None, problems or [document.locate(empty)], pruned)
    unread = {p.path for p in problems if p.code != REPEATED}
    value = None
    for _ in range(4):  # leaving one mistake out may uncover another, hardly ever more than twice
        data = pruned.compact()
        try:
            value = model.model_validate_json(msgspec.json.encode(data))
            break
        except ValidationError as error:
            details = error.errors(include_url=False)
        found = [_complaint(data, detail, model) for detail in details[:MOST_MISTAKES]]
        found = [replace(p, path=pruned.original(p.path)) for p in found]
        problems += [_located(document, p) for p in _new(found, unread)]
        if len(details) > MOST_MISTAKES:
            problems.append(too_many(replace(document, problems=problems)))
            break
        unread |= {p.path for p in found}
        pruned.leave_out(p.path for p in found if p.code == "unknown-key")
        pruned.leave_out((p.path for p in found if p.code != "unknown-key"), _stand_ins(details))
    return Reading(document, value, problems, pruned, frozenset(unread))


def _new(found: list[Problem], unread: set[Path]) -> Iterator[Problem]:
    """Without what was said before, and what only follows from a mistake further down."""
    paths = unread | {p.path for p in found}
    above = {path[:end] for path in paths for end in range(len(path))}
    for problem in found:
        if problem.path not in unread and problem.path not in above:
            yield problem


def _stand_ins(details: list[ErrorDetails]) -> StandIn:
    meant = _meant_methods(details)
    return lambda path: meant.get(path, _stand_in(path))


def _meant_methods(details: list[ErrorDetails]) -> dict[Path, str]:
    """A misspelled tag is taken for its near match, so that what stands beside it is read too."""
    meant: dict[Path, str] = {}
    for detail in details:
        if detail["type"] == "union_tag_invalid":
            tags = [tag.strip("' ") for tag in detail["ctx"]["expected_tags"].split(",")]
            near = near_match(str(detail["ctx"]["tag"]), tags)
            if near:
                key = detail["ctx"]["discriminator"].strip("'")
                meant[(*detail["loc"], key)] = near
    return meant


def _stand_in(path: Path) -> Any:
    """For unreadable required values, so that the checks of their neighbours still run."""
    if path in (("profile",), ("fleet",)):
        return "unread"
    return LARGEST_GAMMA if path[-1:] == ("gamma",) else None


def _located(document: Document, problem: Problem) -> Problem:
    at_key = problem.code in ("unknown-key", "missing-key")
    return document.locate(problem, at="key" if at_key else "value")


def _data_path(data: Any, loc: tuple[str | int, ...]) -> Path:
    """Pydantic's location as a path in the data: without the tags of unions that it adds."""
    return tuple(_steps(data, loc))


def _steps(data: Any, loc: tuple[str | int, ...]) -> Iterator[str | int]:
    for index, part in enumerate(loc):
        is_index = isinstance(data, list) and isinstance(part, int) and part < len(data)
        if is_index or (isinstance(data, Mapping) and part in data):
            data = data[part]
            yield part
        elif index == len(loc) - 1 and isinstance(data, Mapping):
            yield part


def _complaint(data: Any, detail: ErrorDetails, model: type[BaseModel]) -> Problem:
    kind, loc = detail["type"], detail["loc"]
    if loc and loc[-1] == "[key]":  # the key of a mapping is wrong, not the value under it
        message = f"unknown key {detail['input']!r}"
        hint = _reason(detail)[1]
        return Problem(_data_path(data, loc[:-1]), message, hint, code="unknown-key")
    path = _data_path(data, loc)
    if kind == "union_tag_invalid":
        path = (*path, detail["ctx"]["discriminator"].strip("'"))
    if kind == "extra_forbidden":
        hint = did_you_mean(str(loc[-1]), _known_keys(model, loc))
        return Problem(path, f"unknown key {str(loc[-1])!r}", hint, code="unknown-key")
    if kind in ("missing", "union_tag_not_found"):
        return _missing(path, detail, model)
    message, hint = _reason(detail)
    return Problem(path, message, hint, code="bad-value")


def _missing(path: Path, detail: ErrorDetails, model: type[BaseModel]) -> Problem:
    if detail["type"] == "union_tag_not_found":
        tag = detail["ctx"]["discriminator"].strip("'")
        tags = _schema_at(model, detail["loc"]).get("discriminator", {}).get("mapping", {})
        hint = f"one of: {', '.join(tags)}"
        return Problem((*path, tag), f"{tag!r} is missing", hint, code="missing-key")
    text = _description(model, detail["loc"]) if detail["type"] == "missing" else ""
    return Problem(path, f"{path_text(path[-1:])!r} is missing", text, code="missing-key")


def _reason(detail: ErrorDetails) -> tuple[str, str]:
    kind, seen, context = detail["type"], detail["input"], detail.get("ctx", {})
    if kind == "union_tag_invalid":
        tags = [tag.strip("' ") for tag in context["expected_tags"].split(",")]
        what = context["discriminator"].strip("'")
        return f"unknown {what} {context['tag']!r}", did_you_mean(context["tag"], tags)
    if kind in ("literal_error", "enum"):
        choices = context["expected"].replace(" or ", ", ").replace("'", "").split(", ")
        message = f"{_seen(seen)} is not one of the values known here"
        return message, did_you_mean(str(seen), choices)
    if kind == "string_pattern_mismatch":
        if context["pattern"] == NAME_PATTERN:
            return f"{_seen(seen)} is not a valid name", "at most 63 of a-z, 0-9, '.', '_', '-'"
        return f"{_seen(seen)} has not the right form", f"it must match {context['pattern']}"
    if kind in _BOUNDS:
        bound, words = _BOUNDS[kind]
        return f"must be {words} {context[bound]}, found {_seen(seen)}", ""
    if kind == "value_error":
        return f"{_seen(seen)}: {context['error']}", ""
    if kind in _EXPECTED:
        return f"expected {_EXPECTED[kind]}, found {_seen(seen)}", _kind_hint(kind, seen)
    message = detail["msg"]
    return f"{message[0].lower()}{message[1:]}, found {_seen(seen)}", ""


def _kind_hint(kind: str, seen: Any) -> str:
    if kind == "string_type" and isinstance(seen, bool | int | float):
        return "put it in quotes"
    if kind.startswith("bool") and str(seen).lower() in ("on", "off", "yes", "no"):
        return f"write {'true' if str(seen).lower() in ('on', 'yes') else 'false'}"
    if kind.startswith(("int", "float")) and _has_unit(seen):
        return "write the number without a unit"
    if kind in ("tuple_type", "list_type") and isinstance(seen, str | int):
        return f"write [{seen}]"
    if kind == "string_type" and isinstance(seen, list):
        return "write one word or path"
    is_quoted = isinstance(seen, str) and (seen in ("true", "false") or _is_number(seen))
    return "remove the quotes" if is_quoted else ""


def _has_unit(seen: Any) -> bool:
    """16GB, 16k, 10m."""
    return isinstance(seen, str) and seen[:1].isdecimal() and not _is_number(seen)


def _is_number(text: str) -> bool:
    return text.isascii() and text.removeprefix("-").replace(".", "", 1).isdigit()


def _seen(value: Any) -> str:
    name = type(value).__name__
    if name in ("dict", "list", "NoneType"):
        return _KINDS[name]
    text = repr(value) if isinstance(value, str) else str(value).lower()
    return text if len(text) <= 60 else f"{text[:57]}..."


def _known_keys(model: type[BaseModel], loc: tuple[str | int, ...]) -> list[str]:
    """The keys that the mapping holding `loc`'s last part may have."""
    return list(_schema_at(model, loc[:-1]).get("properties", {}))


def _description(model: type[BaseModel], loc: tuple[str | int, ...]) -> str:
    properties = _schema_at(model, loc[:-1]).get("properties", {})
    return str(properties.get(loc[-1], {}).get("description", ""))


@functools.cache
def _schema(model: type[BaseModel]) -> dict[str, Any]:
    """Building it takes 20 ms, and a file may hold thousands of mistakes."""
    return model.model_json_schema()


def _schema_at(model: type[BaseModel], loc: tuple[str | int, ...]) -> dict[str, Any]:
    """The part of the model's JSON schema that `loc` leads to; unions are entered by their tag."""
    root = _schema(model)
    here: dict[str, Any] = root
    for part in loc:
        here = _step_schema(root, here, part)
    return _deref(root, here)


def _step_schema(root: dict[str, Any], here: dict[str, Any], part: str | int) -> dict[str, Any]:
    here = _deref(root, here)
    if isinstance(part, int):
        return dict(here.get("items", {}))
    if part in here.get("properties", {}):
        return dict(here["properties"][part])
    mapping = here.get("discriminator", {}).get("mapping", {})
    if part in mapping:
        return {"$ref": mapping[part]}
    for choice in (_deref(root, c) for c in [*here.get("anyOf", []), *here.get("oneOf", [])]):
        if "properties" in choice:  # `part` is the tag of a union of text and one mapping
            return dict(choice["properties"].get(part, choice))
    for values in here.get("patternProperties", {}).values():
        return dict(values)
    extra = here.get("additionalProperties", {})
    return dict(extra) if isinstance(extra, dict) else {}


def _deref(root: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in node or len(node.get("allOf", [])) == 1:
        node = node["allOf"][0] if "allOf" in node else root["$defs"][node["$ref"].split("/")[-1]]
    choices = [c for c in node.get("anyOf", []) if c.get("type") != "null"]
    return _deref(root, choices[0]) if len(choices) == 1 else node
