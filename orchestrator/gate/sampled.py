"""What is asked of sampled output, when it is looked at, and the verdict.

Two tests share alpha: next tokens behind fixed prefixes (conditional.py), whole strings (mmd.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from orchestrator.gate.evidence import Sampled, Verdict

# Looks at the draws: how many of those planned, and the share of the level that this look spends.
# A faultless engine fails at one of them at most as often as the shares add up to (union bound).
LOOKS: Final = ((0.25, 0.1), (0.5, 0.2), (1.0, 0.7))
# A look that fails is repeated with as many draws as were planned, all of them new. It stands when
# these alone are as unlikely as this. The repetition counts as one more look, behind the others.
REPETITION: Final = len(LOOKS)
REPEATED_LEVEL: Final = 0.1
# Shares of alpha where both tests are made.
_CONDITIONAL: Final = 0.8
_STRINGS: Final = 0.2


@dataclass(frozen=True)
class SampledSettings:
    """How sampled output is tested.

    `alpha` is the most that the chance may be that a faultless engine fails. `detectable` is the
    total variation distance to be seen with 80 % (power.py says of what fault); `largest` the most
    draws made for it, over all prefixes. Each draw has `length` tokens, at least 2: the first comes
    from the prompt's pass, not from verification. `noise` is the standard deviation, in nats, by
    which numerics may move a log-probability without a fault. `ends` are the tokens that end a
    text; empty: learned from the draws. `strings` longer answers of `string_length` tokens are
    drawn from each arm for each prefix; 0: no test on whole strings.
    """

    temperature: float = 1.0
    alpha: float = 0.01
    detectable: float = 0.1
    largest: int = 20_000
    length: int = 3
    seed: int = 0
    noise: float = 0.01
    ends: frozenset[int] = frozenset()
    strings: int = 10
    string_length: int = 32

    def __post_init__(self) -> None:
        if self.length < 2:
            raise ValueError("draws of 1 token never pass through verification")
        if self.temperature <= 0:
            raise ValueError("at temperature 0 nothing is drawn")

    @property
    def is_told(self) -> bool:
        """Whether plain's probabilities are those of the draws."""
        return self.temperature == 1

    @property
    def is_repeated(self) -> bool:
        """Whether a look that fails is repeated. Against plain's own draws, which stay the same, a
        repetition would not be independent."""
        return self.is_told

    @property
    def level(self) -> float:
        """What the conditional test may spend, over all looks."""
        return self.alpha * (_CONDITIONAL if self.strings else 1.0)

    def level_at(self, look: int) -> float:
        """What one look may spend; REPETITION counts as one."""
        return REPEATED_LEVEL if look == REPETITION else self.level * LOOKS[look][1]

    @property
    def strings_level(self) -> float:
        """What the test on whole strings may spend."""
        return self.alpha * _STRINGS if self.strings else 0.0


@dataclass(frozen=True)
class Shown:
    """What a run showed so far: a p-value for each look, and what was missing, in words.

    `repeated` is the p-value of the repetition, once a look has failed. `cut` draws are shorter
    than asked without a token that ends a text.
    """

    p_values: tuple[float, ...] = ()
    mmd_p_value: float | None = None
    contexts: int = 0
    draws: int = 0
    detectable: float | None = None
    drafted: float | None = None
    cut: int = 0
    lacks: tuple[str, ...] = ()
    worst: tuple[str, ...] = ()
    repeated: float | None = None


def over_looks(p_values: Sequence[float]) -> float:
    """The p-value of all looks so far: each is divided by its share of the level."""
    shares = [share for _, share in LOOKS]
    return min([1.0, *(p / share for p, share in zip(p_values, shares, strict=False))])


def conclude(shown: Shown, settings: SampledSettings) -> Sampled:
    """A difference fails whatever else is missing; without one, whatever is missing decides."""
    p_value = over_looks(shown.p_values) if shown.p_values else None
    failures = _failures(p_value, shown, settings)
    lacks = _lacks(shown)
    verdict: Verdict = "fail" if failures else "inconclusive" if lacks else "pass"
    message = "; ".join(failures or lacks or [_no_difference(p_value, shown)])
    return Sampled(
        verdict,
        message,
        settings.temperature,
        shown.contexts,
        shown.draws,
        len(shown.p_values),
        settings.alpha,
        p_value,
        shown.mmd_p_value,
        shown.detectable,
        shown.drafted,
        shown.worst,
        shown.repeated,
    )


def fails(p_values: Sequence[float], settings: SampledSettings) -> bool:
    """Whether the conditional test fails by the looks so far: no further look is needed."""
    return over_looks(p_values) <= settings.level


def stands(repeated: float | None) -> bool:
    """Whether a look that failed does so when it is repeated, or was not repeated."""
    return repeated is None or repeated <= REPEATED_LEVEL


def _failures(p_value: float | None, shown: Shown, settings: SampledSettings) -> list[str]:
    failures = []
    if shown.cut:
        what = f"{shown.cut} of {shown.draws} draws are shorter than asked"
        failures.append(f"{what}, and no token that ends a text is their last")
    is_failing = p_value is not None and fails(shown.p_values, settings)
    if is_failing and stands(shown.repeated):
        what = f"next tokens are not drawn from plain's probabilities (p = {p_value:.2g}"
        again = "" if shown.repeated is None else f"; in new draws {shown.repeated:.2g}"
        failures.append(f"{what}, below {settings.level:g}{again})")
    if shown.mmd_p_value is not None and shown.mmd_p_value <= settings.strings_level:
        what = f"answers differ from plain's as strings (p = {shown.mmd_p_value:.2g}"
        failures.append(f"{what}, below {settings.strings_level:g})")
    return failures


def _lacks(shown: Shown) -> list[str]:
    lacks = list(shown.lacks)
    if len(shown.p_values) < len(LOOKS) and shown.repeated is None:
        lacks.append(f"{len(shown.p_values)} of {len(LOOKS)} looks were made")
    if not shown.contexts:
        lacks.append("plain has one likely token everywhere: there was nothing to compare")
    if shown.drafted is None:
        lacks.append("the engine tells no count of drafted tokens")
    elif shown.drafted <= 0:
        lacks.append("no token was drafted, so that no verification was tested")
    return lacks


def _no_difference(p_value: float | None, shown: Shown) -> str:
    drawn = f"{shown.draws} draws at {shown.contexts} places, {shown.drafted:.0f} tokens drafted"
    if shown.repeated is None:
        seen = f"no difference in {drawn} (p = {p_value:.2g})"
    else:
        before = f"those before had shown one (p = {p_value:.2g})"
        seen = f"no difference in {drawn}, all of them new (p = {shown.repeated:.2g}); {before}"
    if shown.detectable is None:
        return seen
    return f"{seen}; a total variation distance of {shown.detectable:.2g} would be seen with 80 %"
