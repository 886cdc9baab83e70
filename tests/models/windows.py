"""Batches of token windows, drawn from the text by a generator of the caller's."""

from dataclasses import dataclass
from typing import Any

import torch

from tests.models.bpe import BOS, EOS, encode

# One window in so many is a chat: a piece of a file asked, the next piece answered.
CHAT_EVERY = 8
QUESTION_LINES = 16
ANSWER_LINES = 24
TOKENS_PER_BATCH = 4096


@dataclass(frozen=True)
class Windows:
    """Two long rows of tokens: files one after the other, and chats one after the other."""

    files: Any
    chats: Any

    def draw(self, length: int, chance: Any) -> Any:
        """A batch of TOKENS_PER_BATCH tokens in windows of this length, each beginning with BOS."""
        rows = [
            slice_at(self.chats if row % CHAT_EVERY == 0 else self.files, length, chance)
            for row in range(TOKENS_PER_BATCH // length)
        ]
        batch = torch.stack(rows)
        batch[:, 0] = BOS
        return batch


def slice_at(row: Any, length: int, chance: Any) -> Any:
    start = int(torch.randint(len(row) - length, (1,), generator=chance))
    return row[start : start + length].clone()


def chats(text: str) -> list[tuple[str, str]]:
    """A file as questions and answers that follow one another."""
    lines = text.splitlines(keepends=True)
    step = QUESTION_LINES + ANSWER_LINES
    starts = range(0, len(lines) - step, step)
    return [
        ("".join(lines[i : i + QUESTION_LINES]), "".join(lines[i + QUESTION_LINES : i + step]))
        for i in starts
    ]


def make_windows(tokenizer: Any, texts: list[str]) -> Windows:
    """Tokenize every text once."""
    files = [token for ids in encode(tokenizer, texts) for token in (*ids, EOS)]
    pairs = [pair for text in texts for pair in chats(text)]
    spoken = encode(tokenizer, [f"[user]\n{ask}\n[assistant]\n{answer}" for ask, answer in pairs])
    chat = [token for ids in spoken for token in (BOS, *ids, EOS)]
    return Windows(torch.tensor(files), torch.tensor(chat))
