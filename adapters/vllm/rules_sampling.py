"""What vLLM's CPU build does to sampled output while it speculates (#55005; 0.32.0 was run).

The temperatures of the guessed positions are left to whatever is in memory, so that guesses are
accepted by another distribution than the target's. Greedy output is not touched.
"""

from collections.abc import Iterator

from adapters.problem import Problem
from adapters.vllm.asked import METHOD, Asked


def sampling_problems(asked: Asked) -> Iterator[Problem]:
    """Told of every speculating worker: whether requests sample is not the profile's to say."""
    if asked.is_on_cpu and asked.profile.is_speculating:
        message = "vLLM's CPU build draws other tokens than plain at temperature above 0"
        hint = "send it greedy requests only; the gate's suite `sampled` shows it (#55005)"
        yield Problem(METHOD, message, hint, severity="warning", code="sampling-cpu")
