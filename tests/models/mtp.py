"""The target once more, with a layer that predicts one token more (multi-token prediction).

In the form of MiMo, whose attention has biases: a Llama with zero biases is one. Its layer
`model.mtp_layers.0` reads the target's last state before its norm together with the next token.
The engine asks the same layer again for later guesses, with its own output in the place of the
target's state.
"""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from tests.models.eagle3 import Head, begin_head, look
from tests.models.llama import shape_of

LAYER = "model.mtp_layers.0"
# What an EAGLE-3 head's first values are called here.
INHERITED = (
    "self_attn.o_proj",
    "mlp.gate_proj",
    "mlp.up_proj",
    "mlp.down_proj",
    "input_layernorm",
    "post_attention_layernorm",
)


def begin_mtp(target: Any, seed: int) -> dict[str, Any]:
    """A layer that at first passes the target's state straight on."""
    hidden = target.config.hidden_size
    head = begin_head(target.config, seed)
    weights = {f"{LAYER}.{name}.weight": head[f"midlayer.{name}.weight"] for name in INHERITED}
    for part in "qkv":
        name = f"self_attn.{part}_proj"
        weights[f"{LAYER}.{name}.weight"] = head[f"midlayer.{name}.weight"][:, hidden:].clone()
    weights[f"{LAYER}.token_layernorm.weight"] = torch.ones(hidden)
    weights[f"{LAYER}.hidden_layernorm.weight"] = torch.ones(hidden)
    weights[f"{LAYER}.final_layernorm.weight"] = target.model.norm.weight.clone()
    weights[f"{LAYER}.input_proj.weight"] = torch.eye(2 * hidden)[:hidden].clone()
    return weights


class Mtp(Head):
    """The layer's guesses, as vLLM computes them for `MiMoMTPModel`."""

    LAYER = LAYER

    def begin(self, states: Any) -> Any:
        return states

    def step(self, token: Any, state: Any, keys: list[Any], values: list[Any]) -> tuple[Any, Any]:
        if not keys:
            # The engine masks the token that is paired with the first place.
            token = torch.cat([torch.zeros_like(token[:, :1]), token[:, 1:]], 1)
        token = self.norm(token, f"{LAYER}.token_layernorm")
        state = self.norm(state, f"{LAYER}.hidden_layernorm")
        rows = self.project(torch.cat([state, token], -1), "input_proj")
        said = self.layer(self.norm(rows, f"{LAYER}.input_layernorm"), rows, keys, values)
        state = self.norm(said, f"{LAYER}.final_layernorm")
        return state, state @ self.embedding.T

    def look(self, target: Any, batch: Any) -> tuple[Any, Any]:
        """The target's last state before its norm, and its logits."""
        kept: list[Any] = []
        hook = target.model.norm.register_forward_pre_hook(lambda _, given: kept.append(given[0]))
        _, logits = look(target, batch, (0,))
        hook.remove()
        return kept[0], logits


def biases(weights: dict[str, Any], name: str) -> dict[str, Any]:
    """Zero biases for the queries, keys and values below this name, which MiMo has."""
    return {
        f"{name}.self_attn.{part}_proj.bias": torch.zeros(
            len(weights[f"{name}.self_attn.{part}_proj.weight"])
        )
        for part in "qkv"
    }


def write_mtp(folder: Path, target: Any, layer: dict[str, Any], tokenizer: Any) -> None:
    """A folder that vLLM serves with method mtp, its weights in float16."""
    config = shape_of(target.config) | {
        "architectures": ["MiMoForCausalLM"],
        "num_nextn_predict_layers": 1,
        "dtype": "float16",
    }
    weights = target.state_dict() | layer
    weights.pop("lm_head.weight", None)
    for name in (*(f"model.layers.{i}" for i in range(config["num_hidden_layers"])), LAYER):
        weights |= biases(weights, name)
    folder.mkdir(parents=True, exist_ok=True)
    halves = {name: value.detach().half().contiguous() for name, value in weights.items()}
    save_file(halves, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")
    tokenizer.save_pretrained(folder)
