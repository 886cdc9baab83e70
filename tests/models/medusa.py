"""Medusa heads: each guesses one token further from what the target saw last, and from that alone.

Head k reads the target's normed state at position p and guesses x[p + 2 + k], since the engine has
sampled x[p + 1] already; arXiv 2401.10774, in the form that vLLM reads.
"""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch.nn.functional import silu

from tests.models.llama import divergence

HEADS = 3
BLOCKS = 2


def begin_medusa(target: Any) -> dict[str, Any]:
    """Heads that at first all say what the target says."""
    hidden = target.config.hidden_size
    weights = {}
    for head in range(HEADS):
        weights[f"lm_heads.{head}.weight"] = target.model.embed_tokens.weight.clone()
        for block in range(BLOCKS):
            weights[f"blocks.{head}.layers.{block}.weight"] = torch.zeros(hidden, hidden)
    return weights


def guesses(weights: dict[str, Any], states: Any) -> list[Any]:
    """Logits of each head."""
    result = []
    for head in range(HEADS):
        rows = states
        for block in range(BLOCKS):
            rows = rows + silu(rows @ weights[f"blocks.{head}.layers.{block}.weight"].T)
        result.append(rows @ weights[f"lm_heads.{head}.weight"].T)
    return result


def look(target: Any, batch: Any) -> tuple[Any, Any]:
    """The target's normed states and its logits."""
    with torch.no_grad():
        states = target.model(input_ids=batch).last_hidden_state
        return states, target.lm_head(states)


def guess_loss(weights: dict[str, Any], target: Any, batch: Any) -> Any:
    """How far all heads are from what the target says at their places, in nats."""
    states, truth = look(target, batch)
    places = batch.shape[1] - HEADS
    said = guesses(weights, states[:, :places])
    losses = [divergence(guess, truth[:, 1 + k : 1 + k + places]) for k, guess in enumerate(said)]
    return sum(losses) / HEADS


def right(weights: dict[str, Any], target: Any, said: Any, prompt: int) -> Any:
    """Whether the heads guess what was said after prompts of this many tokens."""
    states, _ = look(target, said)
    places = said.shape[1] - 1 - HEADS
    with torch.no_grad():
        logits = guesses(weights, states[:, :places])
    good = [guess.argmax(-1) == said[:, 2 + k : 2 + k + places] for k, guess in enumerate(logits)]
    return torch.stack(good, -1)[:, prompt - 1 :].tolist()


def write_medusa(folder: Path, weights: dict[str, Any], config: Any) -> None:
    """A folder that vLLM takes as Medusa heads of this Llama, in float16."""
    kept = {
        "architectures": ["MedusaModel"],
        "model_type": "medusa",
        "hidden_size": config.hidden_size,
        "vocab_size": config.vocab_size,
        "num_heads": HEADS,
        "num_hidden_layers": BLOCKS,
        "dtype": "float16",
    }
    folder.mkdir(parents=True, exist_ok=True)
    halves = {name: value.detach().half().contiguous() for name, value in weights.items()}
    save_file(halves, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
