"""The conditional next-token test: counts behind fixed prefixes against plain's probabilities.

At temperature 1 plain tells them; at another it draws as often itself, and the draws of both arms
change sides. The statistic and its reasons are in docs/gate-statistics.md.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from adapters.exchange import Candidate
from orchestrator.gate.context import (
    Context,
    Path,
    Told,
    count,
    cut_off,
    grow,
    grow_pooled,
    seen_ends,
    together,
)
from orchestrator.gate.deviance import (
    Arms,
    Drawn,
    Law,
    Seen,
    Shuffled,
    cell_deviances,
    combined_p,
    simulate,
)
from orchestrator.gate.evidence import END
from orchestrator.gate.power import Plan
from orchestrator.gate.sampled import LOOKS, REPEATED_LEVEL, SampledSettings

_FEW_RUNS: Final = 1000
_RUNS_BELOW: Final = 20  # simulated runs that fall below the level by chance, where it matters
_MOST_RUNS: Final = 200_000
_CLEARLY_ABOVE: Final = (
    10  # times the level: no more runs are needed to see that this is no failure
)
_WORST: Final = 5


@dataclass(frozen=True)
class Samples:
    """What was collected, by prefix: plain's candidates after each path, the draws of both arms."""

    told: Mapping[str, Told] = field(default_factory=dict)
    speculating: Mapping[str, Sequence[Path]] = field(default_factory=dict)
    plain: Mapping[str, Sequence[Path]] = field(default_factory=dict)


@dataclass(frozen=True)
class Comparison:
    """The contexts, what was counted there, and how many draws each arm made, by prefix.

    `cut` draws of the speculating arm are shorter than asked without a token that ends a text.
    """

    roots: tuple[Context, ...]
    seen: Seen
    draws: Mapping[str, tuple[int, ...]]
    cut: int

    @property
    def contexts(self) -> int:
        """Contexts with more than one cell: only there is something compared."""
        return sum(len(c.shares) > 1 for root in self.roots for c in root.walk())

    def law(self, rng: np.random.Generator, runs: int, noise: float) -> Law:
        """A faultless engine."""
        if len(self.seen.arms) == 1:
            return Drawn(rng, runs, self.draws, noise)
        return Shuffled(rng, runs, self.draws)

    def plan(self, settings: SampledSettings, look: int) -> Plan:
        """This run, to ask what it could see."""
        levels = _levels(settings, look)
        return Plan(self.roots, self.draws, settings.noise, levels, settings.seed)


def compare(samples: Samples, settings: SampledSettings) -> Comparison:
    """What was drawn beside what is expected: plain's probabilities, or plain's own draws."""
    arms = [samples.speculating] if settings.is_told else [samples.speculating, samples.plain]
    ends = settings.ends or seen_ends([d for arm in arms for d in _every(arm)], settings.length)
    counted = [{p: count(drawn) for p, drawn in arm.items()} for arm in arms]
    draws = {p: tuple(len(arm[p]) for arm in arms) for p in samples.speculating}
    if settings.is_told:
        roots = [grow(p, samples.told[p], sizes[0], ends) for p, sizes in draws.items()]
    else:
        roots = [grow_pooled(p, together(counted[1][p], counted[0][p])) for p in draws]
    cut = cut_off(_every(samples.speculating), settings.length, ends)
    return Comparison(tuple(roots), Seen(tuple(counted)), draws, len(cut))


def are_cut(drawn: Mapping[str, Sequence[Path]], length: int, ends: frozenset[int]) -> bool:
    """Whether some answers are shorter than asked without a token that ends a text."""
    every = _every(drawn)
    return bool(cut_off(every, length, ends or seen_ends(every, length)))


def _every(drawn: Mapping[str, Sequence[Path]]) -> list[Path]:
    return [draw for draws in drawn.values() for draw in draws]


def p_value(comparison: Comparison, settings: SampledSettings, look: int) -> float:
    """The conditional test's p-value at this look alone.

    Few runs are simulated first; only a p-value that may be below the look's level is worked out
    with many, so that a failure always rests on those.
    """
    rng = np.random.default_rng((settings.seed, look))
    level = settings.level_at(look)
    found = _p_of(comparison, comparison.law(rng, _FEW_RUNS, settings.noise))
    if found > _CLEARLY_ABOVE * level:
        return found
    runs = min(math.ceil(_RUNS_BELOW / level), _MOST_RUNS)
    return _p_of(comparison, comparison.law(rng, runs, settings.noise))


def _p_of(comparison: Comparison, law: Law) -> float:
    null = simulate(comparison.roots, law)
    seen = simulate(comparison.roots, comparison.seen)
    return combined_p(seen.beside(null), null.beside(null))


def worst(comparison: Comparison) -> tuple[str, ...]:
    """The cells that differ most from what was expected, in words."""
    found = []
    for root in comparison.roots:
        for context in root.walk():
            counts = comparison.seen.follow(context, ())
            if len(context.shares) > 1 and counts[0].sum():
                deviances = cell_deviances(context, counts)[1][0]
                cell = int(deviances.argmax())
                found.append((float(deviances[cell]), _told_cell(context, cell, counts)))
    found.sort(key=lambda pair: -pair[0])
    return tuple(text for _, text in found[:_WORST])


def _told_cell(context: Context, cell: int, counts: Arms) -> str:
    first = counts[0][0]
    where = f"{context.prefix}, after {' '.join(map(str, context.path)) or 'the prefix'}"
    what = "any other token" if cell == len(context.tokens) else _name(context.tokens[cell])
    share = f"{what} {first[cell]} times in {first.sum()}"
    if len(counts) == 1:
        return f"{where}: {share}, expected {first.sum() * context.shares[cell]:.1f}"
    return f"{where}: {share}, plain {counts[1][0][cell]} in {counts[1][0].sum()}"


def _name(token: int) -> str:
    return "the end" if token == END else f"token {token}"


def tempered(told: Told, temperature: float) -> Told:
    """Candidates at another temperature, as far as those told show it: for planning only."""
    return {path: _tempered(candidates, temperature) for path, candidates in told.items()}


def _tempered(candidates: Sequence[Candidate], temperature: float) -> tuple[Candidate, ...]:
    logs = np.array([candidate.logprob / temperature for candidate in candidates])
    logs -= np.logaddexp.reduce(logs)
    return tuple(
        Candidate(candidate.token, float(log), candidate.text)
        for candidate, log in zip(candidates, logs, strict=True)
    )


def planned(told: Mapping[str, Told], settings: SampledSettings, draws: int) -> Plan:
    """The whole run as it would be with so many draws for each prefix."""
    used = (
        told
        if settings.is_told
        else {p: tempered(t, settings.temperature) for p, t in told.items()}
    )
    roots = [grow(prefix, paths, draws, settings.ends) for prefix, paths in used.items()]
    arms = (draws,) if settings.is_told else (draws, draws)
    levels = _levels(settings, len(LOOKS) - 1)
    return Plan(roots, dict.fromkeys(told, arms), settings.noise, levels, settings.seed)


def _levels(settings: SampledSettings, look: int) -> tuple[float, ...]:
    """All that a run must fail at: a look, and its repetition."""
    return (settings.level_at(look), *([REPEATED_LEVEL] if settings.is_repeated else []))
