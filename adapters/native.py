"""A profile's native options when it is not known which version will run it."""

from adapters import ADAPTERS
from adapters.contract import Adapter
from adapters.launch import Model, WorkerSpec
from adapters.problem import Path, Problem
from adapters.profile import Profile


def native_problems(profile: Profile) -> list[Problem]:
    """What every known version of an engine refuses under `engine:`.

    What only some refuse is told where a fleet says which version it is.
    """
    problems: list[Problem] = []
    for engine in profile.engine:
        problems += _refused_by_all(ADAPTERS[engine], profile, ("engine", engine))
    return problems


def _refused_by_all(adapter: Adapter, profile: Profile, root: Path) -> list[Problem]:
    found = [
        {p.path: p for p in adapter.check(profile, _worker(adapter, dialect.name))}
        for dialect in adapter.SUPPORTED
    ]
    newest = found[-1]
    return [p for path, p in newest.items() if path[:2] == root and all(path in f for f in found)]


def _worker(adapter: Adapter, version: str) -> WorkerSpec:
    return WorkerSpec("worker", version, adapter.COMMANDS[:1], Model("model", "model"), 8000)
