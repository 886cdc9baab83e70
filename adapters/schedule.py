"""What a batch-size schedule must hold, whatever the engine."""

from collections.abc import Sequence
from itertools import pairwise

from adapters.problem import Path, Problem
from adapters.profile import Drafted, Ngram, Profile, Tier

SCHEDULE: Path = ("speculation", "schedule")


def profile_problems(profile: Profile) -> list[Problem]:
    """Mistakes between the fields of one profile, which no single field can see."""
    spec = profile.speculation
    problems: list[Problem] = []
    if profile.profile == "plain" and profile.is_speculating:
        message = "the name plain is for method none: it is the baseline and the refuge"
        problems.append(Problem(("profile",), message, "give it another name", code="plain-name"))
    if isinstance(spec, Ngram) and spec.lookup.min > spec.lookup.max:
        default = "" if "max" in spec.lookup.model_fields_set else ", the default"
        message = f"min ({spec.lookup.min}) is above max ({spec.lookup.max}{default})"
        path: Path = ("speculation", "lookup", "min")
        hint, rests_on = "write min <= max", (("speculation", "lookup"),)
        problems.append(Problem(path, message, hint, code="lookup-order", rests_on=rests_on))
    if isinstance(spec, Drafted) and spec.schedule:
        problems += schedule_problems(spec.schedule, spec.gamma)
    return problems


def schedule_problems(tiers: Sequence[Tier], gamma: int) -> list[Problem]:
    """First range at 1, no gap or overlap, only the last one open, no gamma above the profile's."""
    root = SCHEDULE
    problems: list[Problem] = []
    if tiers[0].batch.first != 1:
        message = f"the first range starts at {tiers[0].batch.first}"
        problems.append(_batch_problem(0, message, "start it at 1", "schedule-start"))
    for index, (before, tier) in enumerate(pairwise(tiers), start=1):
        problems += _join_problems(index, before, tier)
    if tiers[-1].batch.last is not None:
        last = tiers[-1].batch
        hint = f"write {last.first}+"
        message = f"the last range ends at {last.last}: larger batches have no gamma"
        problems.append(_batch_problem(len(tiers) - 1, message, hint, "schedule-end"))
    for index, tier in enumerate(tiers):
        if tier.gamma > gamma:
            message = f"{tier.gamma} is above the profile's gamma, {gamma}"
            path: Path = (*root, index, "gamma")
            hint = f"write at most {gamma}, or raise speculation.gamma"
            problems.append(Problem(path, message, hint, code="schedule-gamma"))
    return problems


def _batch_problem(index: int, message: str, hint: str, code: str) -> Problem:
    """A complaint on a range beside others: true only when no range is missing."""
    return Problem((*SCHEDULE, index, "batch"), message, hint, code=code, rests_on=(SCHEDULE,))


def _join_problems(index: int, before: Tier, tier: Tier) -> list[Problem]:
    last, first = before.batch.last, tier.batch.first
    if last is None:
        message = f"{tier.batch} stands after the open range {before.batch}"
        return [_batch_problem(index, message, "move it up", "schedule-order")]
    hint = f"start it at {last + 1}"
    if first <= last:
        message = f"{tier.batch} overlaps {before.batch}"
        return [_batch_problem(index, message, hint, "schedule-overlap")]
    if first > last + 1:
        missing = (
            f"size {last + 1} has" if first == last + 2 else f"sizes {last + 1} to {first - 1} have"
        )
        message = f"batch {missing} no gamma"
        return [_batch_problem(index, message, hint, "schedule-gap")]
    return []


def fixed_gamma(spec: Drafted) -> int:
    """The gamma of an engine that knows no schedule: the one for the smallest batches."""
    return spec.schedule[0].gamma if spec.schedule else spec.gamma


def fixed_batch_limit(spec: Drafted) -> int | None:
    """Largest batch at which an engine with `fixed_gamma` still does what the schedule says.

    The router keeps such a pool within it and sends the rest along the route. None: no limit.
    """
    gamma = fixed_gamma(spec)
    limit: int | None = None
    for tier in spec.schedule or ():
        if tier.gamma != gamma:
            return limit
        limit = tier.batch.last
    return None
