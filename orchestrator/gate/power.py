"""What a run of the sampled test can see: power against a stated fault, and the fault it can find.

The fault: in every context behind the first token half of the cells (every other one, from the
likeliest down) gain, the other half lose, each in proportion to its share. Contexts differ by how
far they can be moved, p (1 - p) of the first half's share p; each is moved by its part of that. Of
all faults of the same mean total variation distance this one moves G least: a real one is rather
seen sooner.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from orchestrator.gate.context import Context, Floats
from orchestrator.gate.deviance import Drawn, Law, Shifted, simulate, smallest_ranks

WANTED_POWER: Final = 0.8
NULL_RUNS: Final = 4000
FAULT_RUNS: Final = 400
_MOST_MOVED = 0.95  # of the losing half; a cell that is never drawn would be seen at once
_LEAST_DISTANCE, _LARGEST_DISTANCE = 0.001, 0.9
_BISECTIONS = 8  # on a logarithmic scale: the distance is found within 3 %


@dataclass(frozen=True)
class Plan:
    """A run to be: its contexts, each arm's draws by prefix, the noise, and the levels of its last
    look and of the repetition, where there is one: it fails when it fails at each."""

    roots: Sequence[Context]
    draws: Mapping[str, tuple[int, ...]]
    noise: float
    levels: tuple[float, ...]
    seed: int


class Power:
    """The power of one planned run. The runs without a fault are simulated once."""

    def __init__(self, plan: Plan):
        self._plan = plan
        self._rng = np.random.default_rng(plan.seed)
        self._scores = simulate(plan.roots, self._law(NULL_RUNS))
        self._null = self._scores.beside(self._scores)
        self._limits = [_limit(self._null, level) for level in plan.levels]

    def against(self, distance: float) -> float:
        """The share of runs with the stated fault that fail; `distance` is its mean total variation
        distance over places, by how often they are visited."""
        return self.seeing(shifted(self._plan.roots, self._plan.draws, distance, self._rng))

    def seeing(self, moved: Shifted) -> float:
        """The share of runs that fail where the speculating arm draws from other shares."""
        return self.failing(self._law(FAULT_RUNS, moved))

    def failing(self, law: Law) -> float:
        """The share of runs under any law that fail. Draws and repeated draws are independent."""
        scores = simulate(self._plan.roots, law).beside(self._scores)
        ranks = smallest_ranks(scores, self._null)
        return math.prod(float((ranks <= limit).mean()) for limit in self._limits)

    def detectable(self) -> float | None:
        """The smallest distance that is seen with 80 %; None: none is."""
        low, high = _LEAST_DISTANCE, _LARGEST_DISTANCE
        if self.against(high) < WANTED_POWER:
            return None
        for _ in range(_BISECTIONS):
            middle = math.sqrt(low * high)
            low, high = (low, middle) if self.against(middle) >= WANTED_POWER else (middle, high)
        return high

    def _law(self, runs: int, moved: Shifted | None = None) -> Drawn:
        return Drawn(self._rng, runs, self._plan.draws, self._plan.noise, moved)


def _limit(null: Floats, level: float) -> float:
    """The largest smallest rank that fails: at most the share `level` of the null reaches it."""
    ranks = np.sort(smallest_ranks(null, null)) - 1 / (1 + len(null))  # none is above itself
    allowed = int(level * len(ranks))
    reached = ranks[: allowed + 1]
    return float(max(reached[reached < reached[-1]], default=0.0))


def shifted(
    roots: Sequence[Context],
    draws: Mapping[str, tuple[int, ...]],
    distance: float,
    rng: np.random.Generator,
) -> Shifted:
    """The speculating arm's shares under the fault, where that differs.

    The mean is over all contexts. First tokens, which are not moved, count in it: they show how
    uncertain places are of themselves, while places behind them are few where draws are few.
    """
    visited = [pair for root in roots for pair in _visited(root, float(draws[root.prefix][0]))]
    visited = [(context, visits) for context, visits in visited if len(context.shares) > 1]
    later = [context for context, _ in visited if context.path]
    if not later:
        return {}
    weights = [visits for _, visits in visited]
    mean = float(np.average([_room(context) for context, _ in visited], weights=weights))
    if not mean:
        return {}
    signs = rng.integers(0, 2, len(later))
    return {
        (c.prefix, c.path): _moved(c.shares, distance * _room(c) / mean, bool(sign))
        for c, sign in zip(later, signs, strict=True)
    }


def _visited(context: Context, visits: float) -> Iterator[tuple[Context, float]]:
    yield context, visits
    for cell, child in context.children:
        yield from _visited(child, visits * float(context.shares[cell]))


def _halves(shares: Floats) -> NDArray[np.bool_]:
    """Which cells are in the first half: the likeliest, the third likeliest and so on."""
    first = np.zeros(len(shares), dtype=np.bool_)
    first[np.argsort(-shares, kind="stable")[::2]] = True
    return first


def _room(context: Context) -> float:
    share = float(context.shares[_halves(context.shares)].sum())
    return share * (1 - share)


def _moved(shares: Floats, step: float, first_gains: bool) -> Floats:
    """`step` of the shares moved from one half to the other: from the first, which is the larger,
    where the other has too little."""
    first = _halves(shares)
    if step > _MOST_MOVED * float(shares[~first].sum()):
        first_gains = False
    gains = first if first_gains else ~first
    gained, lost = float(shares[gains].sum()), float(shares[~gains].sum())
    step = min(step, _MOST_MOVED * lost)
    if not step:
        return shares
    moved: Floats = np.where(gains, shares * (1 + step / gained), shares * (1 - step / lost))
    moved /= moved.sum()
    return moved
