"""Screens: what is wrong with an answer whatever its tokens should have been. Pure.

Each is told relative to plain: an answer that plain gives as well has nothing wrong with it, and a
small model that loops by itself is no fault of speculation.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import comb
from typing import Final

from adapters.exchange import Generation
from orchestrator.gate.evidence import Arm, Finding, Question

# Chance at which a difference in numbers, prompt by prompt, is called one: 10 prompts of 10.
ALPHA: Final = 0.001
# Share of an answer's token pairs that occurred before in it, from which it is called a loop. Prose
# has 0.1, records in JSON up to 0.4, a cycle of 8 tokens over 96 has 0.9.
LOOP: Final = 0.6
_LEAST_PAIRS: Final = 16
_SPECIAL: Final = re.compile(
    r"<\|[^<>|\s]{1,40}\|>"  # <|im_end|>, <|eot_id|>, <|endoftext|>
    r"|<\uff5c[^<>\uff5c\s]{1,40}\uff5c>"  # the same with wide bars
    r"|</?s>|<(?:bos|eos|pad|unk|mask)>|\[(?:PAD|CLS|SEP|MASK|UNK|EOS|BOS)\]"
    r"|\[/?INST\]|<</?SYS>>|</?(?:start|end)_of_turn>|<unused\d+>|<0x[0-9A-F]{2}>"
)
Property = Callable[[Generation], bool]
_HALF: Final = "�"  # half a character at an answer's end is shown or not, as the stream was cut


def screens(questions: Mapping[str, Question], arm: Arm, plain: Sequence[Arm]) -> list[Finding]:
    """Findings about one speculating arm; questions that plain did not answer are left out."""
    return [*_alone(questions, arm, plain), *_mixes(questions, arm, plain)]


def _alone(questions: Mapping[str, Question], arm: Arm, plain: Sequence[Arm]) -> Iterator[Finding]:
    usual = {found for one in plain for found in _specials_of(one)}
    for question in questions.values():
        answer, references = arm.answers.get(question.id), answers_of(question.id, plain)
        if answer is None or not references or any(is_same(answer, r) for r in references):
            continue
        for check, message in _wrong(question, answer, references, usual):
            yield Finding(check, question.id, question.type, arm.name, message)


def answers_of(question: str, arms: Sequence[Arm]) -> list[Generation]:
    """What these arms answered, without what they did not."""
    found = (arm.answers.get(question) for arm in arms)
    return [answer for answer in found if answer is not None]


def is_same(one: Generation, other: Generation) -> bool:
    """Whether a client could not tell these answers to one question from each other."""
    return one.prompt_ids == other.prompt_ids and _told(one) == _told(other)


def _told(answer: Generation) -> tuple[tuple[int, ...], str, str]:
    return answer.ids, answer.text, answer.finish_reason


def _wrong(
    question: Question, answer: Generation, plain: Sequence[Generation], usual: set[str]
) -> Iterator[tuple[str, str]]:
    """Names of checks and what they found."""
    if _is_empty(question, answer) and not any(_is_empty(question, p) for p in plain):
        yield "empty", f"no text in {len(answer.ids)} tokens, plain has {len(plain[0].ids)}"
    elif equal := [p for p in plain if p.ids == answer.ids]:
        yield from _other_words(answer, equal)
    special = set(_SPECIAL.findall(answer.text)) - usual
    special = {token for token in special if token not in str(question.request)}
    if special:
        yield "special", f"special tokens in the text: {', '.join(sorted(special))}"
    if "response_format" in question.request:
        yield from _no_json(answer, plain)


def _is_empty(question: Question, answer: Generation) -> bool:
    """A call of a tool has tokens, and no text."""
    return not answer.ids or (question.suite != "tools" and not answer.text.strip())


def _other_words(answer: Generation, equal: Sequence[Generation]) -> Iterator[tuple[str, str]]:
    """`equal` are plain's answers of the same tokens."""
    if answer.text.rstrip(_HALF) not in {p.text.rstrip(_HALF) for p in equal}:
        yield "text", "the tokens are plain's, the text made of them is not"
    if answer.finish_reason not in {p.finish_reason for p in equal}:
        told = f"finish_reason is {answer.finish_reason}, plain's {equal[0].finish_reason}"
        yield "finish_reason", f"{told}, although the tokens are the same"


def _no_json(answer: Generation, plain: Sequence[Generation]) -> Iterator[tuple[str, str]]:
    """An answer cut by max_tokens is not judged: it may be a right one in longer words."""
    if answer.finish_reason == "length" or _is_json(answer.text):
        return
    if all(_is_json(p.text) for p in plain):
        yield "json", f"not valid JSON, although plain's is: {answer.text[:60]!r}"


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _specials_of(arm: Arm) -> Iterator[str]:
    for answer in arm.answers.values():
        if answer is not None:
            yield from _SPECIAL.findall(answer.text)


def repeated(ids: Sequence[int]) -> float:
    """Share of the pairs of neighbouring tokens that occurred before in the answer."""
    pairs = list(pairwise(ids))
    return 1 - len(set(pairs)) / len(pairs) if len(pairs) >= _LEAST_PAIRS else 0.0


def _mixes(questions: Mapping[str, Question], arm: Arm, plain: Sequence[Arm]) -> Iterator[Finding]:
    """Properties that many answers have and plain's have not. One answer shows nothing by them: a
    tie that fell the other way may end in a loop, or may end sooner."""
    tests: tuple[tuple[str, Property, str], ...] = (
        ("loop", lambda answer: repeated(answer.ids) >= LOOP, "loops"),
        ("finish_reason", lambda answer: answer.finish_reason == "length", "runs to its limit"),
        ("finish_reason", lambda answer: answer.finish_reason != "length", "ends before its limit"),
    )
    for check, has, words in tests:
        more, fewer = _more_and_fewer(questions, arm, plain, has)
        if _chance(len(more), len(fewer)) < ALPHA:
            message = f"{arm.name} {words} more often than plain on {len(more)} prompts"
            message += f", and less often on {len(fewer)}"
            example = more[0]
            yield Finding(check, example.id, example.type, arm.name, message)


def _more_and_fewer(
    questions: Mapping[str, Question], arm: Arm, plain: Sequence[Arm], has: Property
) -> tuple[list[Question], list[Question]]:
    """A question of each prompt on which the property is seen more often than in any plain arm, or
    less often than in all. Answers to the same prompt are no further samples."""
    balance: Counter[str] = Counter()
    first: dict[str, Question] = {}
    for question in questions.values():
        answer, references = arm.answers.get(question.id), answers_of(question.id, plain)
        if answer is None or not references:
            continue
        seen = [has(reference) for reference in references]
        step = (has(answer) and not any(seen)) - (all(seen) and not has(answer))
        balance[question.prompt] += step
        if step:
            first.setdefault(question.prompt, question)
    more = [first[prompt] for prompt, count in balance.items() if count > 0]
    return more, [first[prompt] for prompt, count in balance.items() if count < 0]


def _chance(more: int, fewer: int) -> float:
    """Chance of so many of them or more, were both as likely (sign test)."""
    count = more + fewer
    return sum(comb(count, k) for k in range(more, count + 1)) * 0.5**count
