"""Everything that can be said of one profile on one worker: engine-neutral and the engine's own."""

from adapters.contract import Adapter
from adapters.fit.memory import memory_problems
from adapters.fit.pairing import pairing_problems
from adapters.launch import WorkerSpec
from adapters.problem import Problem
from adapters.profile import Profile


def worker_problems(adapter: Adapter, profile: Profile, worker: WorkerSpec) -> list[Problem]:
    """What the engine says, then whether target and draft fit each other and the memory."""
    problems = adapter.check(profile, worker)
    problems += pairing_problems(profile, worker)
    return problems + memory_problems(profile, worker)
