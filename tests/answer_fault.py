"""Wrong answers made from right ones: tokens dropped, repeated, swapped, changed or taken away.

Pure; tests/fault_proxy.py applies it to what a real engine answers. A token's text is the engine's
to tell, so only ids are changed here.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

Kind: TypeAlias = Literal["drop", "repeat", "swap", "token", "empty"]
KINDS: Final[tuple[Kind, ...]] = ("drop", "repeat", "swap", "token", "empty")
AT = 5  # the token of an answer, counted from 0, that is dropped, repeated or swapped with the next
SEED = 20


@dataclass
class Edit:
    """Changes the ids of one answer as they come, in however many parts."""

    kind: Kind
    rate: float = 0.0  # of `token`: the probability that one is changed
    chance: random.Random = field(default_factory=lambda: random.Random(SEED))
    position: int = 0
    held: list[int] = field(default_factory=list)

    def feed(self, ids: Sequence[int], is_last: bool) -> list[int]:
        """What this part of the answer becomes."""
        out: list[int] = []
        for token in ids:
            out += self._next(token)
            self.position += 1
        if is_last:
            out += self.held
            self.held = []
        return out

    def _next(self, token: int) -> list[int]:
        if self.kind == "empty":
            return []
        if self.kind == "token":
            return [token ^ 1 if self.chance.random() < self.rate else token]
        if self.kind == "swap" and self.held:
            return [token, self.held.pop()]
        if self.position != AT:
            return [token]
        if self.kind == "swap":
            self.held.append(token)
        return [token, token] if self.kind == "repeat" else []


@dataclass(frozen=True)
class Part:
    """Where an answer, or a piece of a streamed one, holds token ids and their text.

    `index` tells apart several answers to one request.
    """

    index: int
    is_last: bool
    _ids: tuple[dict[str, Any], str]
    _text: tuple[dict[str, Any], str]

    @property
    def ids(self) -> list[int]:
        holder, key = self._ids
        return list(holder.get(key) or [])

    @property
    def text(self) -> str:
        holder, key = self._text
        return str(holder.get(key) or "")

    def write(self, ids: list[int], text: str) -> None:
        for (holder, key), value in ((self._ids, ids), (self._text, text)):
            holder[key] = value


def parts(answer: dict[str, Any]) -> Iterator[Part]:
    """The parts that tell their token ids: of llama.cpp's own route, and of OpenAI's two."""
    if "tokens" in answer and "content" in answer:
        is_last = bool(answer.get("stop", True))
        yield Part(0, is_last, (answer, "tokens"), (answer, "content"))
    for choice in answer.get("choices") or []:
        if choice.get("token_ids") is None:
            continue
        index, is_last = int(choice.get("index", 0)), choice.get("finish_reason") is not None
        message = choice.get("message") or choice.get("delta")
        text = (choice, "text") if message is None else (message, "content")
        yield Part(index, is_last, (choice, "token_ids"), text)
