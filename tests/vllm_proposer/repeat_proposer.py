"""A proposer of one's own for vLLM's `custom_class`: what followed the last token earlier.

Put this folder on the engine's PYTHONPATH. What vLLM calls: v1/spec_decode/custom_class_proposer.py
and v1/worker/gpu_model_runner.py of 0.32.0.
"""

from collections.abc import Sequence
from typing import Any


class RepeatProposer:
    """Copies, as prompt lookup does with a tail of one token."""

    def __init__(self, vllm_config: Any) -> None:
        self.gamma: int = vllm_config.speculative_config.num_speculative_tokens

    def load_model(self, *_: Any) -> None:
        """There are no weights."""

    def propose(
        self, sampled: Sequence[Sequence[int]], lengths: Any, tokens: Any, **_: Any
    ) -> list[list[int]]:
        """Guesses for each row of `tokens`, of which the first `lengths` are known.

        A row that sampled nothing is still reading its prompt.
        """
        return [
            self.guess(tokens[row, : lengths[row]].tolist()) if new else []
            for row, new in enumerate(sampled)
        ]

    def guess(self, known: Sequence[int]) -> list[int]:
        """What followed the last token where it stood before; nothing if it is new."""
        for place in range(len(known) - 2, -1, -1):
            if known[place] == known[-1]:
                return list(known[place + 1 : place + 1 + self.gamma])
        return []
