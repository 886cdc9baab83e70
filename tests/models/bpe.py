"""Byte-level BPE tokenizers for the test models, trained on the text that the models learn."""

from typing import Any

from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.processors import TemplateProcessing
from tokenizers.trainers import BpeTrainer
from transformers import PreTrainedTokenizerFast

SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
BOS, EOS, PAD = 0, 1, 3
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "[{{ message['role'] }}]\n{{ message['content'] }}\n"
    "{% endfor %}{% if add_generation_prompt %}[assistant]\n{% endif %}"
)


def make_tokenizer(texts: list[str], vocabulary: int) -> Any:
    """A tokenizer of exactly this many tokens that begins texts with BOS; RuntimeError if short."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.decoder = ByteLevelDecoder()
    trainer = BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(SPECIAL.values()),
        initial_alphabet=ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    if tokenizer.get_vocab_size() != vocabulary:
        raise RuntimeError(f"{tokenizer.get_vocab_size()} tokens, {vocabulary} wanted")
    bos = SPECIAL["bos_token"]
    tokenizer.post_processor = TemplateProcessing(
        single=f"{bos} $A", special_tokens=[(bos, tokenizer.token_to_id(bos))]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, chat_template=CHAT_TEMPLATE, **SPECIAL
    )


def encode(tokenizer: Any, texts: list[str]) -> list[list[int]]:
    """Token ids of each text, without BOS."""
    ids: list[list[int]] = tokenizer(texts, add_special_tokens=False)["input_ids"]
    return ids
