"""Comparing arms token by token. Pure: "could not compare" is never "equal".

Arms (design of the gate; the science and its sources are in docs/gate.md): A1 and A2 are the plain
engine twice, S1 and S2 the speculating engine twice, with the same questions in the same order.
All plain answers to one request make a tree; a speculating answer that stays inside it differs in
nothing from what plain itself does.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from adapters.exchange import Generation
from orchestrator.gate.evidence import END, Arm, Divergence, Question

A_A = "A/A"


@dataclass(frozen=True)
class Compared:
    """Where answers left plain. `noise` is plain against itself; `tokens` are those compared.

    `tokens_of` has them by question, once and not once an arm: the arms answer the same questions,
    so that a second one is no further sample.
    """

    divergences: tuple[Divergence, ...]
    noise: tuple[Divergence, ...]
    tokens_of: Mapping[str, int]
    noise_tokens: int

    @property
    def tokens(self) -> int:
        return sum(self.tokens_of.values())


def first_divergence(expected: Sequence[int], found: Sequence[int]) -> int | None:
    """The first position at which two answers differ, a difference in length included."""
    for position, (one, other) in enumerate(zip(expected, found, strict=False)):
        if one != other:
            return position
    return None if len(expected) == len(found) else min(len(expected), len(found))


def compare(
    questions: Mapping[str, Question], plain: Sequence[Arm], speculating: Sequence[Arm]
) -> Compared:
    """Every speculating answer against the tree of plain ones, and plain against itself."""
    trees = _Trees(questions, plain)
    found = [d for arm in speculating for d in _of_arm(questions, trees, plain[0], arm)]
    noise = [d for arm in plain[1:] for d in _noise(questions, plain[0], arm)]
    noise += _noise_of_load(questions, plain[0])
    return Compared(
        tuple(_merged(found)),
        tuple(_merged(noise)),
        {q: _tokens(q, plain[0], speculating) for q in questions},
        sum(_common(plain[0], arm, q) for arm in plain[1:] for q in questions),
    )


class _Trees:
    """All plain answers to the same request, of both arms and at every concurrency."""

    def __init__(self, questions: Mapping[str, Question], plain: Sequence[Arm]):
        self._answers: dict[str, list[Generation]] = {}
        self._keys = {name: _key(question) for name, question in questions.items()}
        for arm in plain:
            for name, key in self._keys.items():
                answer = arm.answers.get(name)
                if answer is not None:
                    self._answers.setdefault(key, []).append(answer)

    def answers(self, question: str, prompt_ids: Sequence[int]) -> list[tuple[int, ...]]:
        """Token ids of the plain answers to the same request and the same prompt."""
        found = self._answers.get(self._keys[question], [])
        return [a.ids for a in found if tuple(a.prompt_ids) == tuple(prompt_ids)]


def _key(question: Question) -> str:
    """Equal for questions that ask the same; what a follow-up asks is known from its id alone."""
    if question.follows is not None:
        return question.id
    return json.dumps(question.request, sort_keys=True)


def _of_arm(
    questions: Mapping[str, Question], trees: _Trees, first: Arm, arm: Arm
) -> Iterator[Divergence]:
    for name, question in questions.items():
        one, other = first.answers.get(name), arm.answers.get(name)
        if one is None or other is None:
            continue
        if one.prompt_ids != other.prompt_ids:
            if not _follows_a_fork(questions, question, first, arm):
                yield _divergence(question, arm, -1, len(one.prompt_ids), len(other.prompt_ids))
            continue
        tree = [one.ids, *trees.answers(name, one.prompt_ids)]
        yield from _leaving(question, arm, tree, other.ids)


def _follows_a_fork(
    questions: Mapping[str, Question], question: Question, first: Arm, arm: Arm
) -> bool:
    """Whether a prompt differs only because it was made of an answer that differs already."""
    before = question.follows
    while before is not None:
        one, other = first.answers.get(before), arm.answers.get(before)
        if one is None or other is None or (one.ids, one.text) != (other.ids, other.text):
            return True
        before = questions[before].follows
    return False


def _leaving(
    question: Question, arm: Arm, tree: list[tuple[int, ...]], ids: tuple[int, ...]
) -> Iterator[Divergence]:
    """Where an answer leaves the branch it is on: to another one ("A/A"), or out of the tree."""
    branches = tree
    for position in range(max(len(ids), *(len(branch) for branch in tree)) + 1):
        token, expected = _at(ids, position), _at(branches[0], position)
        left = [branch for branch in branches if _at(branch, position) == token]
        if token != expected:
            explained = (A_A,) if left else ()
            found = _divergence(question, arm, position, expected, token)
            yield replace(found, explained=explained)
        if not left or token == END:
            return
        branches = left


def _divergence(
    question: Question, arm: Arm, position: int, expected: int, found: int
) -> Divergence:
    return Divergence(
        question=question.id,
        prompt=question.prompt,
        type=question.type,
        suite=question.suite,
        concurrency=question.concurrency,
        arms=(arm.name,),
        position=position,
        expected=expected,
        found=found,
    )


def _noise(questions: Mapping[str, Question], first: Arm, arm: Arm) -> Iterator[Divergence]:
    """Where a further plain arm leaves the first."""
    for name, question in questions.items():
        one, other = first.answers.get(name), arm.answers.get(name)
        if one is None or other is None or one.prompt_ids != other.prompt_ids:
            continue
        position = first_divergence(one.ids, other.ids)
        if position is not None:
            expected, found = _at(one.ids, position), _at(other.ids, position)
            yield _divergence(question, arm, position, expected, found)


def _noise_of_load(questions: Mapping[str, Question], arm: Arm) -> Iterator[Divergence]:
    """Where the same arm answers the same request otherwise among other requests."""
    alone: dict[str, Generation] = {}
    for name, question in questions.items():
        answer, key = arm.answers.get(name), _key(question)
        if answer is None:
            continue
        if question.concurrency == 1:
            alone.setdefault(key, answer)
        elif key in alone and alone[key].prompt_ids == answer.prompt_ids:
            expected = alone[key].ids
            position = first_divergence(expected, answer.ids)
            if position is not None:
                pair = _at(expected, position), _at(answer.ids, position)
                yield _divergence(question, arm, position, *pair)


def _merged(divergences: Sequence[Divergence]) -> Iterator[Divergence]:
    """Each place once, with the names of the arms that took it."""
    places: dict[tuple[str, int, int, int], Divergence] = {}
    for d in divergences:
        place = (d.question, d.position, d.expected, d.found)
        known = places.get(place)
        places[place] = replace(known, arms=(*known.arms, *d.arms)) if known else d
    yield from places.values()


def _at(ids: Sequence[int], position: int) -> int:
    return ids[position] if position < len(ids) else END


def _tokens(question: str, first: Arm, arms: Sequence[Arm]) -> int:
    return min((_common(first, arm, question) for arm in arms), default=0)


def _common(first: Arm, arm: Arm, question: str) -> int:
    """Tokens of the shorter of two answers to the same prompt."""
    one, other = first.answers.get(question), arm.answers.get(question)
    if one is None or other is None or one.prompt_ids != other.prompt_ids:
        return 0
    return min(len(one.ids), len(other.ids))
