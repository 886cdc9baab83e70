"""Whether the ids that a draft guesses mean the same text to its target.

Guesses are ids (arXiv 2211.17192 assumes one vocabulary). Engines compare sizes or nothing: gemma-2
with starcoder went unnoticed (sgl-project/sglang #23838), two tokenizers of one size still do in
vLLM 0.32.0. The target verifies every guess, so that the output is its own in any case; where no
more than special or added tokens have other names, a few guesses are lost and nothing else.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from adapters.checkpoint import Checkpoint, Vocabulary
from adapters.fit.pair import Pair
from adapters.problem import Problem
from adapters.profile import DraftModel

_CODE: Final = "vocabulary-mismatch"
# Engines that go on without a draft model as soon as one token has another text, by the first id
# that they compare (common_speculative_are_compatible in llama.cpp common/speculative.cpp, b11549).
_EXACT_FROM: Final = {"llama_cpp": 5}
# The one that can translate between vocabularies (use_heterogeneous_vocab in 0.32.0).
_TRANSLATING: Final = ("vllm", None)
_MOST_SHOWN = 3


@dataclass(frozen=True)
class _Sides:
    """Both vocabularies; `rows` are the ids that the draft's embedding has."""

    draft: Vocabulary
    target: Vocabulary
    rows: int

    def differing(self) -> list[int]:
        """Ids that one side leaves empty do not count: no text comes of them."""
        ours, theirs = self.draft.tokens, self.target.tokens
        shorter = min(len(ours), len(theirs))
        if ours[:shorter] == theirs[:shorter]:
            return []
        pairs = enumerate(zip(ours, theirs, strict=False))
        return [i for i, (a, b) in pairs if a != b and a is not None and b is not None]

    def beyond(self) -> list[int]:
        """The target's ids behind the draft's embedding."""
        tokens = self.target.tokens[self.rows :]
        return [i for i, token in enumerate(tokens, self.rows) if token is not None]

    def is_extra(self, index: int) -> bool:
        """Neither side learnt it as an ordinary token."""
        return all(index in side.special or index in side.added for side in self._both)

    def is_avoidable(self, index: int) -> bool:
        """A control token that texts need not hold, such as the place of an image."""
        target = self.target
        return index in target.special and index not in (target.bos, target.eos)

    def shown(self, ids: Sequence[int]) -> str:
        ours, theirs = self.draft.tokens, self.target.tokens
        parts = [
            f"id {i} is {_shown(ours[i])} for it and {_shown(theirs[i])} for the target"
            for i in ids[:_MOST_SHOWN]
        ]
        return "; ".join(parts)

    @property
    def _both(self) -> tuple[Vocabulary, Vocabulary]:
        return self.draft, self.target


def vocabulary_problems(pair: Pair) -> Iterator[Problem]:
    """Token by token where both tokenizers are known, else by size; other texts, then more ids."""
    draft, target = pair.draft, pair.target
    is_translated = isinstance(pair.spec, DraftModel) and pair.spec.other_vocabulary
    if draft is None or target is None or is_translated:
        return
    if draft.vocabulary and target.vocabulary:
        rows = max(draft.vocabulary_size or 0, len(draft.vocabulary.tokens))
        sides = _Sides(draft.vocabulary, target.vocabulary, rows)
        problems = [*_differences(pair, sides), *_rows(pair, sides)]
        fatal = [problem for problem in problems if problem.is_fatal]
        yield from fatal[:1] or problems
    elif isinstance(pair.spec, DraftModel):
        yield from _sizes(pair, draft, target)


def _differences(pair: Pair, sides: _Sides) -> Iterator[Problem]:
    ids = sides.differing()
    ordinary = [index for index in ids if not sides.is_extra(index)]
    first = _EXACT_FROM.get(pair.engine or "") if isinstance(pair.spec, DraftModel) else None
    compared = [] if first is None else [index for index in ids if index >= first]
    sizes = f"(it has {len(sides.draft.tokens)} tokens, the target {len(sides.target.tokens)})"
    count = f"{len(ids)} of {min(len(sides.draft.tokens), len(sides.target.tokens))} ids differ"
    if ordinary:
        yield _mismatch(pair, f"{sides.shown(ordinary[:1])}, {count} {sizes}")
    elif compared:
        message = (
            f"{_named(pair)} has other special tokens than the target, and the engine compares "
            f"them and would serve without speculation: {sides.shown(compared)}; {count}"
        )
        hint = "use a draft whose file has the target's own tokens"
        yield Problem(pair.draft_path, message, hint, code=_CODE)
    elif ids:
        message = (
            f"{_named(pair)} has other special tokens than the target: {sides.shown(ids)}; "
            f"{count}, none of them an ordinary token"
        )
        hint = (
            "expect fewer accepted guesses next to these tokens (what is written stays the "
            "target's), or use a draft of the very same family"
        )
        yield Problem(pair.draft_path, message, hint, "warning", _CODE)


def _rows(pair: Pair, sides: _Sides) -> Iterator[Problem]:
    """The draft is given what the target reads and writes: ids behind its embedding are out of
    bounds. Gemma's places of images come last (id 262144), where models without images have no
    row."""
    ids = sides.beyond()
    if not ids:
        return
    read = [index for index in ids if not sides.is_avoidable(index)]
    shown = _shown(sides.target.tokens[(read or ids)[0]])
    where = f"is beyond its {sides.rows} tokens (the target has {len(sides.target.tokens)})"
    if read:
        yield _mismatch(pair, f"the target's id {read[0]}, {shown}, {where}")
        return
    more = f", and {len(ids) - 1} more special tokens," if len(ids) > 1 else ""
    message = f"{_named(pair)} cannot read the target's special token {shown}{more}: id {ids[0]} "
    hint = "send no prompts with it to this worker (images need it), or use a draft that has it"
    yield Problem(pair.draft_path, message + where, hint, "warning", _CODE)


def _sizes(pair: Pair, draft: Checkpoint, target: Checkpoint) -> Iterator[Problem]:
    ours, theirs = draft.vocabulary_size, target.vocabulary_size
    if ours is not None and theirs is not None and ours != theirs:
        yield _mismatch(pair, f"{ours} tokens, the target {theirs}")


def _mismatch(pair: Pair, difference: str) -> Problem:
    message = f"{_named(pair)} has another vocabulary than the target: {difference}"
    return Problem(pair.draft_path, message, _other_draft(pair), code=_CODE)


def _named(pair: Pair) -> str:
    return f"draft {pair.name!r}"


def _other_draft(pair: Pair) -> str:
    if not isinstance(pair.spec, DraftModel):
        return "use a head that was trained for this target"
    more = ", or write other_vocabulary: true for an engine that translates"
    hint = "use a draft of the target's family"
    return hint + more if pair.engine in _TRANSLATING else hint


def _shown(token: str | None) -> str:
    text = repr(token)
    return text if len(text) <= 40 else f"{text[:37]}…'"
