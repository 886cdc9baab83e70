"""What becomes of each key of a profile on one engine version, from what its adapter writes."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from pydantic import JsonValue

from adapters import ADAPTERS
from adapters.contract import Adapter
from adapters.launch import WorkerSpec
from adapters.option import is_secret
from adapters.problem import Path, Problem, path_text, sort_problems
from adapters.profile import Drafted, Profile
from adapters.schedule import profile_problems
from adapters.setting import Setting
from adapters.worker_check import worker_problems

# honoured: as written; translated: in other words or numbers; changed: the engine does something
# else than the key says; refused: not rendered; ours: for draftgate itself; elsewhere: an option of
# another engine; unsaid: the adapter forgot the key, which is a bug.
Fate: TypeAlias = Literal[
    "honoured", "translated", "changed", "refused", "ours", "elsewhere", "unsaid"
]

_SPECULATION: Path = ("speculation",)
_METHOD: Path = ("speculation", "method")
_SCHEDULE: Path = ("speculation", "schedule")
_BY_ITSELF = "needs no option"
_FORGOTTEN = "nothing is known of it; this is a bug of draftgate"
_WITH_METHOD = "the method is refused"


@dataclass(frozen=True)
class Account:
    """One key of a profile: what becomes of it, in which native words, and why.

    `is_droppable` is a refused key that a fleet with `degrade: allow` runs without.
    """

    path: Path
    value: JsonValue
    fate: Fate
    native: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    is_droppable: bool = False

    @property
    def key(self) -> str:
        return path_text(self.path)

    @property
    def is_silent(self) -> bool:
        """Whether there is nothing to tell: no option comes of it, and none has to."""
        return self.fate == "elsewhere" or self.notes == (_BY_ITSELF,)

    def as_json(self) -> dict[str, object]:
        return {
            "key": self.key,
            "value": self.value,
            "fate": self.fate,
            "degrade": self.is_droppable,
            "native": list(self.native),
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class Explanation:
    """`accounts` has every key the profile has, defaults included, in the file's order.

    `beside` are problems of what the profile does not say itself: the engine's version, the model.
    """

    accounts: tuple[Account, ...]
    beside: tuple[Problem, ...]

    @property
    def is_refused(self) -> bool:
        is_fatal = any(problem.is_fatal for problem in self.beside)
        return is_fatal or any(account.fate == "refused" for account in self.accounts)

    @property
    def is_droppable(self) -> bool:
        """Whether a fleet with `degrade: allow` runs it, without what is refused."""
        refused = [account for account in self.accounts if account.fate == "refused"]
        is_lost = all(p.severity == "lost" for p in self.beside if p.is_fatal)
        return self.is_refused and is_lost and all(a.is_droppable for a in refused)

    @property
    def is_changed(self) -> bool:
        return any(account.fate in ("changed", "unsaid") for account in self.accounts)


@dataclass(frozen=True)
class _Case:
    """What an engine says of one profile."""

    engine: str
    settings: tuple[Setting, ...]
    problems: tuple[Problem, ...]

    def account(self, path: Path, value: JsonValue) -> Account:
        own = [s for s in self.settings if s.path == path]
        said = [p for p in self.problems if _concerns(p, path)]
        fate = self._fate(path, own, said)
        is_droppable = {p.severity for p in said if p.is_fatal} == {"lost"}
        if fate == "refused":
            own = []
        native = [_native(s.name, s.value) for s in own if s.name]
        if path[0] == "engine" and is_secret(str(path[-1])):
            value = "(hidden)"
        if path[:2] == ("engine", self.engine) and fate != "refused":
            native.append(_native(str(path[-1]), value))
        notes = [s.how for s in own if s.how] + [s.effect for s in own if s.effect]
        notes += [_said(p, path) for p in said]
        notes += [_BY_ITSELF] if fate == "honoured" and not native and not notes else []
        notes += [_WITH_METHOD] if fate == "refused" and not said else []
        notes += [_FORGOTTEN] if fate == "unsaid" else []
        is_droppable = is_droppable and not _is_methodless(self.problems)
        return Account(path, value, fate, _once(native), _once(notes), is_droppable)

    def _fate(self, path: Path, own: list[Setting], said: list[Problem]) -> Fate:
        is_speculation = path[:1] == _SPECULATION
        is_lost = _is_methodless(self.problems) or (not own and _is_refused(self.problems))
        if any(p.is_fatal for p in said) or (is_speculation and is_lost):
            return "refused"
        if path[:1] == ("engine",) and path[1] != self.engine:
            return "elsewhere"
        if said or any(s.effect for s in own):
            return "changed"
        if not is_speculation:
            return "honoured" if path[:1] == ("engine",) else "ours"
        if not own:
            return "unsaid"
        return "translated" if any(s.how for s in own) else "honoured"


def explain(adapter: Adapter, profile: Profile, worker: WorkerSpec) -> Explanation:
    """What the engine makes of a profile, also of one that it refuses."""
    problems = [*profile_problems(profile), *_worker_problems(adapter, profile, worker)]
    problems += adapter.check_arguments({}, worker.engine_version)
    problems = sort_problems(problems)
    engine = next(name for name, known in ADAPTERS.items() if known is adapter)
    # in the words of a method that it does not have, an engine would be told nonsense
    settings = () if _is_methodless(problems) else _settings(adapter, profile, worker)
    case = _Case(engine, settings, tuple(problems))
    accounts = tuple(case.account(path, value) for path, value in _keys(profile, settings))
    paths = [account.path for account in accounts]
    beside = tuple(p for p in problems if not any(_concerns(p, path) for path in paths))
    return Explanation(accounts, beside)


def _worker_problems(adapter: Adapter, profile: Profile, worker: WorkerSpec) -> list[Problem]:
    """Without files of a target or a draft, whether they fit is not the question."""
    if worker.model.facts or worker.model.draft_facts:
        return worker_problems(adapter, profile, worker)
    return adapter.check(profile, worker)


def _settings(adapter: Adapter, profile: Profile, worker: WorkerSpec) -> tuple[Setting, ...]:
    found = adapter.settings(profile, worker)
    return found if profile.is_speculating else (*found, Setting(_METHOD, ""))


def _is_refused(problems: Sequence[Problem]) -> bool:
    """Whether nothing is said of a method's keys for want of the method, or of what it needs."""
    return any(p.is_fatal and p.path in (_METHOD, _SPECULATION) for p in problems)


def _is_methodless(problems: Sequence[Problem]) -> bool:
    return any(p.is_fatal and p.path == _METHOD and p.code == "no-method" for p in problems)


def _concerns(problem: Problem, path: Path) -> bool:
    """Whether a problem is about this key, a part of it, or the mapping that holds it."""
    said = problem.path
    return said[: len(path)] == path or (len(said) > 1 and path[: len(said)] == said)


def _keys(profile: Profile, settings: tuple[Setting, ...]) -> Iterator[tuple[Path, JsonValue]]:
    """Every key with its value: mappings are entered, a schedule is one key.

    Keys that the profile leaves to the engine are there, with None, when a setting comes of them.
    """
    data = profile.model_dump(mode="json")
    method = {"method": data["speculation"].pop("method")}
    keys = dict(_leaves({**data, "speculation": method | data["speculation"]}, ()))
    written = {setting.path for setting in settings}
    for path, value in keys.items():
        if path == _SCHEDULE and isinstance(profile.speculation, Drafted):
            value = {str(t.batch): t.gamma for t in profile.speculation.schedule or ()} or None
        if value is not None or path[0] == "engine" or path in written:
            yield path, value
    yield from (
        (path, None) for path in dict.fromkeys(s.path for s in settings if s.path not in keys)
    )


def _leaves(data: dict[str, Any], root: Path) -> Iterator[tuple[Path, JsonValue]]:
    for key, value in data.items():
        path = (*root, key)
        is_native = path[:1] == ("engine",) and len(path) > 2
        if isinstance(value, dict) and not is_native:
            yield from _leaves(value, path)
        else:
            yield path, value


def _said(problem: Problem, path: Path) -> str:
    """Message and hint, and of which part of the key where it has parts."""
    text = f"{problem.message}; {problem.hint}" if problem.hint else problem.message
    part = path_text(problem.path[len(path) :])
    return text if text.startswith(part) else f"{part}: {text}"


def _native(name: str, value: JsonValue) -> str:
    return f"{name}: {value if isinstance(value, str) else json.dumps(value)}"


def _once(texts: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))
