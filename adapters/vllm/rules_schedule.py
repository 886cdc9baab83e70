"""Schedules: gamma by batch size, as each version honours, drops or dies of them."""

from collections.abc import Iterator

from adapters.option import whole
from adapters.problem import Path, Problem
from adapters.profile import Drafted, Ngram
from adapters.vllm.asked import Asked

_PATH: Path = ("speculation", "schedule")
# V1 proposers that take another gamma at every step; others assert that it is gamma
# (vllm/v1/spec_decode of 0.31 and 0.32, of which 0.32 ran all six on the CPU;
# _maybe_disable_dynamic_sd_for_v1 of 0.33). DSpark runs on V2 only, which cuts drafts short itself.
_SCHEDULED = frozenset({"ngram", "draft_model", "eagle", "eagle3", "mtp", "dflash"})
_SCHEDULED_SINCE_033 = _SCHEDULED | {"dspark"}


def schedule_problems(asked: Asked) -> Iterator[Problem]:
    spec = asked.drafted
    if spec is None or not spec.schedule:
        return
    lost = list(_lost(asked, spec))
    if lost:
        yield from lost
        return
    yield from _never_proven(spec)
    yield from _unreachable(asked, spec)
    yield from _slow(asked)


def is_followed(asked: Asked) -> bool:
    """Whether the profile's schedule may be written: vLLM may die of one that it cannot follow."""
    spec = asked.drafted
    return spec is not None and bool(spec.schedule) and not any(_lost(asked, spec))


def _lost(asked: Asked, spec: Drafted) -> Iterator[Problem]:
    yield from _method_problems(asked, spec)
    ranks = whole(asked.options, "data-parallel-size", 1)
    if ranks > 1:
        # Ranks that chose different gammas would wait for each other for ever (config/vllm.py).
        message = f"vLLM ignores a schedule with data-parallel-size {ranks}; {_without(spec)}"
        hint = "run one worker a rank and let the router balance them"
        yield Problem(_PATH, message, hint, severity="lost", code="schedule-data-parallel")


def _without(spec: Drafted) -> str:
    """What is left where a fleet may degrade."""
    return f"without it gamma stays {spec.gamma}"


def _never_proven(spec: Drafted) -> Iterator[Problem]:
    """The proof that a worker drafts is one request alone."""
    tier = (spec.schedule or ())[0]
    if tier.gamma == 0:
        message = (
            "the first range says 0: with one request at a time nothing shows that it drafts, "
            "and a worker cannot become ready"
        )
        hint = "start the schedule with a gamma above 0, or use method none"
        yield Problem((*_PATH, 0, "gamma"), message, hint, code="schedule-first")


def _method_problems(asked: Asked, spec: Drafted) -> Iterator[Problem]:
    known = _SCHEDULED_SINCE_033 if asked.dialect == "0.33" else _SCHEDULED
    on_gpu = isinstance(spec, Ngram) and spec.device == "gpu"
    follows = asked.dialect == "0.33" and not asked.is_on_v1  # 0.33's V2 runner cuts any drafts
    if asked.method in known and (follows or not on_gpu):
        return
    what = f"method {asked.method}" + (" on the GPU" if on_gpu else "")
    hint = f"leave the schedule out, or use one of: {', '.join(sorted(known))}"
    message = f"with {what} {_what_happens(asked)}; {_without(spec)}"
    yield Problem(_PATH, message, hint, severity="lost", code="schedule-method")


def _what_happens(asked: Asked) -> str:
    if asked.method == "custom":
        return "vLLM ignores a schedule"
    if asked.method in _SCHEDULED_SINCE_033 - _SCHEDULED:
        return "vLLM is not known to follow a schedule before 0.33"
    if asked.dialect == "0.33":
        return "vLLM turns a schedule off, and only its log tells"
    return "vLLM dies at the first step whose gamma differs"


def _unreachable(asked: Asked, spec: Drafted) -> Iterator[Problem]:
    """vLLM's table of gammas ends at max-num-seqs."""
    most = whole(asked.options, "max-num-seqs", 0)
    for index, tier in enumerate(spec.schedule or ()):
        if most and tier.batch.first > most:
            message = f"batch {tier.batch} is never reached: max-num-seqs is {most}"
            path = (*_PATH, index, "batch")
            hint = "raise max-num-seqs, or remove the range"
            yield Problem(path, message, hint, severity="warning", code="schedule-unreachable")


def _slow(asked: Asked) -> Iterator[Problem]:
    if not asked.is_on_v1 or asked.is_on_cpu or asked.options.get("enforce-eager") is True:
        return
    message = "on the V1 model runner a schedule costs the full CUDA graphs"
    hint = "measure each range (#49548: 232 to 24-157 tokens/s at 8 streams), or leave V2 on"
    yield Problem(_PATH, message, hint, severity="warning", code="schedule-slow")
