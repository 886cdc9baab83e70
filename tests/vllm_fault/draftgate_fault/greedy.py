"""A verify step that lets wrong guesses pass at temperature 0."""

import random
from dataclasses import dataclass, field
from typing import Any

from .stand_in import StandIn

SEED = 20


@dataclass
class Leniency:
    """Decides which wrong guesses pass: the first of each step, all, or some by chance."""

    mode: str
    rate: float = 0.0
    chance: random.Random = field(default_factory=lambda: random.Random(SEED))

    def passes(self, position: int) -> bool:
        """Whether the wrong guess at this position of its step, counted from 0, is accepted."""
        if self.mode == "accept_first":
            return position == 0
        return self.mode == "accept_all" or self.chance.random() < self.rate


class WrongVerify(StandIn):
    """Stands in for _rejection_greedy_sample."""

    def __init__(self, right: Any, leniency: Leniency) -> None:
        super().__init__(right)
        self.leniency = leniency

    def __call__(self, output: Any, ends: Any, guesses: Any, wanted: Any, *rest: Any) -> None:
        """Fill output[request, position].

        ends are running totals of guesses per request, wanted is the target's argmax per guess;
        rest begins with each request's bonus token and a mask of greedy requests (None: all).
        """
        bonus, is_greedy = rest[0].view(-1).tolist(), rest[1]
        begin = 0
        for row, end in enumerate(ends.tolist()):
            if is_greedy is None or bool(is_greedy[row]):
                pairs = list(
                    zip(guesses[begin:end].tolist(), wanted[begin:end].tolist(), strict=True)
                )
                tokens = self.verify(pairs, bonus[row])
                for position, token in enumerate(tokens):
                    output[row, position] = token
            begin = end

    def verify(self, pairs: list[tuple[int, int]], bonus: int) -> list[int]:
        """The tokens of one step, given (guess, wanted) pairs; a negative guess is padding."""
        tokens: list[int] = []
        for position, (guess, wanted) in enumerate(pairs):
            if guess != wanted and (guess < 0 or not self.leniency.passes(position)):
                return [*tokens, wanted]
            tokens.append(guess)
        return [*tokens, bonus]


def install(leniency: Leniency) -> None:
    """Replace the kernel in this process. Call it where vLLM may be imported."""
    # Only here: without a fault this plugin must not change even the order of vLLM's imports.
    from vllm.v1.sample import rejection_sampler as kernels  # noqa: PLC0415

    kernels._rejection_greedy_sample = WrongVerify(kernels._rejection_greedy_sample, leniency)
