"""What can be said of a profile when it is not known which engine version will run it."""

from adapters import ADAPTERS
from adapters.contract import Adapter
from adapters.launch import Model, WorkerSpec
from adapters.problem import Path, Problem
from adapters.profile import Profile
from adapters.support import ideal_worker


def native_problems(profile: Profile) -> list[Problem]:
    """What every known version of an engine refuses under `engine:`.

    What only some refuse is told where a fleet says which version it is.
    """
    problems: list[Problem] = []
    for engine in profile.engine:
        problems += _refused_by_all(ADAPTERS[engine], profile, ("engine", engine))
    return problems


def method_problems(profile: Profile) -> list[Problem]:
    """A warning where no version of any engine known here runs the profile as it is."""
    if any(_runs(adapter, profile) for adapter in ADAPTERS.values()):
        return []
    method = profile.speculation.method
    message = f"no engine version known here runs method {method} with these settings"
    hint = "`draftgate explain PROFILE --all` tells why, engine by engine"
    path: Path = ("speculation", "method")
    return [Problem(path, message, hint, "warning", "no-engine-runs-it")]


def _runs(adapter: Adapter, profile: Profile) -> bool:
    """Whether a version has it, newest first; native options are another question."""
    for dialect in reversed(adapter.SUPPORTED):
        found = adapter.check(profile, ideal_worker(adapter, dialect.name))
        if not any(p.is_fatal and p.path[:1] != ("engine",) for p in found):
            return True
    return False


def _refused_by_all(adapter: Adapter, profile: Profile, root: Path) -> list[Problem]:
    found = [
        {p.path: p for p in adapter.check(profile, _worker(adapter, dialect.name))}
        for dialect in adapter.SUPPORTED
    ]
    newest = found[-1]
    return [p for path, p in newest.items() if path[:2] == root and all(path in f for f in found)]


def _worker(adapter: Adapter, version: str) -> WorkerSpec:
    return WorkerSpec("worker", version, adapter.COMMANDS[:1], Model("model", "model"), 8000)
