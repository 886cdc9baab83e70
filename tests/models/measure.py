"""Acceptance as an engine counts it, worked out from which guesses would have been right."""

from typing import Any

import torch

from tests.models.eagle3 import Head


def walk(right: list[list[bool]]) -> tuple[list[int], int]:
    """Accepted at each position and drafts made, when `right[place][k]` says guess k was right."""
    accepted, drafts, place = [0] * len(right[0]), 0, 0
    while place < len(right):
        drafts += 1
        run = next((k for k, good in enumerate(right[place]) if not good), len(right[place]))
        for position in range(run):
            accepted[position] += 1
        place += run + 1
    return accepted, drafts


def rates(rows: list[list[list[bool]]]) -> list[float]:
    """Share of the drafts in which each position was accepted, over all the rows."""
    walked = [walk(row) for row in rows]
    drafts = sum(made for _, made in walked)
    return [sum(counts) / drafts for counts in zip(*(taken for taken, _ in walked), strict=True)]


def draft_right(draft: Any, said: Any, prompt: int, gamma: int) -> list[list[list[bool]]]:
    """Whether a draft model guesses what was said after prompts of this many tokens."""
    with torch.no_grad():
        guess = draft(input_ids=said).logits[:, :-1].argmax(-1) == said[:, 1:]
    places = range(prompt, said.shape[1] - 1 - gamma)
    return [[row[p : p + gamma].tolist() for p in places] for row in guess]


def head_right(head: Head, target: Any, said: Any, prompt: int, gamma: int) -> Any:
    """Whether an EAGLE-3 head guesses what was said after prompts of this many tokens."""
    states, _ = head.look(target, said)
    with torch.no_grad():
        logits = head.guesses(states, said, gamma + 1)[:gamma]
    places = logits[0].shape[1]
    good = [guess.argmax(-1) == said[:, 2 + k : 2 + k + places] for k, guess in enumerate(logits)]
    return torch.stack(good, -1)[:, prompt - 1 :].tolist()
