"""Wrong rules at temperatures above 0.

The right rule accepts a guess with probability min(1, p/q) and draws what replaces a rejected one
from max(p - q, 0), normalised (Leviathan et al., 2023): p is the target's distribution, q the
draft's, which is 1 at the guess where the draft is greedy or has no distribution.

vLLM 0.32's CPU build needs mending first: it leaves the temperatures of guesses to whatever is in
memory (vLLM issue #55005), so that no rule is right there. The rule `right` does no more than that.
"""

import math
from collections.abc import Sequence
from typing import Any, Final

from .stand_in import StandIn

RIGHT, ARGMAX, NO_RESIDUAL, UNNORMALISED = "right", "argmax", "no_residual", "unnormalised"
RULES: Final = (RIGHT, ARGMAX, NO_RESIDUAL, UNNORMALISED)


def whole(target: Sequence[float], noise: Sequence[float]) -> int:
    """A token of the target's whole distribution, which may be the rejected guess again.

    noise holds the reciprocals of exponential draws: the largest p/e is a draw from p.
    """
    return max(range(len(target)), key=lambda token: target[token] * noise[token])


def unnormalised(target: Sequence[float], draft: Sequence[float], uniform: float) -> int:
    """Inverse transform over a residual that sums to less than 1: the last token gets the rest."""
    total = 0.0
    for token, (p, q) in enumerate(zip(target, draft, strict=True)):
        total += max(p - q, 0.0)
        if uniform < total:
            return token
    return len(target) - 1


def one_hot(guess: int, size: int) -> list[float]:
    """The draft's distribution where it tells none; a negative guess is padding."""
    return [float(token == guess) for token in range(size)]


class WrongReplacement(StandIn):
    """Stands in for _sample_recovered_tokens, which draws what replaces a rejected guess."""

    def __init__(self, right: Any, rule: str) -> None:
        super().__init__(right)
        self.rule = rule

    def __call__(self, output: Any, ends: Any, guesses: Any, *rest: Any, **_: Any) -> None:
        """rest: the draft's probabilities per guess or None, the target's, noise per request."""
        drafts, targets, noise = rest
        begin = 0
        for row, end in enumerate(ends.tolist()):
            for index in range(begin, end):
                draft = None if drafts is None else drafts[index].tolist()
                place = (int(guesses[index]), draft, targets[index].tolist())
                output[index] = self.replace(*place, noise[row].tolist())
            begin = end

    def replace(
        self, guess: int, draft: list[float] | None, target: list[float], noise: list[float]
    ) -> int:
        """What replaces this guess. Each step of a request replaces one guess at most."""
        if self.rule != UNNORMALISED:
            return whole(target, noise)
        uniform = math.exp(-1 / noise[0])  # of an exponential draw
        return unnormalised(target, draft or one_hot(guess, len(target)), uniform)


class EqualsArgmax(StandIn):
    """Stands in for _rejection_random_sample: a guess passes iff it is the target's likeliest."""

    def __call__(self, output: Any, ends: Any, guesses: Any, _: Any, *rest: Any) -> None:
        """rest: the target's probabilities, each request's bonus token, replacements, uniform
        draws, a mask of greedy requests, …
        """
        targets, bonus, replacements, _, is_greedy, *_ = rest
        steps = list(
            zip(
                guesses.tolist(),
                targets.argmax(dim=-1).tolist(),
                replacements.tolist(),
                strict=True,
            )
        )
        begin = 0
        for row, end in enumerate(ends.tolist()):
            if not bool(is_greedy[row]):
                tokens = self.verify(steps[begin:end], int(bonus[row]))
                for position, token in enumerate(tokens):
                    output[row, position] = token
            begin = end

    def verify(self, steps: Sequence[tuple[int, int, int]], bonus: int) -> list[int]:
        """The tokens of one step, given (guess, likeliest, replacement) for each guess."""
        tokens: list[int] = []
        for guess, likeliest, replacement in steps:
            if guess != likeliest:
                return [*tokens, replacement]
            tokens.append(guess)
        return [*tokens, bonus]


def expand(values: Any, ends: Any, _: int, replace_from: int = 0, replace_to: int = 0) -> Any:
    """Stands in for expand_batch_to_tokens: each request's value once per guess of it."""
    counts = ends.diff(prepend=ends.new_zeros(1))
    return values.masked_fill(values == replace_from, replace_to).repeat_interleave(counts)


def install(rule: str) -> None:
    """Replace the kernels in this process. Call it where vLLM may be imported."""
    # Only here: without a fault this plugin must not change even the order of vLLM's imports.
    from vllm.v1.sample import rejection_sampler as kernels  # noqa: PLC0415

    kernels.expand_batch_to_tokens = expand
    if rule != RIGHT:
        kernels._sample_recovered_tokens = WrongReplacement(kernels._sample_recovered_tokens, rule)
    if rule == ARGMAX:
        kernels._rejection_random_sample = EqualsArgmax(kernels._rejection_random_sample)
