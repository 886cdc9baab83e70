"""What becomes of each key of a profile on one engine version, from what its adapter writes."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from pydantic import JsonValue

from adapters.contract import Adapter
from adapters.launch import WorkerSpec
from adapters.problem import Path, Problem, path_text
from adapters.profile import Profile
from adapters.schedule import profile_problems
from adapters.setting import Setting

# honoured: as written; translated: in other words or numbers; changed: the engine does something
# else than the key says; refused: not rendered; ours: for draftgate itself.
Fate: TypeAlias = Literal["honoured", "translated", "changed", "refused", "ours"]


@dataclass(frozen=True)
class Account:
    """One key of a profile: what becomes of it, in which native words, and why."""

    path: Path
    value: JsonValue
    fate: Fate
    native: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, object]:
        return {
            "key": path_text(self.path),
            "value": self.value,
            "fate": self.fate,
            "native": list(self.native),
            "notes": list(self.notes),
        }


def explain(adapter: Adapter, profile: Profile, worker: WorkerSpec) -> list[Account]:
    """An account of every key the profile has, defaults included, in the file's order."""
    problems = profile_problems(profile) + adapter.check(profile, worker)
    settings = adapter.settings(profile, worker)
    return [_account(path, value, settings, problems) for path, value in _keys(profile)]


def _keys(profile: Profile) -> Iterator[tuple[Path, JsonValue]]:
    """Every key with its value: mappings are entered, a schedule is one key."""
    data = profile.model_dump(mode="json", exclude_none=True)
    schedule = getattr(profile.speculation, "schedule", None)
    for path, value in _leaves(data, ()):
        if path[:2] != ("speculation", "schedule"):
            yield path, value
    if schedule:
        yield ("speculation", "schedule"), {str(t.batch): t.gamma for t in schedule}


def _leaves(data: dict[str, Any], root: Path) -> Iterator[tuple[Path, JsonValue]]:
    for key, value in data.items():
        path = (*root, key)
        is_native = path[:1] == ("engine",) and len(path) > 2
        if isinstance(value, dict) and not is_native:
            yield from _leaves(value, path)
        else:
            yield path, value


def _account(
    path: Path, value: JsonValue, settings: tuple[Setting, ...], problems: list[Problem]
) -> Account:
    own = [s for s in settings if s.path == path]
    said = [p for p in problems if p.path[: len(path)] == path]
    native = tuple(dict.fromkeys(_native(s) for s in own if s.name))
    notes = [s.how for s in own if s.how] + [s.effect for s in own if s.effect]
    notes += [f"{p.message}; {p.hint}" if p.hint else p.message for p in said]
    return Account(path, value, _fate(path, own, said), native, tuple(dict.fromkeys(notes)))


def _native(setting: Setting) -> str:
    text = setting.value if isinstance(setting.value, str) else _json(setting.value)
    return f"{setting.name}: {text}"


def _json(value: JsonValue) -> str:
    return json.dumps(value)


def _fate(path: Path, own: list[Setting], said: list[Problem]) -> Fate:
    if any(p.is_fatal for p in said):
        return "refused"
    if said or any(s.effect for s in own):
        return "changed"
    if path[0] not in ("speculation", "engine"):
        return "ours"
    return "translated" if any(s.how for s in own) else "honoured"
