"""A healthy engine in memory, for the gate's checks: answers to every question of some prompts."""

from collections.abc import Mapping

from adapters.exchange import Generation
from orchestrator.gate.evidence import Arm, Question
from orchestrator.gate.prompt import Prompt
from orchestrator.gate.request import asked

SUITE_PROMPTS = [
    Prompt(f"{kind}-{n}", kind, {"prompt": f"{kind} {n} of the prompts", "max_tokens": 48})
    for kind in ("chat", "code", "rag")
    for n in range(8)
]
_WORDS = ("the", "fox", "dog", "tree", "house", "runs", "sleeps", "over", "under", "quick", "old")


def answered(name: str, questions: Mapping[str, Question], shift: int = 0) -> Arm:
    """An arm whose answers follow from the request alone; `shift` makes it another engine."""
    answers: dict[str, Generation | None] = {}
    for question in questions.values():
        request = asked(question, answers)
        answers[question.id] = None if request is None else _answer(request, shift)
    return Arm(name, answers)


def _answer(request: Mapping[str, object], shift: int) -> Generation:
    fields = ("max_tokens", "stop", "stream")
    key = "".join(f"{name}{value}" for name, value in request.items() if name not in fields)
    seed = sum(key.encode()) + shift
    ids = tuple((seed * (n + 3) + n * n) % 997 for n in range(int(str(request["max_tokens"]))))
    text, finish = "".join(_word(token) for token in ids), "length"
    stop = request.get("stop")
    if isinstance(stop, str) and stop in text:
        text, finish = text.partition(stop)[0], "stop"
        count = next(n for n in range(len(ids)) if len("".join(map(_word, ids[:n]))) > len(text))
        ids = ids[:count]
    return Generation(tuple(key.encode()), ids, text, finish)


def _word(token: int) -> str:
    return f" {_WORDS[token % len(_WORDS)]}{token}"
