"""Make the test models: train them, measure them, write them.

Usage: python -m tests.models.make OUT [NAME...], with the Python of a vLLM environment, from the
root of the repository. Without names everything is made; with names only these, and the target is
read from OUT. See README.md beside this file for what each is and what was measured.
"""

import functools
import hashlib
import json
import platform
import sys
from collections.abc import Iterator
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaForCausalLM
from transformers.utils.logging import disable_progress_bar

from tests.models import medusa, text
from tests.models.bpe import make_tokenizer
from tests.models.eagle3 import Head, begin_head, guess_loss, write_head
from tests.models.llama import (
    Plan,
    begin_draft,
    continuations,
    divergence,
    llama_config,
    next_token_loss,
    optimise,
    say,
    write_llama,
)
from tests.models.measure import draft_right, head_right, rates
from tests.models.mtp import Mtp, begin_mtp, write_mtp
from tests.models.windows import Windows, make_windows

# One thread, so that no sum depends on how many there are.
THREADS = 1
VOCABULARY, OTHER_VOCABULARY = 1024, 768
HIDDEN, SMALL_HIDDEN, OTHER_HEAD_HIDDEN = 128, 64, 96
LAYERS = 6
# Tokens of a prompt whose continuation is learnt or measured, and of the continuation.
PROMPT, SAID = 64, 192
SHORT, LONG = 256, 512
SAID_PER_BATCH = 16
HELD_OUT_LINES = 14
GAMMA_DRAFT, GAMMA_HEAD = 4, 3


class Workshop:
    """What the models are made from, each made once."""

    def __init__(self, folder: Path):
        self.folder = folder

    @cached_property
    def texts(self) -> list[str]:
        return text.learnt()

    @cached_property
    def tokenizer(self) -> Any:
        return make_tokenizer(self.texts, VOCABULARY)

    @cached_property
    def windows(self) -> Windows:
        return make_windows(self.tokenizer, self.texts)

    @cached_property
    def fresh(self) -> Windows:
        """Windows of the files that no model learns."""
        return make_windows(self.tokenizer, text.held_out())

    @cached_property
    def target(self) -> Any:
        """The target as its file has it, in float32."""
        model = LlamaForCausalLM.from_pretrained(self.folder / "target", dtype=torch.float32)
        return model.requires_grad_(False)

    @cached_property
    def said(self) -> Any:
        """What the target says on its own after the beginnings of windows."""
        return self.speak(self.windows, 192, 4)

    @cached_property
    def proof(self) -> Any:
        """The same after held-out text, to measure with."""
        return self.speak(self.fresh, 8, 5)

    def speak(self, windows: Windows, batches: int, seed: int) -> Any:
        chance = torch.Generator().manual_seed(seed)
        prompts = [windows.draw(SHORT, chance)[:, :PROMPT] for _ in range(batches)]
        return continuations(self.target, torch.cat(prompts), SAID)

    def mixed(self, length: int, seed: int) -> Iterator[Any]:
        """Batches of text in windows of this length and of what the target said, by turns."""
        chance = torch.Generator().manual_seed(seed)
        while True:
            yield self.windows.draw(length, chance)
            yield self.said[torch.randint(len(self.said), (SAID_PER_BATCH,), generator=chance)]


def text_batches(windows: Windows, steps: int, seed: int) -> Iterator[Any]:
    """Short windows, then long ones for the last quarter."""
    chance = torch.Generator().manual_seed(seed)
    for step in range(steps):
        yield windows.draw(SHORT if step < 0.75 * steps else LONG, chance)


def show(name: str, measured: list[float]) -> None:
    say(f"{name}: accepted by position {[round(rate, 3) for rate in measured]}")


def learn_text(model: Any, windows: Windows, plan: Plan) -> None:
    batches = text_batches(windows, plan.steps, 2)
    weights = dict(model.named_parameters())
    optimise(weights, batches, plan, lambda batch: next_token_loss(model, batch))


def make_target(shop: Workshop) -> None:
    torch.manual_seed(1)
    model = LlamaForCausalLM(llama_config(VOCABULARY, HIDDEN, LAYERS))
    learn_text(model, shop.windows, Plan(steps=500))
    write_llama(shop.folder / "target", model, shop.tokenizer)
    with torch.no_grad():
        losses = [next_token_loss(shop.target, batch) for batch in text_batches(shop.fresh, 8, 3)]
    say(f"target: {float(sum(losses)) / len(losses):.3f} nats per held-out token")
    for row in shop.proof[:4]:
        asked, answered = shop.tokenizer.decode(row[:PROMPT]), shop.tokenizer.decode(row[PROMPT:])
        say(f"{asked!r} -> {answered!r}")


def make_draft(shop: Workshop) -> None:
    draft, target = begin_draft(shop.target), shop.target
    optimise(
        dict(draft.named_parameters()),
        shop.mixed(LONG, 5),
        Plan(steps=300, muon_rate=0.01, adam_rate=2e-3),
        lambda batch: divergence(draft(input_ids=batch).logits, target(input_ids=batch).logits),
    )
    write_llama(shop.folder / "draft", draft, shop.tokenizer)
    show("draft", rates(draft_right(draft, shop.proof, PROMPT, GAMMA_DRAFT)))


def make_eagle3(shop: Workshop) -> None:
    target = shop.target
    weights = begin_head(target.config, 6)
    weights["norm.weight"] = target.model.norm.weight.clone()
    weights["lm_head.weight"] = target.model.embed_tokens.weight.clone()
    head = Head(weights, target)
    learn_to_guess(shop, head, 7)
    write_head(shop.folder / "eagle3", weights, target.config, shop.tokenizer)
    show("eagle3", rates(head_right(head, target, shop.proof, PROMPT, GAMMA_HEAD)))


def learn_to_guess(shop: Workshop, head: Head, seed: int) -> None:
    for weight in head.weights.values():
        weight.requires_grad_(True)
    plan = Plan(steps=300)
    loss = functools.partial(guess_loss, head, shop.target)
    optimise(head.weights, shop.mixed(SHORT, seed), plan, loss)


def make_mtp(shop: Workshop) -> None:
    weights = begin_mtp(shop.target, 10)
    head = Mtp(weights, shop.target)
    learn_to_guess(shop, head, 11)
    write_mtp(shop.folder / "mtp", shop.target, weights, shop.tokenizer)
    show("mtp", rates(head_right(head, shop.target, shop.proof, PROMPT, GAMMA_HEAD)))


def make_medusa(shop: Workshop) -> None:
    target = shop.target
    weights = medusa.begin_medusa(target)
    for weight in weights.values():
        weight.requires_grad_(True)
    plan = Plan(steps=300, muon_rate=0.01, adam_rate=2e-3)
    optimise(weights, shop.mixed(LONG, 12), plan, lambda b: medusa.guess_loss(weights, target, b))
    medusa.write_medusa(shop.folder / "medusa", weights, target.config)
    show("medusa", rates(medusa.right(weights, target, shop.proof, PROMPT)))


def make_small(shop: Workshop, name: str, tokenizer: Any) -> None:
    """A little Llama with a tokenizer of its own."""
    torch.manual_seed(8)
    model = LlamaForCausalLM(llama_config(len(tokenizer), SMALL_HIDDEN, 1))
    learn_text(model, make_windows(tokenizer, shop.texts), Plan(steps=200))
    write_llama(shop.folder / name, model, tokenizer)


def make_other_vocabulary(shop: Workshop) -> None:
    make_small(shop, "other_vocabulary", make_tokenizer(shop.texts, OTHER_VOCABULARY))


def make_other_tokens(shop: Workshop) -> None:
    """As many tokens as the target's, but learnt from an eighth of the files: others."""
    make_small(shop, "other_tokens", make_tokenizer(shop.texts[::8], VOCABULARY))


def make_other_size_eagle3(shop: Workshop) -> None:
    """A head for a target of another width, not trained: nobody can use it here."""
    config = llama_config(VOCABULARY, OTHER_HEAD_HIDDEN, LAYERS)
    weights = begin_head(config, 9)
    write_head(shop.folder / "other_size_eagle3", weights, config, shop.tokenizer)


MAKERS = {
    "target": make_target,
    "draft": make_draft,
    "eagle3": make_eagle3,
    "other_vocabulary": make_other_vocabulary,
    "other_tokens": make_other_tokens,
    "other_size_eagle3": make_other_size_eagle3,
    "mtp": make_mtp,
    "medusa": make_medusa,
}


def prompt_of(program: str) -> str:
    """The beginning of a function from the middle of a file."""
    lines = program.splitlines(keepends=True)
    start = next(i for i in range(len(lines) // 2, len(lines)) if "def " in lines[i])
    return "".join(lines[start : start + HELD_OUT_LINES])


def write_held_out(folder: Path) -> None:
    """Prompts from the held-out files, one for each."""
    prompts = zip(text.HELD_OUT, map(prompt_of, text.held_out()), strict=True)
    lines = [json.dumps({"file": name, "prompt": prompt}) for name, prompt in prompts]
    (folder / "held_out.jsonl").write_text("\n".join(lines) + "\n")


def write_manifest(shop: Workshop) -> None:
    """What the models were made from, and the digest of every file of theirs."""
    files = sorted(path for name in MAKERS for path in (shop.folder / name).iterdir())
    packages = ("torch", "transformers", "tokenizers", "safetensors")
    manifest = {
        "python": platform.python_version(),
        "packages": {name: version(name) for name in packages},
        "text_sha256": text.digest(shop.texts),
        "files": {
            path.relative_to(shop.folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in files
        },
    }
    (shop.folder / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")


def main(folder: Path, names: list[str]) -> None:
    """Make these, or all; the manifest is written once all are there."""
    torch.set_num_threads(THREADS)
    torch.use_deterministic_algorithms(True)
    disable_progress_bar()
    folder.mkdir(parents=True, exist_ok=True)
    shop = Workshop(folder)
    say(f"text {text.digest(shop.texts)}, Python {platform.python_version()}")
    for name in names or MAKERS:
        say(f"{name}:")
        MAKERS[name](shop)
    write_held_out(folder)
    if all((folder / name).is_dir() for name in MAKERS):
        write_manifest(shop)
    say("done")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python -m tests.models.make OUT [NAME...]")
    main(Path(sys.argv[1]), sys.argv[2:])
