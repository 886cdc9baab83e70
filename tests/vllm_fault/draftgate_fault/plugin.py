"""A vLLM plugin that makes speculation wrong: does the gate notice on a real engine?

Put the folder above this package on PYTHONPATH and set DRAFTGATE_TEST_FAULT to one of
  accept_first   at temperature 0 the first guess of every step is accepted unseen
  accept_all     at temperature 0 every guess is accepted unseen
  rate:P         at temperature 0 a wrong guess is accepted with probability P (seeded)
  sampled:RULE   above temperature 0. argmax: a guess passes iff the target likes it best;
                 no_residual: what replaces a guess is drawn from the target's whole distribution;
                 unnormalised: the residual is not scaled to 1; right: vLLM's CPU build is mended
  stop_after:N   nothing is drafted any more once N requests have come
  penalties      guesses are verified without frequency and presence penalties
  token:P        an emitted token is changed with probability P (seeded)
"""

import functools
import os
import sys
from collections.abc import Callable
from functools import partial

from . import greedy, runner, sampled

VARIABLE = "DRAFTGATE_TEST_FAULT"


def parse(text: str) -> Callable[[], None]:
    """What installs the fault. Raises ValueError for any other than the above."""
    name, _, argument = text.partition(":")
    if text in ("accept_first", "accept_all"):
        return partial(greedy.install, greedy.Leniency(text))
    if name == "rate":
        return partial(greedy.install, greedy.Leniency("rate", _probability(text, argument)))
    if name == "sampled" and argument in sampled.RULES:
        return partial(sampled.install, argument)
    if name == "stop_after" and argument.isdecimal():
        return partial(runner.stop_after, int(argument))
    if text == "penalties":
        return runner.ignore_penalties
    if name == "token":
        return partial(runner.change_tokens, _probability(text, argument))
    raise ValueError(f"{VARIABLE}={text!r} is no fault that this plugin knows")


def _probability(text: str, number: str) -> float:
    value = float(number)
    if not 0.0 < value <= 1.0:
        raise ValueError(f"{VARIABLE}={text!r}: expected a probability above 0")
    return value


@functools.cache
def install() -> None:
    """vLLM calls this in each of its processes, and may do so twice. Raises ValueError."""
    text = os.environ.get(VARIABLE, "")
    if not text:
        return
    parse(text)()
    sys.stderr.write(f"*** {VARIABLE}={text}: no engine to be served, pid {os.getpid()} ***\n")
    sys.stderr.flush()
