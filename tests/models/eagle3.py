"""An EAGLE-3 head in the form that vLLM and llama.cpp read, and its training through time.

At position p the head reads the next token x[p+1] and what the target saw at p (three layers'
states, joined and narrowed by `fc`), and guesses x[p+2]. Further guesses read the head's own
state, before its last norm, in the place of the target's. As in the EAGLE-3 paper's training-time
test (arXiv 2503.01840), all the guesses from one place are trained together: the attention of a
later guess sees the true states up to p and then only the guesses made from p.
"""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch.nn.functional import rms_norm, scaled_dot_product_attention, silu

from tests.models.llama import divergence, shape_of

# Three different layers: on six layers vLLM's own choice names one twice.
AUXILIARY_LAYERS = (1, 3, 5)
GUESSES = 3
# Later guesses count less: they matter only when those before them were right.
GUESS_WEIGHTS = (1.0, 0.8, 0.64)
SPREAD = 0.02
HEAD = 32


def begin_head(config: Any, seed: int) -> dict[str, Any]:
    """A head that at first passes the last of the target's three states straight on."""
    hidden, inner = config.hidden_size, config.intermediate_size
    keys = config.num_key_value_heads * HEAD
    chance = torch.Generator().manual_seed(seed)

    def matrix(rows: int, columns: int) -> Any:
        return torch.randn(rows, columns, generator=chance) * SPREAD

    return {
        "midlayer.self_attn.q_proj.weight": matrix(hidden, 2 * hidden),
        "midlayer.self_attn.k_proj.weight": matrix(keys, 2 * hidden),
        "midlayer.self_attn.v_proj.weight": matrix(keys, 2 * hidden),
        "midlayer.self_attn.o_proj.weight": matrix(hidden, hidden),
        "midlayer.mlp.gate_proj.weight": matrix(inner, hidden),
        "midlayer.mlp.up_proj.weight": matrix(inner, hidden),
        "midlayer.mlp.down_proj.weight": matrix(hidden, inner),
        "midlayer.input_layernorm.weight": torch.ones(hidden),
        "midlayer.hidden_norm.weight": torch.ones(hidden),
        "midlayer.post_attention_layernorm.weight": torch.ones(hidden),
        "norm.weight": torch.ones(hidden),
        "fc.weight": torch.eye(3 * hidden)[-hidden:].clone(),
        "lm_head.weight": matrix(config.vocab_size, hidden),
    }


def look(target: Any, batch: Any, layers: tuple[int, ...]) -> tuple[Any, Any]:
    """The target's states before these layers, side by side, and its logits."""
    with torch.no_grad():
        seen = target(input_ids=batch, output_hidden_states=True)
        return torch.cat([seen.hidden_states[i] for i in layers], -1), seen.logits


def rotate(heads: Any, first: int, theta: float = 10000.0) -> Any:
    """Rotary positions, counted from `first`; [batch, head, place, HEAD]."""
    half = heads.shape[-1] // 2
    places = torch.arange(first, first + heads.shape[2], dtype=torch.float32)
    angles = places[:, None] * theta ** (-torch.arange(half) / half)
    low, high = heads[..., :half], heads[..., half:]
    cosine, sine = angles.cos(), angles.sin()
    return torch.cat([low * cosine - high * sine, high * cosine + low * sine], -1)


def split_heads(rows: Any) -> Any:
    """[batch, place, heads * HEAD] as [batch, heads, place, HEAD]."""
    return rows.unflatten(-1, (-1, HEAD)).transpose(1, 2)


def attend(query: Any, keys: list[Any], values: list[Any]) -> Any:
    """Attention of a later guess: true places up to its own, then the guesses from that place."""
    scores = query @ keys[0].transpose(-1, -2)
    hide = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    own = [(query * key).sum(-1, keepdim=True) for key in keys[1:]]
    scores = torch.cat([scores.masked_fill(hide, -torch.inf), *own], -1) * query.shape[-1] ** -0.5
    share = scores.softmax(-1)
    places = keys[0].shape[2]
    result = share[..., :places] @ values[0]
    for index, value in enumerate(values[1:]):
        result = result + share[..., places + index, None] * value
    return result


class Head:
    """One layer that guesses on from every place of a batch, one guess after the other."""

    LAYER = "midlayer"

    def __init__(self, weights: dict[str, Any], target: Any):
        self.weights = weights
        self.embedding = target.model.embed_tokens.weight
        self.epsilon = target.config.rms_norm_eps

    def guesses(self, states: Any, batch: Any, count: int) -> list[Any]:
        """Logits of each guess, [batch, place, vocabulary]: guess k at place p is of p + k + 2."""
        places = batch.shape[1] - count
        state = self.begin(states[:, :places])
        keys: list[Any] = []
        values: list[Any] = []
        logits = []
        for index in range(count):
            token = self.embedding[batch[:, 1 + index : 1 + index + places]]
            state, said = self.step(token, state, keys, values)
            logits.append(said)
        return logits

    def begin(self, states: Any) -> Any:
        """The target's states as the head's first state."""
        return states @ self.weights["fc.weight"].T

    def step(self, token: Any, state: Any, keys: list[Any], values: list[Any]) -> tuple[Any, Any]:
        """The state for the next guess, and the logits of this one."""
        joined = torch.cat(
            [
                self.norm(token, "midlayer.input_layernorm"),
                self.norm(state, "midlayer.hidden_norm"),
            ],
            -1,
        )
        state = self.layer(joined, state, keys, values)
        return state, self.norm(state, "norm") @ self.weights["lm_head.weight"].T

    def norm(self, rows: Any, name: str) -> Any:
        return rms_norm(rows, rows.shape[-1:], self.weights[f"{name}.weight"], self.epsilon)

    def project(self, rows: Any, name: str) -> Any:
        return rows @ self.weights[f"{self.LAYER}.{name}.weight"].T

    def layer(self, rows: Any, rest: Any, keys: list[Any], values: list[Any]) -> Any:
        """Attention and MLP over `rest`; keys and values of this guess are added to the lists."""
        query, key, value = (
            split_heads(self.project(rows, f"self_attn.{part}_proj")) for part in "qkv"
        )
        first, shared = len(keys), query.shape[1] // key.shape[1]
        query = rotate(query, first)
        keys.append(rotate(key, first).repeat_interleave(shared, 1))
        values.append(value.repeat_interleave(shared, 1))
        if first:
            seen = attend(query, keys, values)
        else:
            seen = scaled_dot_product_attention(query, keys[0], values[0], is_causal=True)
        rest = rest + self.project(seen.transpose(1, 2).flatten(2), "self_attn.o_proj")
        inner = self.norm(rest, f"{self.LAYER}.post_attention_layernorm")
        gate = silu(self.project(inner, "mlp.gate_proj"))
        return rest + self.project(gate * self.project(inner, "mlp.up_proj"), "mlp.down_proj")

    def look(self, target: Any, batch: Any) -> tuple[Any, Any]:
        """What the head reads of the target at every token, and the target's logits."""
        return look(target, batch, AUXILIARY_LAYERS)


def guess_loss(head: Head, target: Any, batch: Any) -> Any:
    """How far all the guesses are from what the target says at their places, in nats."""
    states, truth = head.look(target, batch)
    guesses = head.guesses(states, batch, GUESSES)
    places = guesses[0].shape[1]
    losses = [
        weight * divergence(guess, truth[:, 1 + index : 1 + index + places])
        for index, (guess, weight) in enumerate(zip(guesses, GUESS_WEIGHTS, strict=True))
    ]
    return sum(losses) / sum(GUESS_WEIGHTS)


def write_head(folder: Path, weights: dict[str, Any], config: Any, tokenizer: Any) -> None:
    """A folder that engines take as an EAGLE-3 head of this Llama, its weights in float16."""
    kept = shape_of(config) | {
        "architectures": ["LlamaForCausalLMEagle3"],
        "num_hidden_layers": 1,
        "draft_vocab_size": config.vocab_size,
        "target_hidden_size": config.hidden_size,
        "eagle_aux_hidden_state_layer_ids": list(AUXILIARY_LAYERS),
        "tie_word_embeddings": False,
        "dtype": "float16",
    }
    folder.mkdir(parents=True, exist_ok=True)
    halves = {name: value.detach().half().contiguous() for name, value in weights.items()}
    save_file(halves, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
    tokenizer.save_pretrained(folder)
