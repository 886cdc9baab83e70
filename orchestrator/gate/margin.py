"""How large a divergence is: margins in nats, against the precision of the logits.

A margin is the plain engine's log-probability of its best token less that of the token found: the
normaliser cancels, so that it is a difference of two logits. Rounding decides between tokens that
are as near as the type of the logits can tell apart (docs/gate.md).
"""

from collections.abc import Sequence
from dataclasses import replace
from statistics import quantiles

from adapters.exchange import Candidate
from orchestrator.gate.evidence import END, Divergence, Kind, Precision

# Bits of the significand, the implicit one not counted: IEEE 754, and bfloat16's 7.
_BITS = {"float32": 23, "float16": 10, "bfloat16": 7}
# Logits of language models are mostly between 16 and 32 in size; their own are not told.
_EXPONENT = 4
WRONG_NATS = 1.0  # real bugs were at 1 nat or more, numerics at 0.25 or less (docs/gate.md)
_SLACK = 1.001  # engines tell decimals: two steps of a type may come out a little above two
# Two roundings to a step of 0.125 differ by 0.41 steps (docs/gate-statistics.md).
_FINE_NOISE, _COARSE_NOISE = 0.01, 0.05
_FEWEST = 8  # wobbles that a 99th percentile can be read from


def precision(logit_type: str | None, wobbles: Sequence[float] = ()) -> Precision:
    """The unit of margins: one step of the logits' type, or what the engine was seen to wobble by.

    `wobbles` are differences in nats between two plain ways to compute the same log-probability
    (one row and a verify step's width); sums of many roundings go beyond a step of the type.
    """
    known = logit_type if logit_type in _BITS else "bfloat16"
    step = float(2.0 ** (_EXPONENT - _BITS[known]))
    source = f"a step of {known} between 16 and 32"
    if known != logit_type:
        source += ", assumed: the logits' type is not known"
    if len(wobbles) >= _FEWEST:
        seen = quantiles(wobbles, n=100)[98]
        if seen > step:
            seen = min(seen, WRONG_NATS / 4)
            return Precision(
                seen, f"plain's own wobble at verify width, over {len(wobbles)} tokens"
            )
    return Precision(step, source)


def sampling_noise(logit_type: str | None) -> float:
    """Standard deviation, in nats, by which rounding moves a log-probability from one pass to
    another: coarse types, and weights of which nobody knows, move it more."""
    return _FINE_NOISE if logit_type in ("float32", "float16") else _COARSE_NOISE


def judged(divergence: Divergence, candidates: Sequence[Candidate], unit: Precision) -> Divergence:
    """The divergence with what plain says of its place; candidates come best first."""
    if not candidates or END in (divergence.expected, divergence.found):
        return divergence  # where text ends there may be no token whose probability could be told
    best = candidates[0].logprob
    gap = best - candidates[1].logprob if len(candidates) > 1 else None
    found = [c.logprob for c in candidates if c.token == divergence.found]
    margin = best - found[0] if found else None
    units = margin / unit.unit if margin is not None else None
    return replace(
        divergence,
        candidates=tuple(candidates),
        gap=gap,
        margin=margin,
        units=units,
        kind=kind_of(margin, unit),
    )


def kind_of(margin: float | None, unit: Precision) -> Kind:
    """The class of a margin in nats; None: the token was not among plain's best at all."""
    if margin is None or margin >= WRONG_NATS:
        return "wrong"
    if margin <= _SLACK * unit.unit:
        return "tie"
    return "near-tie" if margin <= 2 * _SLACK * unit.unit else "suspicious"
