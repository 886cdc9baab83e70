"""The Llamas: the target learns the text, a draft learns what the target would say."""

import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cross_entropy, kl_div, log_softmax
from transformers import LlamaConfig, LlamaForCausalLM

from tests.models.bpe import BOS, EOS, PAD
from tests.models.muon import Muon

WARM_UP_STEPS = 50
# The target's layers that the draft begins with.
DRAFT_LAYERS = (0, 5)
GENERATE_BATCH = 512


@dataclass(frozen=True)
class Plan:
    """How long and how fast a model is trained."""

    steps: int
    muon_rate: float = 0.02
    adam_rate: float = 4e-3


def say(line: str) -> None:
    """A line for whoever waits."""
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {line}\n")
    sys.stdout.flush()


def llama_config(vocabulary: int, hidden: int, layers: int) -> Any:
    """The shape that all share: heads of 32, half of them for keys, tied embeddings."""
    return LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=3 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 32,
        num_key_value_heads=max(1, hidden // 64),
        max_position_embeddings=2048,
        bos_token_id=BOS,
        eos_token_id=EOS,
        pad_token_id=PAD,
        tie_word_embeddings=True,
    )


def is_inner(name: str, weight: Any) -> bool:
    """Whether it is a matrix inside the layers, and not a table of tokens or a norm."""
    return bool(weight.dim() == 2) and not ("embed_tokens" in name or "lm_head" in name)


def optimise(
    weights: dict[str, Any], batches: Iterator[Any], plan: Plan, loss: Callable[[Any], Any]
) -> None:
    """Change the weights in place: Muon inside the layers, AdamW for the rest.

    The rates rise, then fall along a cosine to a fiftieth.
    """
    inner = [weight for name, weight in weights.items() if is_inner(name, weight)]
    outer = [weight for name, weight in weights.items() if not is_inner(name, weight)]
    muon = Muon(inner, plan.muon_rate)
    adam = torch.optim.AdamW(outer, lr=plan.adam_rate, betas=(0.9, 0.95), weight_decay=0.0)
    for step in range(plan.steps):
        cosine = 0.51 + 0.49 * math.cos(math.pi * step / plan.steps)
        share = cosine * min(1, (step + 1) / WARM_UP_STEPS)
        value = loss(next(batches))
        value.backward()
        adam.param_groups[0]["lr"] = plan.adam_rate * share
        muon.step(share)
        adam.step()
        for weight in weights.values():
            weight.grad = None
        if step % 100 == 0 or step == plan.steps - 1:
            say(f"  step {step}: loss {value.item():.3f}")


def next_token_loss(model: Any, batch: Any) -> Any:
    """Cross-entropy in nats per token."""
    logits = model(input_ids=batch).logits[:, :-1]
    return cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())


def divergence(guess: Any, truth: Any) -> Any:
    """Kullback-Leibler divergence of the guess from the truth, in nats per token; both logits."""
    guessed, true = log_softmax(guess, -1).flatten(0, -2), log_softmax(truth, -1).flatten(0, -2)
    return kl_div(guessed, true, log_target=True, reduction="batchmean")


def begin_draft(target: Any) -> Any:
    """A draft of two of the target's layers, which sees tokens as the target does."""
    config = target.config
    draft = LlamaForCausalLM(llama_config(config.vocab_size, config.hidden_size, len(DRAFT_LAYERS)))
    draft.model.embed_tokens.load_state_dict(target.model.embed_tokens.state_dict())
    draft.model.norm.load_state_dict(target.model.norm.state_dict())
    for layer, source in zip(draft.model.layers, DRAFT_LAYERS, strict=True):
        layer.load_state_dict(target.model.layers[source].state_dict())
    return draft


def continuations(target: Any, prompts: Any, tokens: int) -> Any:
    """The prompts, each with so many tokens that the target finds most likely."""
    parts = []
    with torch.no_grad():
        for part in prompts.split(GENERATE_BATCH):
            mask = torch.ones_like(part)
            said = target.generate(
                part,
                attention_mask=mask,
                do_sample=False,
                min_new_tokens=tokens,
                max_new_tokens=tokens,
            )
            parts.append(said)
    return torch.cat(parts)


def shape_of(config: Any) -> dict[str, Any]:
    """The config's values, without the folder it was read from."""
    return {key: value for key, value in config.to_dict().items() if key != "_name_or_path"}


def write_llama(folder: Path, model: Any, tokenizer: Any) -> None:
    """A folder that engines serve, its weights in float16."""
    model.half().save_pretrained(folder)
    model.float()
    tokenizer.save_pretrained(folder)
