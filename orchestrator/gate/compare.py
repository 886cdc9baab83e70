"""Comparing arms token by token. Pure: "could not compare" is never "equal".

Arms (design of the gate; the science and its sources are in docs/gate.md): A1 and A2 are the plain
engine twice, S1 and S2 the speculating engine twice, with the same prompts in the same order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from adapters.exchange import Generation

Verdict: TypeAlias = Literal["pass", "fail", "inconclusive"]

END = -1  # stands for "the answer ended here" in a divergence


@dataclass(frozen=True)
class Arm:
    """One pass over all prompts. `answers` holds None where the engine gave none."""

    name: str
    answers: Mapping[str, Generation | None]
    drafted: float | None = None  # tokens drafted during this pass, by the engine's counter
    accepted: float | None = None
    seconds: float = 0.0

    @property
    def tokens(self) -> int:
        return sum(len(answer.ids) for answer in self.answers.values() if answer)


@dataclass(frozen=True)
class Divergence:
    """Where an arm first leaves A1. `gap` is the plain engine's top-2 gap there, in nats."""

    prompt: str
    arm: str
    position: int
    expected: int
    found: int
    gap: float | None = None
    margin: float | None = None  # nats by which plain prefers its token to the found one


@dataclass(frozen=True)
class Comparison:
    """The verdict and what it rests on. `tokens` are those compared at equal prompts."""

    verdict: Verdict
    reasons: tuple[str, ...]
    divergences: tuple[Divergence, ...]
    prompts: int
    tokens: int

    @property
    def bound_per_1000(self) -> float | None:
        """95 % upper bound of forks per 1,000 tokens when none was seen: the rule of three."""
        if self.divergences or not self.tokens:
            return None
        return 3000 / self.tokens


def first_divergence(expected: Sequence[int], found: Sequence[int]) -> int | None:
    """The first position at which two answers differ, a difference in length included."""
    for position, (one, other) in enumerate(zip(expected, found, strict=False)):
        if one != other:
            return position
    return None if len(expected) == len(found) else min(len(expected), len(found))


def compare(prompts: Sequence[str], plain: Sequence[Arm], speculating: Sequence[Arm]) -> Comparison:
    """Strict policy: every difference from plain fails, unless plain differs from itself there."""
    first = plain[0]
    noise = [d for arm in plain[1:] for d in _divergences(prompts, first, arm)]
    forks = [d for arm in speculating for d in _divergences(prompts, first, arm)]
    noisy = {d.prompt for d in noise}
    real = [d for d in forks if d.prompt not in noisy]
    # Once, not once an arm: the arms answer the same prompts, so that they are no further sample.
    tokens = min((_compared(prompts, first, arm) for arm in speculating), default=0)
    lacks = _lacks(prompts, plain, speculating)
    if not tokens:
        lacks.append("nothing was compared")
    if noise:
        message = f"plain differs from itself on {len(noisy)} of {len(prompts)} prompts"
        lacks.append(f"{message}: the engine is not repeatable here, so nothing can be shown")
    if real:
        arms = sorted({d.arm for d in real})
        count = len({d.prompt for d in real})
        verdict: Verdict = "fail"
        reasons = [f"{count} of {len(prompts)} prompts differ from plain (in {', '.join(arms)})"]
    elif lacks:
        verdict, reasons = "inconclusive", lacks
    else:
        verdict, reasons = "pass", [f"{len(prompts)} of {len(prompts)} prompts identical"]
    return Comparison(verdict, tuple(reasons), tuple(noise + forks), len(prompts), tokens)


def _divergences(prompts: Sequence[str], reference: Arm, arm: Arm) -> list[Divergence]:
    found: list[Divergence] = []
    for prompt in prompts:
        one, other = reference.answers.get(prompt), arm.answers.get(prompt)
        if one is None or other is None:
            continue
        if one.prompt_ids != other.prompt_ids:
            found.append(Divergence(prompt, arm.name, -1, len(one.prompt_ids), END))
            continue
        position = first_divergence(one.ids, other.ids)
        if position is not None:
            expected, seen = _at(one.ids, position), _at(other.ids, position)
            found.append(Divergence(prompt, arm.name, position, expected, seen))
    return found


def _at(ids: Sequence[int], position: int) -> int:
    return ids[position] if position < len(ids) else END


def _compared(prompts: Sequence[str], reference: Arm, arm: Arm) -> int:
    pairs = ((reference.answers.get(p), arm.answers.get(p)) for p in prompts)
    return sum(
        min(len(one.ids), len(other.ids))
        for one, other in pairs
        if one and other and one.prompt_ids == other.prompt_ids
    )


def _lacks(prompts: Sequence[str], plain: Sequence[Arm], speculating: Sequence[Arm]) -> list[str]:
    """Why the evidence is short, whatever was compared."""
    lacks: list[str] = []
    if len(plain) < 2 or len(speculating) < 2:
        lacks.append("an engine was asked only once: that it repeats itself was not shown")
    for arm in [*plain, *speculating]:
        missing = [p for p in prompts if arm.answers.get(p) is None]
        if missing:
            lacks.append(f"{arm.name} has no answer to {len(missing)} prompts ({missing[0]}, …)")
        elif not arm.tokens:
            lacks.append(f"{arm.name} answered nothing but empty text")
    return lacks + [_plain_lack(arm) for arm in plain if arm.drafted] + _draft_lacks(speculating)


def _plain_lack(arm: Arm) -> str:
    return f"{arm.name}: the baseline drafted {arm.drafted:.0f} tokens, it is not plain"


def _draft_lacks(speculating: Sequence[Arm]) -> list[str]:
    lacks: list[str] = []
    for arm in speculating:
        if arm.drafted is None:
            lacks.append(f"{arm.name}: the engine tells no count of drafted tokens")
        elif arm.drafted <= 0:
            lacks.append(f"{arm.name}: no token was drafted, so that no verification was tested")
    return lacks
