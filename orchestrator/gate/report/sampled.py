"""The test of sampled output in sentences that all reports share, one for each of its parts."""

from collections.abc import Iterator

from orchestrator.gate.evidence import Sampled
from orchestrator.gate.report.words import count, figure, printable
from orchestrator.gate.sampled import LOOKS, REPEATED_LEVEL, SampledSettings, stands


def headline(sampled: Sampled) -> str:
    """What came out, and why where the parts do not say it themselves."""
    head = f"sampled output at temperature {figure(sampled.temperature)}: {sampled.verdict}"
    if sampled.verdict == "pass":
        return f"{head}, {count(sampled.drafted)} tokens drafted"
    is_said = any(fails for _, fails in _parts(sampled))
    return f"{head}: {printable(sampled.message)}" if sampled.message and not is_said else head


def sentences(sampled: Sampled) -> list[str]:
    """What each test compared, its p-value against its level, and what it could have seen."""
    return [sentence for sentence, _ in _parts(sampled)]


def _parts(sampled: Sampled) -> Iterator[tuple[str, bool]]:
    """Each with whether it fails by itself. The levels are the shares of alpha
    that every run of the gate uses."""
    levels = SampledSettings(alpha=sampled.alpha)
    yield _next_tokens(sampled, levels.level)
    yield _strings(sampled, levels.strings_level)


def _next_tokens(sampled: Sampled, level: float) -> tuple[str, bool]:
    p_value = sampled.p_value
    if p_value is None:
        return "next tokens: nothing was compared", False
    where = f"in {sampled.draws:,} draws at {sampled.contexts:,} places"
    told = _p(p_value, level)
    looks = f", {sampled.looks} of {len(LOOKS)} looks" if sampled.looks < len(LOOKS) else ""
    if sampled.repeated is not None:
        where, looks = f"{where}, all of them new", ""
        told = f"{_p(sampled.repeated, REPEATED_LEVEL)}; draws before them: {told}"
    if p_value <= level and stands(sampled.repeated):
        return f"next tokens: another distribution than plain's {where}: {told}", True
    seen = "what it could have seen is not known"
    if sampled.detectable is not None:
        distance = f"a total variation distance of {figure(sampled.detectable)}"
        seen = f"would have seen {distance} with 80 % probability"
    return f"next tokens: no difference {where}{looks}: {told}; {seen}", False


def _strings(sampled: Sampled, level: float) -> tuple[str, bool]:
    p_value = sampled.mmd_p_value
    if p_value is None:
        return "whole answers: nothing was compared", False
    if p_value <= level:
        return f"whole answers: they differ from plain's as strings: {_p(p_value, level)}", True
    seen = "how small a difference it would have seen is not known"
    return f"whole answers: no difference as strings: {_p(p_value, level)}; {seen}", False


def _p(p_value: float, level: float) -> str:
    return f"p = {figure(p_value)} ({figure(level)} or less fails)"
