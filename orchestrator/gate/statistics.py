"""Rates of forks with exact bounds, and whether one rate is above another.

Exact means from the binomial and hypergeometric laws themselves, not from a normal approximation:
forks are few, and often none.
"""

import math

import numpy as np
from numpy.typing import NDArray

from orchestrator.gate.evidence import Rate

CONFIDENCE = 0.95
_HALVINGS = 60  # of the interval [0, 1]: 1e-18


def rate(forks: int, tokens: int) -> Rate:
    """Forks per 1,000 tokens with the bounds of Clopper and Pearson (1934), 95 % two-sided.

    With no fork the upper bound is the one-sided one, about 3 / tokens. Without tokens nothing is
    known: the bounds are 0 and 1,000. Raises ValueError when there are more forks than tokens.
    """
    _require_counts(forks, tokens)
    if not tokens:
        return Rate(0, 0, 0.0, 0.0, 1000.0)
    miss = 1 - CONFIDENCE
    if not forks:
        return Rate(0, tokens, 0.0, 0.0, -1000 * math.expm1(math.log(miss) / tokens))
    high = _largest_share(forks, tokens, miss / 2)
    low = _largest_share(forks - 1, tokens, 1 - miss / 2)
    return Rate(forks, tokens, 1000 * forks / tokens, 1000 * low, 1000 * high)


def exceeds(
    forks: int, tokens: int, reference_forks: int, reference_tokens: int, alpha: float = 0.05
) -> bool:
    """Whether the rate is above the reference's: Fisher's exact test, one-sided, at level alpha.

    False where either has no tokens: then nothing shows it.
    """
    return p_above(forks, tokens, reference_forks, reference_tokens) <= alpha


def p_above(forks: int, tokens: int, reference_forks: int, reference_tokens: int) -> float:
    """The chance of so many forks on this side, were all forks spread over all tokens blindly."""
    _require_counts(forks, tokens)
    _require_counts(reference_forks, reference_tokens)
    every_fork = forks + reference_forks
    lowest = max(0, every_fork - reference_tokens)
    highest = min(every_fork, tokens)
    x = np.arange(lowest, highest, dtype=float)
    up = (every_fork - x) * (tokens - x)
    down = (x + 1) * (reference_tokens - every_fork + x + 1)
    logs = np.concatenate([[0.0], np.cumsum(np.log(up) - np.log(down))])
    chances = np.exp(logs - logs.max())
    return float(chances[forks - lowest :].sum() / chances.sum())


def _require_counts(forks: int, tokens: int) -> None:
    if not 0 <= forks <= tokens:
        raise ValueError(f"{forks} forks in {tokens} tokens")


def _largest_share(count: int, total: int, tail: float) -> float:
    """The share p at which `count` or fewer of `total` have the chance `tail`."""
    if count == total:
        return 1.0
    ways = _log_ways(count, total)
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if _chance_of_at_most(ways, total, middle) > tail:
            low = middle
        else:
            high = middle
    return low


def _log_ways(count: int, total: int) -> NDArray[np.float64]:
    """Logarithms of the binomial coefficients (total over 0) to (total over count)."""
    chosen = np.arange(1, count + 1, dtype=float)
    steps = np.log(total - chosen + 1) - np.log(chosen)
    return np.concatenate([[0.0], np.cumsum(steps)])


def _chance_of_at_most(ways: NDArray[np.float64], total: int, share: float) -> float:
    count = np.arange(len(ways), dtype=float)
    logs = ways + count * math.log(share) + (total - count) * math.log1p(-share)
    return float(np.exp(logs).sum())
