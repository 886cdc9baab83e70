"""Request: what goes out for a question, and how. Follow-ups are made from the arm's own answers.

A request may hold gaps, JSON objects that stand for what an earlier answer gives:

    {"answer": id}              in a prompt's list of parts, or as a message's content: its text
    {"middle": id}              as `stop`: some characters from the middle of its text
    {"cycle": [id], "length": n}  as `prompt`: the ids of these questions' prompts, over and over
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import cycle, islice
from typing import Any, Final

from adapters.exchange import Generation, How
from orchestrator.gate.evidence import Question

OWN: Final = "with its own log-probabilities"
ALONE: Final = "greedy"  # what ids of questions begin with that ask a prompt as it stands, alone
# Characters of a stop string: enough to span tokens, so that a verify step may end within it.
_STOP_LENGTH = 6
_WITH_GAPS: Final = frozenset({"prompt", "messages", "stop"})
_REPLACEMENT = "�"  # what stands for half a character

Answers = Mapping[str, Generation | None]


def how(question: Question) -> How:
    """How the question is asked for."""
    return How(
        stream=question.suite == "stream",
        own_margins=question.note == OWN,
        keep_cache=question.suite == "turns",
    )


def asked(question: Question, answers: Answers) -> Mapping[str, Any] | None:
    """The request as it goes out now; None when an answer that it needs is missing.

    An answer whose text gives no stop string leaves the field out: nothing would be tried by it.
    """
    if question.follows is not None and answers.get(question.follows) is None:
        return None
    try:
        filled = {name: _filled(name, value, answers) for name, value in question.request.items()}
    except _Missing:
        return None
    return {name: value for name, value in filled.items() if value is not None}


def with_names(question: Question, names: Mapping[str, str]) -> Question:
    """The question, made from answers to questions that have other ids now."""

    def named(value: Any) -> Any:
        if isinstance(value, list):
            return [named(part) for part in value]
        if not isinstance(value, dict):
            return value
        if value.keys() == {"answer"} or value.keys() == {"middle"}:
            return {gap: names.get(name, name) for gap, name in value.items()}
        if value.keys() == {"cycle", "length"}:
            return {**value, "cycle": [names.get(name, name) for name in value["cycle"]]}
        return value

    def message(value: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**value, "content": named(value["content"])} if "content" in value else value

    fields = {
        name: [message(m) for m in value] if name == "messages" else named(value)
        for name, value in question.request.items()
        if name in _WITH_GAPS
    }
    follows = names.get(question.follows, question.follows) if question.follows else None
    return replace(question, request={**question.request, **fields}, follows=follows)


def stop_string(text: str) -> str | None:
    """Characters from the middle of a text; None where it is too short or no plain text there."""
    start = len(text) // 2
    found = text[start : start + _STOP_LENGTH]
    is_usable = len(text) >= 2 * _STOP_LENGTH and found.strip() and _REPLACEMENT not in found
    return found if is_usable else None


class _Missing(Exception):
    """An answer that a gap needs is not there."""


def _filled(name: str, value: Any, answers: Answers) -> Any:
    if name == "messages":
        return [_message(message, answers) for message in value]
    if name == "stop" and isinstance(value, dict):
        return stop_string(_answer(value["middle"], answers).text)
    if name == "prompt" and isinstance(value, dict):
        return _cycled(value["cycle"], value["length"], answers)
    if name == "prompt" and isinstance(value, list):
        return "".join(_text(part, answers) for part in value)
    return value


def _message(message: Mapping[str, Any], answers: Answers) -> Mapping[str, Any]:
    content = message.get("content")
    if isinstance(content, dict):
        return {**message, "content": _text(content, answers)}
    return message


def _text(part: Any, answers: Answers) -> str:
    return _answer(part["answer"], answers).text if isinstance(part, dict) else str(part)


def _cycled(names: list[str], length: int, answers: Answers) -> list[int]:
    """Raises _Missing too when the engine did not tell the ids of these prompts (negative ones)."""
    prompts = [_answer(name, answers).prompt_ids for name in names]
    ids = [token for prompt in prompts for token in prompt]
    if not ids or min(ids) < 0:
        raise _Missing
    return list(islice(cycle(ids), length))


def _answer(name: str, answers: Answers) -> Generation:
    found = answers.get(name)
    if found is None:
        raise _Missing
    return found
