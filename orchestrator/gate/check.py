"""Check: what answers of one arm must be to each other, whatever the right tokens are. Pure.

Which tokens an answer has is not judged here: every question goes to plain too, and compare.py
weighs each token that differs. Drafts may differ between two askings of one prompt (pools of
n-grams grow), so that a tie may fall another way between an answer and its own repetition.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from adapters.exchange import Generation
from orchestrator.gate.evidence import Arm, Finding, Question
from orchestrator.gate.request import ALONE, OWN, stop_string
from orchestrator.gate.screen import answers_of, is_same

# Nats by which a token may be below the best by the engine's own log-probabilities: rounding of
# decimals. A tie has 0.
TOLERANCE: Final = 1e-3
_POSITIVE, _NEGATIVE = "penalties-positive/", "penalties-negative/"

Rule = Callable[[Question, Generation, Generation | None], Iterator[str]]


def check(questions: Mapping[str, Question], arm: Arm, plain: Sequence[Arm]) -> list[Finding]:
    """Findings about one speculating arm.

    An answer that plain gives in the same way has none: what both do is the engine's convention.
    """
    found: list[Finding] = []
    for question in questions.values():
        answer = arm.answers.get(question.id)
        if answer is None or any(is_same(answer, p) for p in answers_of(question.id, plain)):
            continue
        whole = arm.answers.get(f"{ALONE}/{question.prompt}")
        for name, rule in _RULES.items():
            messages = rule(question, answer, whole)
            found += [Finding(name, question.id, question.type, arm.name, m) for m in messages]
    found += _own_argmax(questions, arm, plain)
    found += _penalties(questions, arm, plain)
    return found


def _max_tokens(question: Question, answer: Generation, whole: Generation | None) -> Iterator[str]:
    """`whole` is the same arm's answer to the prompt as it stands."""
    request, count = question.request, len(answer.ids)
    limit = request.get("max_completion_tokens") or request.get("max_tokens") or count
    if count > limit:
        yield f"{count} tokens, although at most {limit} were asked for"
    if question.suite != "limits" or whole is None or "stop" in request:
        return
    if answer.ids != whole.ids[:count]:
        return
    if count < min(limit, len(whole.ids)):
        yield f"{count} tokens instead of {limit}, although the answer goes on without the limit"
    elif count < len(whole.ids) and answer.finish_reason != "length":
        yield f"finish_reason is {answer.finish_reason} of an answer cut by its limit"


def _stop(question: Question, answer: Generation, whole: Generation | None) -> Iterator[str]:
    """A stop string is not part of the text, and nothing behind it is."""
    gap = question.request.get("stop")
    stop = stop_string(whole.text) if whole and isinstance(gap, dict) else None
    if whole is None or stop is None:
        return
    if stop in answer.text:
        yield f"the text goes on past the stop string {stop!r}"
    elif answer.ids == whole.ids[: len(answer.ids)]:
        yield from _cut(answer, whole.text.partition(stop)[0], stop)


def _cut(answer: Generation, expected: str, stop: str) -> Iterator[str]:
    if answer.text != expected:
        found = f"ends in {answer.text[-20:]!r} instead of {expected[-20:]!r}"
        yield f"the text before the stop string {stop!r} {found}"
    elif answer.finish_reason != "stop":
        yield f"finish_reason is {answer.finish_reason} of an answer that a stop string ended"


def _stream(question: Question, answer: Generation, whole: Generation | None) -> Iterator[str]:
    """Of the same tokens a stream makes the same text, and it ends for the same reason."""
    if question.suite != "stream" or whole is None or answer.ids != whole.ids:
        return
    if answer.text != whole.text:
        yield "streamed, the same tokens make another text"
    if answer.finish_reason != whole.finish_reason:
        found = f"{answer.finish_reason}, unstreamed {whole.finish_reason}"
        yield f"streamed, finish_reason is {found}"


_RULES: Final[Mapping[str, Rule]] = {"max_tokens": _max_tokens, "stop": _stop, "stream": _stream}


def _own_argmax(
    questions: Mapping[str, Question], arm: Arm, plain: Sequence[Arm]
) -> Iterator[Finding]:
    """At temperature 0 each token is the best by the engine's own log-probabilities."""
    for question in questions.values():
        answer, references = arm.answers.get(question.id), answers_of(question.id, plain)
        if question.note != OWN or answer is None:
            continue
        below = _below(answer)
        if below and not any(_below(p) or is_same(p, answer) for p in references):
            first, margin = below[0]
            what = f"{len(below)} of {len(answer.ids)} tokens are not the best"
            message = f"{what} by the engine's own log-probabilities, the first at token {first}"
            message += f" ({margin:.3g} nats below)"
            yield Finding("own-argmax", question.id, question.type, arm.name, message)


def _below(answer: Generation) -> list[tuple[int, float]]:
    """Positions and margins of tokens that are not the best. A margin that is no number is not."""
    margins = enumerate(answer.own_margins or ())
    return [(index, margin) for index, margin in margins if not margin <= TOLERANCE]


def _penalties(
    questions: Mapping[str, Question], arm: Arm, plain: Sequence[Arm]
) -> Iterator[Finding]:
    """Penalties of opposite sign that make the same text are ignored (docs/gate-suites.md)."""
    for name, question in questions.items():
        if not name.startswith(_POSITIVE):
            continue
        other = _NEGATIVE + name.removeprefix(_POSITIVE)
        differ = [d for one in plain if (d := _differ(one, name, other)) is not None]
        if differ and all(differ) and _differ(arm, name, other) is False:
            message = "penalties of opposite sign give the same answer, and two answers in plain"
            yield Finding("penalties", name, question.type, arm.name, message)


def _differ(arm: Arm, one: str, other: str) -> bool | None:
    """None where an answer is missing."""
    first, second = arm.answers.get(one), arm.answers.get(other)
    return None if first is None or second is None else first.ids != second.ids
