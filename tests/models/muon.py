"""Muon: momentum whose matrices are made orthogonal before they are applied.

A model this small learns from a third of the text that AdamW wants. After Keller Jordan's
description, https://kellerjordan.github.io/posts/muon/; in float32 and many matrices at a time,
because PyTorch's own, one matrix at a time in bfloat16, takes longer than the backward pass here.
"""

from collections import defaultdict
from typing import Any

import torch

MOMENTUM = 0.95
WEIGHT_DECAY = 0.01
# The quintic that pulls singular values towards 1, and how often it is applied.
QUINTIC = (3.4445, -4.7750, 2.0315)
ROUNDS = 5


def orthogonalise(stack: Any) -> Any:
    """Each matrix of [number, rows, columns] with its singular values near 1."""
    wide = stack.shape[-2] <= stack.shape[-1]
    matrix = stack if wide else stack.mT
    matrix = matrix / (matrix.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    first, third, fifth = QUINTIC
    for _ in range(ROUNDS):
        square = matrix @ matrix.mT
        matrix = first * matrix + (third * square + fifth * square @ square) @ matrix
    return matrix if wide else matrix.mT


class Muon:
    """Steps the matrices of each shape together."""

    def __init__(self, matrices: list[Any], rate: float):
        self.rate = rate
        by_shape = defaultdict(list)
        for matrix in matrices:
            by_shape[tuple(matrix.shape)].append(matrix)
        self.groups = list(by_shape.values())
        self.momenta = [torch.zeros(len(group), *group[0].shape) for group in self.groups]

    def step(self, share: float) -> None:
        """One step at this share of the full rate."""
        rate = self.rate * share
        with torch.no_grad():
            for group, momentum in zip(self.groups, self.momenta, strict=True):
                gradient = torch.stack([matrix.grad for matrix in group])
                momentum.mul_(MOMENTUM).add_(gradient)
                change = orthogonalise(gradient + MOMENTUM * momentum)
                scale = max(1.0, change.shape[-2] / change.shape[-1]) ** 0.5
                for matrix, part in zip(group, change, strict=True):
                    matrix.mul_(1 - rate * WEIGHT_DECAY).add_(part, alpha=-rate * scale)
