"""Running the gate: plain twice, each candidate twice, compared, certified."""

import asyncio
import platform
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from orchestrator.deployment import Deployment, Member
from orchestrator.errors import InputError
from orchestrator.gate.arm import Endpoint, collect, with_gaps
from orchestrator.gate.certificate import (
    certificate_path,
    make_certificate,
    require_writable,
    write_certificate,
)
from orchestrator.gate.compare import Arm, Comparison, compare
from orchestrator.gate.host import find_endpoint, running
from orchestrator.gate.prompt import Prompt, prompts_digest
from orchestrator.state import StateFolder

Say = Callable[[str], None]
Boot: TypeAlias = Callable[[], AbstractAsyncContextManager[Endpoint]]


@dataclass(frozen=True)
class Trial:
    """One candidate's outcome."""

    candidate: str
    comparison: Comparison
    arms: tuple[Arm, ...]
    certificate: Path | None = None


async def try_fleet(
    deployment: Deployment,
    folder: StateFolder,
    members: tuple[Member, Sequence[Member]],
    prompts: Sequence[Prompt],
    say: Say,
) -> list[Trial]:
    """Gate each candidate of `members` (baseline, candidates) and write its certificate."""
    baseline, candidates = members
    for candidate in candidates:
        _require_pair(baseline, candidate)
    require_writable(certificate_folder(deployment))  # before minutes of work, not after

    def boot(member: Member) -> Boot:
        return lambda: running(deployment, folder, member, say)

    arms = await _collect(folder, [boot(m) for m in (baseline, *candidates)], prompts, say)
    plain = arms[0]
    trials = []
    for candidate, speculating in zip(candidates, arms[1:], strict=True):
        comparison = await _judge(boot(baseline), plain, speculating, prompts)
        both = [*plain, *speculating]
        asked = {"digest": prompts_digest(prompts), "count": len(prompts)}
        data = make_certificate(baseline, candidate, both, comparison, asked)
        data["machine"] = f"{platform.system()} {platform.machine()}"
        path = certificate_path(certificate_folder(deployment), candidate)
        write_certificate(path, data)
        trials.append(Trial(candidate.name, comparison, tuple(both), path))
    return trials


async def _collect(
    folder: StateFolder, boots: Sequence[Boot], prompts: Sequence[Prompt], say: Say
) -> list[list[Arm]]:
    """Both arms of each worker, the baseline's first.

    Workers that are up are asked side by side, each one request at a time; ones to be booted for
    the purpose, one after the other, because memory may hold only one.
    """
    names = ["A", *("S" for _ in boots[1:])]
    if folder.is_locked():  # the fleet is up
        pairs = [_twice(n, b, prompts, say) for n, b in zip(names, boots, strict=True)]
        return list(await asyncio.gather(*pairs))
    return [await _twice(n, b, prompts, say) for n, b in zip(names, boots, strict=True)]


async def try_urls(baseline: str, candidate: str, prompts: Sequence[Prompt], say: Say) -> Trial:
    """Gate engines that somebody else started; no certificate: their launch is not known."""
    if baseline.rstrip("/") == candidate.rstrip("/"):
        raise InputError("baseline and candidate are the same engine; it would equal itself")
    first, second = await find_endpoint(baseline), await find_endpoint(candidate)
    if first.adapter is not second.adapter:
        message = f"baseline is {first.adapter.TITLE}, candidate is {second.adapter.TITLE}"
        raise InputError(f"{message}: output of different engines is not comparable")

    def given(endpoint: Endpoint) -> Boot:
        return lambda: _Given(endpoint)

    plain = await _twice("A", given(first), prompts, say)
    if any(arm.drafted for arm in plain):
        raise InputError(f"the baseline {baseline} drafts tokens: it is not plain")
    speculating = await _twice("S", given(second), prompts, say)
    comparison = await _judge(given(first), plain, speculating, prompts)
    return Trial(candidate, comparison, (*plain, *speculating))


def certificate_folder(deployment: Deployment) -> Path:
    """Where the fleet keeps its certificates."""
    return deployment.file.resolve().parent / deployment.require().gate.certificates


class _Given(AbstractAsyncContextManager[Endpoint]):
    """An endpoint that lives before and after the arm."""

    def __init__(self, endpoint: Endpoint):
        self._endpoint = endpoint

    async def __aenter__(self) -> Endpoint:
        return self._endpoint

    async def __aexit__(self, *error: Any) -> None:
        return None


async def _twice(name: str, boot: Boot, prompts: Sequence[Prompt], say: Say) -> list[Arm]:
    arms = []
    for number in (1, 2):
        async with boot() as endpoint:
            arm = await collect(f"{name}{number}", endpoint, prompts, say)
        say(f"{arm.name} of {endpoint.name}: {arm.tokens} tokens")
        arms.append(arm)
    return arms


async def _judge(
    boot: Boot, plain: list[Arm], speculating: list[Arm], prompts: Sequence[Prompt]
) -> Comparison:
    comparison = compare([prompt.id for prompt in prompts], plain, speculating)
    if not comparison.divergences:
        return comparison
    async with boot() as endpoint:
        gaps = await with_gaps(endpoint, plain[0], comparison.divergences)
    return replace(comparison, divergences=gaps)


def _require_pair(baseline: Member, candidate: Member) -> None:
    """Same flags but for speculation, or the comparison means nothing."""
    if baseline.profile.is_speculating:
        raise InputError(f"the baseline {baseline.name} speculates; name a plain worker")
    if not candidate.profile.is_speculating:
        raise InputError(f"the candidate {candidate.name} is plain; there is nothing to prove")
    if baseline.entry.engine != candidate.entry.engine:
        raise InputError(f"{baseline.name} and {candidate.name} run different engines")
    if baseline.entry.model != candidate.entry.model:
        raise InputError(f"{baseline.name} and {candidate.name} serve different models")
