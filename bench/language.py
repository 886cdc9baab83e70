"""A made-up language model, and what engines draw that verify guesses by a right or a wrong rule.

Next-token probabilities differ from place to place as those of real models do: some are nearly
certain, some are spread over many tokens.
"""

import functools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adapters.exchange import Candidate
from orchestrator.gate.context import Context, Path, Told, wanted
from orchestrator.gate.deviance import Shifted

Floats = NDArray[np.float64]
Shape = tuple[int, int]  # how many draws, of what length
Rule = Callable[[Floats, Floats], Floats]  # from p and q (the draft's) to what is emitted

VOCABULARY = 100
TOP = 20
SCALES = (1.0, 2.0, 4.0)  # of the logits: spread out, usual, nearly certain
DRAFT_NOISE = 0.5  # of its logits, in the scale of the target's


@dataclass(frozen=True)
class Language:
    """`seed` picks the model. The draft's logits are the target's with noise."""

    seed: int

    def target(self, prefix: str, path: Path) -> Floats:
        """Probabilities of the next token."""
        return _probabilities(self.seed, prefix, _state(path))[0]

    def draft(self, prefix: str, path: Path) -> Floats:
        """What a draft model gives it."""
        return _probabilities(self.seed, prefix, _state(path))[1]

    def told(self, prefix: str, draws: int, length: int) -> Told:
        """The candidates that plain tells for so many draws."""
        told: dict[Path, tuple[Candidate, ...]] = {}
        while paths := wanted(told, draws, length, frozenset()):
            told |= {path: self._candidates(prefix, path) for path in paths}
        return told

    def _candidates(self, prefix: str, path: Path) -> tuple[Candidate, ...]:
        chances = self.target(prefix, path)
        best = np.argsort(-chances)[:TOP]
        return tuple(Candidate(int(t), math.log(chances[t])) for t in best)

    def emitted(self, prefix: str, path: Path, rule: Rule, is_certain: bool) -> Floats:
        """What an engine with this rule emits; `is_certain`: its draft guesses one token only.

        The first token comes from the prompt's pass and is always right.
        """
        p, q = self.target(prefix, path), self.draft(prefix, path)
        if is_certain:
            q = (np.arange(len(q)) == q.argmax()).astype(float)
        return rule(p, q) if path else p

    def shifted(self, roots: Sequence[Context], rule: Rule, is_certain: bool) -> Shifted:
        """The same as shares of the contexts' cells."""
        moved = {}
        for context in (c for root in roots for c in root.walk()):
            emitted = self.emitted(context.prefix, context.path, rule, is_certain)
            cells = emitted[list(context.tokens)]
            shares = np.append(cells, max(1 - cells.sum(), 0.0))
            moved[context.prefix, context.path] = shares / shares.sum()
        return moved

    def draw(
        self, rng: np.random.Generator, prefix: str, shape: Shape, rule: Rule | None = None
    ) -> list[Path]:
        """A rule is used with a draft that is certain."""
        drawn: list[Path] = [()] * shape[0]
        for _ in range(shape[1]):
            drawn = [
                (*path, int(token))
                for path, count in Counter(drawn).items()
                for token in self._next(rng, prefix, path, rule, count)
            ]
        return drawn

    def _next(
        self, rng: np.random.Generator, prefix: str, path: Path, rule: Rule | None, count: int
    ) -> NDArray[np.int64]:
        p = self.target(prefix, path) if rule is None else self.emitted(prefix, path, rule, True)
        sums = np.cumsum(p)
        found: NDArray[np.int64] = np.searchsorted(sums, rng.random(count) * sums[-1])
        return found


def _state(path: Path) -> Path:
    """What the model remembers: all of a short answer, of a long one its last token."""
    return path if len(path) < 3 else (-1, path[-1])


@functools.cache
def _probabilities(seed: int, prefix: str, path: Path) -> tuple[Floats, Floats]:
    rng = np.random.default_rng((seed, *prefix.encode(), 256, *(token + 1 for token in path)))
    scale = rng.choice(SCALES)
    logits = scale * rng.standard_normal(VOCABULARY)
    noise = scale * DRAFT_NOISE * rng.standard_normal(VOCABULARY)
    return _softmax(logits), _softmax(logits + noise)


def _softmax(logits: Floats) -> Floats:
    weights = np.exp(logits - logits.max())
    probabilities: Floats = weights / weights.sum()
    return probabilities


def right(p: Floats, q: Floats) -> Floats:
    """Accept x with min(1, p/q), else draw from the residual: the target's own probabilities."""
    accepted = np.minimum(p, q)
    residual = np.maximum(p - q, 0.0)
    rejected = 1 - accepted.sum()
    emitted: Floats = accepted + rejected * residual / max(float(residual.sum()), 1e-300)
    return emitted


def argmax_only(p: Floats, q: Floats) -> Floats:
    """Accept what equals the target's likeliest token, else draw from p."""
    best = int(p.argmax())
    emitted: Floats = (1 - q[best]) * p
    emitted[best] += q[best]
    return emitted


def no_residual(p: Floats, q: Floats) -> Floats:
    """Accept x with min(1, p/q), else draw from the whole of p."""
    accepted = np.minimum(p, q)
    emitted: Floats = accepted + (1 - accepted.sum()) * p
    return emitted


def not_renormalised(p: Floats, q: Floats) -> Floats:
    """The residual's cumulative sum, searched as if it ended at 1: what lies behind it falls to the
    vocabulary's last token."""
    accepted = np.minimum(p, q)
    rejected = 1 - accepted.sum()
    emitted: Floats = accepted + rejected * np.maximum(p - q, 0.0)
    emitted[-1] += 1 - emitted.sum()
    return emitted


RULES: dict[str, Rule] = {
    "accept if equal to the argmax": argmax_only,
    "no residual: the whole p": no_residual,
    "residual not renormalised": not_renormalised,
}
