"""draft_len_schedule: one field that three decoders read in three ways.

Sources: PRs #8194, #10860, #12262 and #16888; test_draft_len_schedule.py at 00c11460; drafter.py
and _torch/speculative/utils.py of the 1.3 candidates.
"""

from dataclasses import dataclass

from adapters.problem import Problem
from adapters.profile import Drafted, Tier
from adapters.schedule import SCHEDULE, fixed_batch_limit, fixed_gamma
from adapters.tensorrt_llm.decoder import Decoder


@dataclass(frozen=True)
class Plan:
    """What becomes of a schedule: the longest draft, the engine's map where it has one, and the
    largest batch at which a worker without one may run."""

    gamma: int
    lengths: dict[int, int] | None = None
    batch_limit: int | None = None


def plan(spec: Drafted, decoder: Decoder, batch_size: int) -> Plan:
    """`batch_size` is the engine's largest batch: the open range ends there."""
    if not spec.schedule:
        return Plan(spec.gamma)
    if not is_native(spec, decoder):
        return Plan(fixed_gamma(spec) or spec.gamma, None, fixed_batch_limit(spec))
    return Plan(fixed_gamma(spec), _lengths(spec.schedule, decoder, batch_size))


def is_native(spec: Drafted, decoder: Decoder) -> bool:
    """Whether the engine can hold this schedule; the smallest batch must have max_draft_len."""
    if decoder.reading is None or not spec.schedule or getattr(spec, "tree", None):
        return False
    return fixed_gamma(spec) == _largest(spec.schedule) > 0


def _lengths(tiers: tuple[Tier, ...], decoder: Decoder, batch_size: int) -> dict[int, int]:
    lengths: dict[int, int] = {}
    for tier in tiers:
        last = tier.batch.last or max(batch_size, tier.batch.first)
        if decoder.reading != "upper":
            lengths[tier.batch.first] = tier.gamma
        if decoder.reading != "lower":
            lengths[last] = max(tier.gamma, 1) if decoder.is_one_engine else tier.gamma
    return lengths


def _largest(tiers: tuple[Tier, ...]) -> int:
    return max(tier.gamma for tier in tiers)


def how(decoder: Decoder) -> str:
    """How the map is to be read, in a few words."""
    if decoder.reading == "lower":
        return "keys are the first batch size of each range"
    if decoder.reading == "upper":
        return "keys are the last batch size of each range; the open one ends at max_batch_size"
    return "both ends of each range are keys: the drafter reads them otherwise than the validator"


def schedule_problems(spec: Drafted, decoder: Decoder) -> list[Problem]:
    """A schedule that this decoder does not read, or does not survive."""
    if not spec.schedule:
        return []
    if is_native(spec, decoder):
        return _zero_problems(spec.schedule, decoder)
    if decoder.reading and not getattr(spec, "tree", None) and _largest(spec.schedule):
        message = (
            f"the first range has gamma {fixed_gamma(spec)}, and TensorRT-LLM wants the largest, "
            f"{_largest(spec.schedule)}, there"
        )
        hint = "give the smallest batches the most guesses"
        return [Problem(SCHEDULE, message, hint, severity="lost", code="schedule-first")]
    return _router_problems(spec, spec.schedule, decoder)


def _zero_problems(tiers: tuple[Tier, ...], decoder: Decoder) -> list[Problem]:
    """PR #16888: at 0 the drafter's states are no longer refreshed, and after the batch has shrunk
    the drafts of the requests concerned are hardly ever accepted; no error tells."""
    if not decoder.is_one_engine or all(tier.gamma for tier in tiers):
        return []
    last = next(tier.batch.first for tier in tiers if not tier.gamma) - 1
    message = (
        f"{decoder.kind} of TensorRT-LLM does not come back from gamma 0: its drafter falls "
        "behind, and later guesses are hardly ever accepted, without an error"
    )
    hint = f"end at gamma 1, or let the route leave: {{profile: …, until: {{in_flight: {last}}}}}"
    return [Problem(SCHEDULE, message, hint, severity="lost", code="schedule-ends-in-zero")]


def _router_problems(spec: Drafted, tiers: tuple[Tier, ...], decoder: Decoder) -> list[Problem]:
    """The engine runs one gamma. The router can keep a pool within the first range, which is all
    that the schedule says where every later range is 0."""
    gamma, limit = fixed_gamma(spec), fixed_batch_limit(spec)
    if limit is None and gamma:
        return []
    what = f"{decoder.kind} of TensorRT-LLM does not read draft_len_schedule"
    if getattr(spec, "tree", None):
        what = "TensorRT-LLM has no schedule for trees"
    if gamma and not any(tier.gamma for tier in tiers if tier.gamma != gamma):
        plural = "s" if limit != 1 else ""
        message = (
            f"{what}: it runs gamma {gamma}, and the router keeps this profile within {limit} "
            f"request{plural} at once"
        )
        hint = "give the route a next profile for larger batches"
        return [Problem(SCHEDULE, message, hint, severity="warning", code="schedule-by-router")]
    message = f"{what}: it would run gamma {gamma or spec.gamma} at every batch size"
    hint = "use one gamma, then 0: the router honours that; or another method"
    return [Problem(SCHEDULE, message, hint, severity="lost", code="schedule-method")]
