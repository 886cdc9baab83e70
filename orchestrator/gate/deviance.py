"""How far counts are from a law, and how far they would be by chance: simulated, never looked up.

The statistic of a context is G = 2 Σ o ln(o / e), o counted, e expected. Two arms are both compared
with their pooled shares. How G is distributed for few expected counts is in no table, so every
p-value is a rank among simulated runs of a faultless engine.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from orchestrator.gate.context import Context, Counts, Floats, Path, Whole

Arms: TypeAlias = tuple[Whole, ...]  # an array for each arm: the speculating one, then plain
Shifted: TypeAlias = Mapping[tuple[str, Path], Floats]  # cells' shares, by prefix and path


class Law(Protocol):
    """What happens in a context: counts by run and cell, from the visits of each run."""

    def start(self, root: Context) -> Arms:
        """Visits of a prefix: how many draws each arm has, by run."""

    def follow(self, context: Context, visits: Arms) -> Arms:
        """Counts of the context's cells (runs × cells), for each arm."""


@dataclass(frozen=True)
class Scores:
    """Four views of the same counts, by run; a fault is large in one of them at least.

    `first` adds G up over first tokens (they come from the prompt's own pass), `later` over all
    others (they come from verification), `prefixes` over each prefix by itself; `cell` is the
    deviance of the worst single cell.
    """

    first: Floats
    later: Floats
    prefixes: Floats
    cell: Floats

    def beside(self, null: "Scores") -> Floats:
        """Runs × 4 statistics. Of the prefixes it is the worst, on the scale of the null."""
        spread = np.maximum(null.prefixes.std(axis=0), 1e-9)
        worst = ((self.prefixes - null.prefixes.mean(axis=0)) / spread).max(axis=1)
        return np.stack([self.first, self.later, worst, self.cell], axis=1)


@dataclass(frozen=True)
class Seen:
    """The one run that was real."""

    arms: tuple[Mapping[str, Counts], ...]

    def start(self, root: Context) -> Arms:
        return self._sums(root)

    def follow(self, context: Context, visits: Arms) -> Arms:
        return tuple(context.counted(arm[context.prefix])[None] for arm in self.arms)

    def _sums(self, root: Context) -> Arms:
        return tuple(counts.sum(axis=1) for counts in self.follow(root, ()))


@dataclass(frozen=True)
class Drawn:
    """Arms that draw from the contexts' shares, `runs` times over.

    `draws` are each arm's, by prefix. `shifted` holds other shares for the speculating arm, by
    prefix and path. `noise` is the standard deviation, in nats, of what numerics add to each of its
    log-probabilities: drawn anew for each run.
    """

    rng: np.random.Generator
    runs: int
    draws: Mapping[str, tuple[int, ...]]
    noise: float = 0.0
    shifted: Shifted | None = None

    def start(self, root: Context) -> Arms:
        return tuple(np.full(self.runs, draws) for draws in self.draws[root.prefix])

    def follow(self, context: Context, visits: Arms) -> Arms:
        shifted = (self.shifted or {}).get((context.prefix, context.path), context.shares)
        first = self.rng.multinomial(visits[0], self._disturbed(shifted))
        others = (self.rng.multinomial(count, context.shares) for count in visits[1:])
        return (first, *others)

    def _disturbed(self, shares: Floats) -> Floats:
        if not self.noise:
            return shares
        normal = self.rng.standard_normal((self.runs, len(shares)))
        weights = shares * np.exp(self.noise * normal)
        disturbed: Floats = weights / weights.sum(axis=1, keepdims=True)
        return disturbed


@dataclass(frozen=True)
class Shuffled:
    """Two arms whose draws change sides at random: exact for whatever law both share."""

    rng: np.random.Generator
    runs: int
    draws: Mapping[str, tuple[int, ...]]  # of each arm, by prefix

    def start(self, root: Context) -> Arms:
        return tuple(np.full(self.runs, draws) for draws in self.draws[root.prefix])

    def follow(self, context: Context, visits: Arms) -> Arms:
        totals = _totals(context)
        left, need = int(totals.sum()), visits[0].copy()
        first = np.zeros((self.runs, len(totals)), dtype=np.int64)
        for cell, total in enumerate(totals[:-1]):
            left -= int(total)
            first[:, cell] = self.rng.hypergeometric(total, left, need)
            need -= first[:, cell]
        first[:, -1] = need
        return first, totals - first


def _totals(context: Context) -> Whole:
    if context.totals is None:
        raise ValueError("only counts of two arms can change sides")
    return context.totals


def simulate(roots: Sequence[Context], law: Law) -> Scores:
    """Every prefix's contexts under a law, scored."""
    tallies = [_Tally(root, law) for root in roots]
    return Scores(
        np.sum([tally.first for tally in tallies], axis=0),
        np.sum([tally.later for tally in tallies], axis=0),
        np.stack([tally.first + tally.later for tally in tallies], axis=1),
        np.max([tally.cell for tally in tallies], axis=0),
    )


class _Tally:
    """One prefix's scores."""

    def __init__(self, root: Context, law: Law):
        self._law = law
        start = law.start(root)
        runs = len(start[0])
        self.first, self.later, self.cell = np.zeros(runs), np.zeros(runs), np.zeros(runs)
        self._visit(root, start)

    def _visit(self, context: Context, visits: Arms) -> None:
        counts = self._law.follow(context, visits)
        if len(context.shares) > 1:
            total, worst = scored(context, counts)
            if context.path:
                self.later += total
            else:
                self.first += total
            np.maximum(self.cell, worst, out=self.cell)
        for cell, child in context.children:
            self._visit(child, tuple(arm[:, cell] for arm in counts))


def scored(context: Context, counts: Arms) -> tuple[Floats, Floats]:
    """By run: the context's G, and the deviance of its worst cell."""
    total, cells = cell_deviances(context, counts)
    return total, cells.max(axis=1)


def cell_deviances(context: Context, counts: Arms) -> tuple[Floats, Floats]:
    """By run: the context's G; and by cell, G of this cell against all others together."""
    shares: Floats = context.shares[None] if len(counts) == 1 else _pooled(counts)
    total, cells = np.zeros(len(counts[0])), np.zeros(counts[0].shape)
    for arm in counts:
        visits = arm.sum(axis=1, keepdims=True)
        terms = _terms(arm, visits * shares)
        total += terms.sum(axis=1)
        cells += terms + _terms(visits - arm, visits * (1 - shares))
    return total, cells


def _pooled(counts: Arms) -> Floats:
    both = np.sum(counts, axis=0)
    pooled: Floats = both / np.maximum(both.sum(axis=1, keepdims=True), 1)
    return pooled


def _terms(counted: Whole, expected: Floats) -> Floats:
    """2 o ln(o / e), 0 where o is 0."""
    ratio = np.divide(counted, expected, out=np.ones(expected.shape), where=counted > 0)
    return np.asarray(2 * counted * np.log(ratio), dtype=np.float64)


def combined_p(seen: Floats, null: Floats) -> float:
    """The chance, in a faultless engine, of a smallest rank as small as the seen run's.

    The run is ranked among the simulated ones in each statistic; its smallest rank is ranked in
    turn among theirs, so that looking four times costs what it must and no more. Exact: under the
    null the seen run is one of the simulated. Ties count against a rejection.
    """
    every = np.concatenate([seen, null])
    smallest = np.min([_from_the_top(column) for column in every.T], axis=0)
    return float((smallest <= smallest[0]).mean())


def smallest_ranks(runs: Floats, null: Floats) -> Floats:
    """The smallest p-value of each run over the statistics, against the null alone."""
    tops = []
    for column, chance in zip(runs.T, null.T, strict=True):
        above = len(chance) - np.searchsorted(np.sort(chance), column, side="left")
        tops.append((1 + above) / (1 + len(chance)))
    smallest: Floats = np.min(tops, axis=0)
    return smallest


def _from_the_top(column: Floats) -> Whole:
    """How many are as large or larger, itself counted."""
    ranks: Whole = len(column) - np.searchsorted(np.sort(column), column, side="left")
    return ranks
