"""Whether an engine version can run a method of the literature: asked of its adapter, not told."""

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Literal, TypeAlias

from pydantic import JsonValue

from adapters.contract import Adapter
from adapters.dialect import Dialect, between
from adapters.launch import FILES, Launch, Model, WorkerSpec
from adapters.literature import LITERATURE, Entry
from adapters.problem import Problem, path_text
from adapters.profile import Profile
from adapters.setting import Setting

# partly: it runs, and something of the example is not as written. if changed: the example is
# refused, and one of its variants runs.
Verdict: TypeAlias = Literal["yes", "partly", "if changed", "no"]
_DEGRADE = "a fleet with `degrade: allow` runs it without that"


@dataclass(frozen=True)
class Cell:
    """`native` are the engine's words for the method, with how they came about in `notes`.

    `changed` are the variant's keys, where the example itself is refused, and `refusals` why it is.
    `remarks` say what is different, or why not.
    """

    verdict: Verdict
    native: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    changed: Mapping[str, JsonValue] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()


def example(entry: Entry, variant: Mapping[str, JsonValue] | None = None) -> Profile | None:
    """The entry's profile, or None where there is no such method."""
    if entry.speculation is None:
        return None
    speculation = {**entry.speculation, **(variant or {})}
    return Profile.model_validate_json(
        json.dumps({"profile": "example", "speculation": speculation})
    )


def ideal_worker(adapter: Adapter, version: str) -> WorkerSpec:
    """A worker that has every draft, so that only the engine can refuse."""
    return WorkerSpec("worker", version, adapter.COMMANDS[:1], _ideal_model(), 8000)


@functools.cache
def _ideal_model() -> Model:
    names = {*_drafts(), "dspark", "mtp"}
    drafts = {name: f"/models/{name}.gguf" for name in sorted(names)}
    return Model("model", "/models/target.gguf", 4096, drafts)


def _drafts() -> Iterator[str]:
    for entry in LITERATURE:
        profile = example(entry)
        if profile is not None and profile.draft_name:
            yield profile.draft_name


def cell(adapter: Adapter, version: str, entry: Entry) -> Cell:
    """What this version makes of the entry's example, or of the first variant that it takes."""
    own = _cell(adapter, version, entry, {})
    if own.verdict != "no":
        return own
    for variant in entry.variants:
        found = _cell(adapter, version, entry, variant)
        if found.verdict != "no":
            said = tuple(text for text in own.remarks if text != _DEGRADE)
            return replace(found, verdict="if changed", changed=variant, refusals=said)
    return own


def _cell(adapter: Adapter, version: str, entry: Entry, variant: Mapping[str, JsonValue]) -> Cell:
    profile = example(entry, variant)
    if profile is None:
        return Cell("no", remarks=(f"instead: {entry.instead}",))
    worker = ideal_worker(adapter, version)
    problems = adapter.check(profile, worker)
    refusals = [p for p in problems if p.is_fatal]
    if refusals:
        is_lost = all(p.severity == "lost" for p in refusals)
        told = [_said(p, adapter, version) for p in refusals] + [_DEGRADE] * is_lost
        return Cell("no", remarks=_once(told))
    settings = adapter.settings(profile, worker)
    launch = adapter.render(profile, worker)
    own = [s for s in settings if s.path[1:2] and s.path[1] in entry.keys]
    effects = [f"`{_key(s)}`: {s.effect}" for s in settings if s.effect]
    remarks = _once(effects + [_said(p, adapter, version) for p in problems])
    native = _once([_spelled(s, launch) for s in own if s.name])
    notes = _once([f"`{_key(s)}`: {s.how}" for s in own if s.how])
    return Cell("partly" if remarks else "yes", native, notes, {}, remarks)


def rows(adapters: Mapping[str, Adapter], entry: Entry) -> Iterator[tuple[Adapter, str, Cell]]:
    """Engines in order; neighbouring versions that do the same are one row."""
    for adapter in adapters.values():
        for found, versions in ranges(adapter, entry):
            yield adapter, versions, found


def ranges(adapter: Adapter, entry: Entry) -> Iterator[tuple[Cell, str]]:
    cells = [(dialect, cell(adapter, dialect.name, entry)) for dialect in adapter.SUPPORTED]
    for found, group in groupby(cells, key=lambda pair: pair[1]):
        yield found, span(adapter, [dialect for dialect, _ in group])


def span(adapter: Adapter, dialects: Sequence[Dialect]) -> str:
    """Neighbouring dialects as the versions they are for: `all`, `0.32`, or `1.3 to 1.4`."""
    first, last = dialects[0], dialects[-1]
    if first == adapter.SUPPORTED[0] and last == adapter.SUPPORTED[-1]:
        return "all"
    return between(first, last)


def known(adapter: Adapter) -> str:
    """Every version that is known, by ranges that are configured in the same words."""
    return ", ".join(between(dialect, dialect) for dialect in adapter.SUPPORTED)


def _said(problem: Problem, adapter: Adapter, version: str) -> str:
    """Message and hint, without the version: it stands beside them."""
    text = f"{problem.message}; {problem.hint}" if problem.hint else problem.message
    return text.replace(f"{adapter.TITLE} {version} ", f"{adapter.TITLE} ")


def _key(setting: Setting) -> str:
    return path_text(setting.path[1:])


def _spelled(setting: Setting, launch: Launch) -> str:
    """As an option where the command line has it, else as a key of a configuration."""
    value = setting.value
    text = value.replace(f"{FILES}/", "") if isinstance(value, str) else json.dumps(value)
    if f"--{setting.name}" in launch.arguments:
        return f"--{setting.name} {text}" if value is not True else f"--{setting.name}"
    return f"{setting.name}: {text}"


def _once(texts: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))
