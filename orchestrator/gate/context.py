"""Where sampled tokens are compared: places in the answer, as a tree, and their cells.

A context is a fixed prefix and the tokens drawn after it so far (`path`). Its cells are the next
tokens that are expected often enough to be counted one by one; all others share the last cell.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from adapters.exchange import Candidate
from orchestrator.gate.evidence import END

Path: TypeAlias = tuple[int, ...]
Told: TypeAlias = Mapping[Path, tuple[Candidate, ...]]  # plain's candidates after each path
Counts: TypeAlias = Mapping[Path, Mapping[int, int]]  # how often each token came after each path
Floats: TypeAlias = NDArray[np.float64]
Whole: TypeAlias = NDArray[np.int64]

FEWEST_VISITS = 25.0  # expected, for a path to be a context
FEWEST_IN_CELL = 5.0  # expected, for a token to have a cell of its own
# Twenty told probabilities add up to 1 within their rounding: a smaller rest is not known.
LEAST_REST = 1e-5
_MOST_ENDS = 8  # models have one to five


@dataclass(frozen=True)
class Context:
    """`shares` are the probabilities of the cells: one for each token, then the rest's.

    `totals` are the counts of both arms together, None where plain's probabilities are told.
    `children` are the contexts one token on, by the cell of that token.
    """

    prefix: str
    path: Path
    tokens: tuple[int, ...]
    shares: Floats
    totals: Whole | None = None
    children: tuple[tuple[int, "Context"], ...] = ()

    def counted(self, counts: Counts) -> Whole:
        """The counts of this context's cells."""
        cells = np.zeros(len(self.shares), dtype=np.int64)
        places = {token: cell for cell, token in enumerate(self.tokens)}
        for token, count in counts.get(self.path, {}).items():
            cells[places.get(token, len(self.tokens))] += count
        return cells

    def walk(self) -> Iterator["Context"]:
        """This context and all behind it."""
        yield self
        for _, child in self.children:
            yield from child.walk()


def count(draws: Iterable[Path]) -> Counts:
    """How often each token followed each path. Behind an empty draw is END."""
    counts: defaultdict[Path, Counter[int]] = defaultdict(Counter)
    for draw in draws:
        for position, token in enumerate(draw or (END,)):
            counts[draw[:position]][token] += 1
    return counts


def cut_off(draws: Iterable[Path], length: int, ends: frozenset[int]) -> list[Path]:
    """The draws that are shorter than asked without a token that ends a text."""
    return [d for d in draws if len(d) < length and not (d and d[-1] in ends)]


def seen_ends(draws: Sequence[Path], length: int) -> frozenset[int]:
    """The tokens that end a text, learned from draws: last in short ones, and inside none.

    None where there are too many: then texts are cut off, not ended.
    """
    inner = {token for draw in draws for token in draw[:-1]}
    last = {draw[-1] for draw in draws if draw and len(draw) < length}
    ends = frozenset(last - inner)
    return ends if len(ends) <= _MOST_ENDS else frozenset()


def wanted(told: Told, draws: int, length: int, ends: frozenset[int]) -> tuple[Path, ...]:
    """The paths whose candidates are still to be asked for, to make use of so many draws.

    They are chosen by plain's probabilities, never by what was drawn: a choice by the draws would
    have to be made again in every simulated run.
    """
    return tuple(_wanted(told, (), float(draws), (length, ends)))


def _wanted(
    told: Told, path: Path, visits: float, limits: tuple[int, frozenset[int]]
) -> Iterator[Path]:
    length, ends = limits
    if path not in told:
        yield path
        return
    for candidate in told[path] if len(path) + 1 < length else ():
        reached = visits * math.exp(candidate.logprob)
        if reached >= FEWEST_VISITS and candidate.token not in ends:
            yield from _wanted(told, (*path, candidate.token), reached, limits)


def grow(prefix: str, told: Told, draws: float, ends: frozenset[int], path: Path = ()) -> Context:
    """The contexts behind a prefix that so many draws fill, with plain's told probabilities.

    `draws` is the number of those expected to reach `path`. Nothing follows one of the `ends`.
    """
    chances = {c.token: math.exp(c.logprob) for c in told[path]}
    tokens = tuple(t for t, chance in chances.items() if draws * chance >= FEWEST_IN_CELL)
    cells = np.array([chances[token] for token in tokens])
    shares = np.append(cells, max(1 - cells.sum(), LEAST_REST))
    children = tuple(
        (cell, grow(prefix, told, draws * chances[token], ends, (*path, token)))
        for cell, token in enumerate(tokens)
        if draws * chances[token] >= FEWEST_VISITS and (*path, token) in told and token not in ends
    )
    return Context(prefix, path, tokens, shares / shares.sum(), None, children)


def grow_pooled(prefix: str, both: Counts, path: Path = ()) -> Context:
    """The contexts that two arms' draws fill, by the counts of both together.

    Nothing here may depend on which arm drew what: that is what is shuffled.
    """
    counted = both.get(path, {})
    tokens = tuple(sorted(t for t, times in counted.items() if times >= 2 * FEWEST_IN_CELL))
    cells = [counted[token] for token in tokens]
    totals = np.array([*cells, sum(counted.values()) - sum(cells)], dtype=np.int64)
    children = tuple(
        (cell, grow_pooled(prefix, both, (*path, token)))
        for cell, token in enumerate(tokens)
        if counted[token] >= 2 * FEWEST_VISITS and (*path, token) in both
    )
    return Context(prefix, path, tokens, totals / max(totals.sum(), 1), totals, children)


def together(plain: Counts, speculating: Counts) -> Counts:
    """The counts of both arms, added up."""
    paths = {*plain, *speculating}
    return {p: Counter(plain.get(p, {})) + Counter(speculating.get(p, {})) for p in paths}
