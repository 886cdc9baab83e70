"""Whole strings of two engines compared: maximum mean discrepancy with the Hamming kernel.

Gao, Liang and Guestrin, "Model Equality Testing" (arXiv 2410.20247). Two strings are as alike as
they have positions with the same token. Strings are longer than those of the conditional test and
fewer: this sees what builds up over many steps, and is blind to small shifts.
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from orchestrator.gate.evidence import END

String: TypeAlias = tuple[int, ...]

PERMUTATIONS: Final = 10_000
_BATCH = 500  # permutations at once, so that memory stays small


def mmd_p_value(
    plain: Mapping[str, Sequence[String]],
    speculating: Mapping[str, Sequence[String]],
    seed: int,
    permutations: int = PERMUTATIONS,
) -> float | None:
    """How rarely strings that change sides at random differ so much, over all prompts together.

    Sides are changed within a prompt only. None: no prompt has strings of both.
    """
    prompts = [p for p in plain if plain[p] and speculating.get(p)]
    if not prompts:
        return None
    rng = np.random.default_rng(seed)
    seen, null = 0.0, np.zeros(permutations)
    for prompt in prompts:
        alike = likeness([*speculating[prompt], *plain[prompt]])
        sides = _sides(len(speculating[prompt]), len(plain[prompt]))
        seen += float(sides @ alike @ sides)
        null += _shuffled(alike, sides, permutations, rng)
    close = 1e-9 * max(1.0, abs(seen))  # equal sums may differ in their last bits
    return float((1 + (null >= seen - close).sum()) / (1 + permutations))


def likeness(strings: Sequence[String]) -> NDArray[np.float64]:
    """By pair, the share of positions with the same token; ended texts are filled up with END."""
    longest = max(map(len, strings), default=0)
    filled = [[*string, *[END] * (longest - len(string))] for string in strings]
    table = np.array(filled, dtype=np.int64).reshape(len(strings), longest)
    alike = np.zeros((len(strings), len(strings)))
    for column in table.T:
        alike += column[:, None] == column[None]
    return alike / max(longest, 1)


def _sides(first: int, second: int) -> NDArray[np.float64]:
    return np.concatenate([np.full(first, 1 / first), np.full(second, -1 / second)])


def _shuffled(
    alike: NDArray[np.float64],
    sides: NDArray[np.float64],
    permutations: int,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """The squared discrepancy of each permutation."""
    found = []
    for start in range(0, permutations, _BATCH):
        rows = min(_BATCH, permutations - start)
        shuffled = rng.permuted(np.tile(sides, (rows, 1)), axis=1)
        found.append(((shuffled @ alike) * shuffled).sum(axis=1))
    return np.concatenate(found)
