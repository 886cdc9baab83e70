"""Faults around the verify step, in vLLM's V1 model runner, the only one that it has on a CPU."""

import random
from dataclasses import dataclass, field
from typing import Any

SEED = 20


@dataclass
class Quota:
    """Requests that are drafted for; those that come later are not."""

    most: int
    seen: set[str] = field(default_factory=set)

    def is_used_up(self, requests: list[str]) -> bool:
        """Whether more requests than that were seen, these among them."""
        self.seen.update(requests)
        return len(self.seen) > self.most


@dataclass
class Noise:
    """Changes tokens by chance: each into its neighbour, which differs in the lowest bit."""

    rate: float
    chance: random.Random = field(default_factory=lambda: random.Random(SEED))

    def change(self, token: int) -> int:
        """A negative token is padding, and stays."""
        if token < 0 or self.chance.random() >= self.rate:
            return token
        return token ^ 1


def stop_after(most: int) -> None:
    """Drafts are made for this many requests, and thrown away from then on."""
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner  # noqa: PLC0415

    take, quota = GPUModelRunner.take_draft_token_ids, Quota(most)

    def taken(runner: Any) -> Any:
        drafts = take(runner)
        if drafts is not None and quota.is_used_up(drafts.req_ids):
            drafts.draft_token_ids = [[] for _ in drafts.req_ids]
        return drafts

    GPUModelRunner.take_draft_token_ids = taken


def ignore_penalties() -> None:
    """Guesses are verified without them; a token that is no guess is still penalised."""
    from vllm.v1.sample.rejection_sampler import RejectionSampler  # noqa: PLC0415

    RejectionSampler.apply_penalties = staticmethod(lambda logits, *_: logits)


def change_tokens(rate: float) -> None:
    """Every token that the engine emits may be another; it goes on from the changed one."""
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner  # noqa: PLC0415

    sample, noise = GPUModelRunner._sample, Noise(rate)

    def sampled(runner: Any, *arguments: Any) -> Any:
        output = sample(runner, *arguments)
        for row in output.sampled_token_ids:
            for position, token in enumerate(row.tolist()):
                changed = noise.change(token)
                if changed != token:
                    row[position] = changed
        return output

    GPUModelRunner._sample = sampled
