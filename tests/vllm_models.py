"""Make the tiny models with which the tests run a real vLLM, in seconds and from fixed seeds.

Usage: vllm_models.py OUT_DIR (with the Python of a vLLM environment). OUT_DIR then holds
  target/       a Llama of 6 layers with random weights, a BPE tokenizer and a chat template
  draft/        the target with a little noise on its weights: most of its guesses are right
  eagle3/       an EAGLE-3 head for the target, random: its guesses are wrong
  other_draft/  a model of another vocabulary, which no engine may take for a draft
Nothing is made again while OUT_DIR is current.
"""

import contextlib
import fcntl
import hashlib
import json
import random
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.processors import TemplateProcessing
from tokenizers.trainers import BpeTrainer
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.utils.logging import disable_progress_bar

VOCABULARY = 2048
OTHER_VOCABULARY = 1024
HIDDEN = 128
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "[{{ message['role'] }}]\n{{ message['content'] }}\n"
    "{% endfor %}{% if add_generation_prompt %}[assistant]\n{% endif %}"
)
# Strong attention lets every token of the prompt count, so that a change of the model shows within
# a few tokens of output.
WEIGHT_SCALES = {
    "q_proj": 0.2,
    "k_proj": 0.2,
    "v_proj": 0.05,
    "o_proj": 0.05,
    "mlp": 0.05,
    "embed_tokens": 1.0,
    "lm_head": 0.1,
}
# The model speaks 32 tokens only, so that two in a row recur and n-gram lookup has guesses to make,
# of which about one in six is right.
SPOKEN = slice(256, 288)
SPOKEN_FACTOR = 4.0
DRAFT_NOISE = 0.03
# An EAGLE-3 head needs three different layers: on six layers vLLM's own choice names one twice, and
# the engine dies at the first request.
EAGLE_LAYERS = (1, 3, 5)
SENTENCES = (
    "def total(values: list[int]) -> int:\n    return sum(value for value in values)\n",
    "for name, price in sorted(prices.items()):\n    print(f'{name}: {price:.2f}')\n",
    "class Account:\n    def __init__(self, owner: str) -> None:\n        self.owner = owner\n",
    '{"name": "lamp", "price": 12.50, "tags": ["home", "light"], "stock": 7}\n',
    "The invoice was sent on Monday and paid two days later by the new customer.\n",
    "Rename the function, keep its behaviour, and return the whole file again.\n",
    "SELECT city, count(*) FROM orders WHERE year = 2024 GROUP BY city ORDER BY 2;\n",
)
SYLLABLES = "ba ce di fo gu ka le mi no pu ra se ti vo wu za che dri sto qua lin mar ten ker"


def training_text() -> list[str]:
    """Sentences and invented words enough for a whole vocabulary."""
    chance = random.Random(7)
    parts = SYLLABLES.split()
    words = ["".join(chance.choices(parts, k=chance.randint(2, 4))) for _ in range(3000)]
    lines = [" ".join(chance.choices(words, k=12)) for _ in range(1500)]
    return [*SENTENCES * 20, *lines]


def make_tokenizer(vocabulary: int) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer of exactly this many tokens that begins texts with BOS."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.decoder = ByteLevelDecoder()
    trainer = BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(SPECIAL.values()),
        initial_alphabet=ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(training_text(), trainer)
    if tokenizer.get_vocab_size() != vocabulary:
        raise RuntimeError(f"{tokenizer.get_vocab_size()} tokens, {vocabulary} wanted")
    bos = SPECIAL["bos_token"]
    tokenizer.post_processor = TemplateProcessing(
        single=f"{bos} $A", special_tokens=[(bos, tokenizer.token_to_id(bos))]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, chat_template=CHAT_TEMPLATE, **SPECIAL
    )


def llama_config(vocabulary: int, layers: int) -> LlamaConfig:
    """The shape all the models share."""
    return LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=HIDDEN,
        intermediate_size=2 * HIDDEN,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=3,
        tie_word_embeddings=False,
    )


def scale_of(name: str) -> float:
    """Standard deviation of a weight's values; KeyError is unreachable for a Llama."""
    return next(scale for part, scale in WEIGHT_SCALES.items() if part in name)


def make_llama(vocabulary: int, layers: int, seed: int) -> LlamaForCausalLM:
    """A Llama with random weights that speaks SPOKEN only."""
    model = LlamaForCausalLM(llama_config(vocabulary, layers))
    chance = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" not in name:
                weight.copy_(torch.randn(weight.shape, generator=chance) * scale_of(name))
        model.lm_head.weight[SPOKEN].mul_(SPOKEN_FACTOR)
    return model


def add_noise(model: LlamaForCausalLM, seed: int) -> None:
    """Change every weight by a few per cent, which makes the target its own imperfect draft."""
    chance = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" not in name:
                weight.mul_(1 + DRAFT_NOISE * torch.randn(weight.shape, generator=chance))


def write_llama(folder: Path, model: LlamaForCausalLM, tokenizer: Any) -> None:
    """Write a model folder that vLLM serves."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def write_eagle3(folder: Path, tokenizer: Any, seed: int) -> None:
    """Write an EAGLE-3 head: one layer that reads three of the target's layers."""
    config = llama_config(VOCABULARY, 1).to_dict() | {
        "architectures": ["LlamaForCausalLMEagle3"],
        "draft_vocab_size": VOCABULARY,
        "target_hidden_size": HIDDEN,
        "eagle_aux_hidden_state_layer_ids": list(EAGLE_LAYERS),
    }
    chance = torch.Generator().manual_seed(seed)
    layer = LlamaForCausalLM(llama_config(VOCABULARY, 1)).model.layers[0]
    shapes = {f"midlayer.{name}": list(value.shape) for name, value in layer.named_parameters()}
    for part in ("q_proj", "k_proj", "v_proj"):
        # The first layer reads the token's embedding and the target's state side by side.
        shapes[f"midlayer.self_attn.{part}.weight"][1] = 2 * HIDDEN
    shapes["midlayer.hidden_norm.weight"] = [HIDDEN]
    shapes["fc.weight"] = [HIDDEN, len(EAGLE_LAYERS) * HIDDEN]
    shapes["norm.weight"] = [HIDDEN]
    shapes["lm_head.weight"] = [VOCABULARY, HIDDEN]
    weights = {
        name: torch.ones(shape)
        if "norm" in name
        else torch.randn(shape, generator=chance) * HIDDEN**-0.5
        for name, shape in shapes.items()
    }
    folder.mkdir()
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    tokenizer.save_pretrained(folder)


def write_models(folder: Path) -> None:
    """Write all four into an existing folder."""
    tokenizer = make_tokenizer(VOCABULARY)
    model = make_llama(VOCABULARY, layers=6, seed=1)
    write_llama(folder / "target", model, tokenizer)
    add_noise(model, seed=2)
    write_llama(folder / "draft", model, tokenizer)
    write_eagle3(folder / "eagle3", tokenizer, seed=3)
    other = make_llama(OTHER_VOCABULARY, layers=2, seed=4)
    write_llama(folder / "other_draft", other, make_tokenizer(OTHER_VOCABULARY))


def stamp() -> str:
    """Changes whenever this program or a library that shapes its output does."""
    parts = [Path(__file__).read_bytes().hex()]
    parts += [version(name) for name in ("torch", "transformers", "tokenizers", "safetensors")]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@contextlib.contextmanager
def exclusive(target: Path) -> Iterator[None]:
    """Hold the right to write target; a second run waits for the first."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_name(f".{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main(target: Path) -> str:
    """Make the models unless they are current; say in a line what was done."""
    torch.set_num_threads(1)
    disable_progress_bar()
    with exclusive(target):
        made = target / "made"
        if made.is_file() and made.read_text() == stamp():
            return f"{target}: current"
        partial = target.with_name(f".{target.name}.partial")
        for folder in (partial, target):
            shutil.rmtree(folder, ignore_errors=True)
        partial.mkdir()
        write_models(partial)
        (partial / "made").write_text(stamp())
        partial.rename(target)
    return f"{target}: made"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: vllm_models.py OUT_DIR")
    sys.stdout.write(f"{main(Path(sys.argv[1]))}\n")
