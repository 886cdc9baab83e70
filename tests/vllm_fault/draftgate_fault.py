"""A vLLM plugin that makes greedy verification wrong: does the gate notice on a real engine?

Put this folder on PYTHONPATH and set DRAFTGATE_TEST_FAULT to one of
  accept_first  the first guess of every step is accepted unseen
  accept_all    every guess is accepted unseen
  rate:P        a wrong guess is accepted with probability P (seeded)
It replaces the verify step of the V1 model runner, the only one vLLM has on a CPU.
"""

import os
import random
import sys
from dataclasses import dataclass, field
from typing import Any

VARIABLE = "DRAFTGATE_TEST_FAULT"
SEED = 20


@dataclass
class Fault:
    """Decides which wrong guesses pass."""

    mode: str
    rate: float = 0.0
    chance: random.Random = field(default_factory=lambda: random.Random(SEED))

    def passes(self, position: int) -> bool:
        """Whether the wrong guess at this position of its step, counted from 0, is accepted."""
        if self.mode == "accept_first":
            return position == 0
        return self.mode == "accept_all" or self.chance.random() < self.rate


def parse(text: str) -> Fault:
    """Raises ValueError for anything but the three faults."""
    mode, _, rate = text.partition(":")
    if text in ("accept_first", "accept_all"):
        return Fault(mode)
    if mode == "rate" and 0.0 < float(rate) <= 1.0:
        return Fault(mode, float(rate))
    raise ValueError(
        f"{VARIABLE}={text!r}: expected accept_first, accept_all or rate:P (0 < P <= 1)"
    )


class WrongVerify:
    """Stands in for vLLM's greedy verify kernel; the right one answers whatever else is asked."""

    def __init__(self, right: Any, fault: Fault) -> None:
        self.right = right
        self.fault = fault

    def __getattr__(self, name: str) -> Any:
        return getattr(self.right, name)

    def __call__(self, output: Any, ends: Any, guesses: Any, wanted: Any, *rest: Any) -> None:
        """Fill output[request, position]; arguments are those of _rejection_greedy_sample.

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
            if guess != wanted and (guess < 0 or not self.fault.passes(position)):
                return [*tokens, wanted]
            tokens.append(guess)
        return [*tokens, bonus]


def install() -> None:
    """vLLM calls this in each of its processes. Raises ValueError for an unknown fault."""
    text = os.environ.get(VARIABLE, "")
    if not text:
        return
    fault = parse(text)
    # Only here: without a fault this plugin must not change even the order of vLLM's imports.
    from vllm.v1.sample import rejection_sampler  # noqa: PLC0415

    right = rejection_sampler._rejection_greedy_sample
    if not isinstance(right, WrongVerify):
        rejection_sampler._rejection_greedy_sample = WrongVerify(right, fault)
    sys.stderr.write(
        f"*** {VARIABLE}={text}: this engine verifies WRONGLY, pid {os.getpid()} ***\n"
    )
    sys.stderr.flush()
