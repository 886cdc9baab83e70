"""Prompts without an answer are named with the line they stand in."""

from dataclasses import replace

from adapters.problem import Place
from orchestrator.gate.evidence import Arm, Trial
from orchestrator.gate.prompt import Prompt
from orchestrator.gate.unanswered import unanswered
from tests.unit.gate_arms import question, trial

WHY = "http://127.0.0.1:1: /completion answered 400: the request exceeds the context"


def prompt(name: str) -> Prompt:
    return Prompt(name, "chat", {"prompt": "x" * 9000}, Place("p.jsonl", int(name[1:]), 1))


def lacking(*names: str) -> Trial:
    """Plain's first arm and the last speculating one lack answers to these prompts."""
    base = trial()
    ids = [f"{suite}/{name}" for name in names for suite in ("greedy", "loaded@2")]
    errors = dict.fromkeys(ids, WHY) | {"tools/of-a-suite-left-out": "no tools"}

    def without(arm: Arm) -> Arm:
        return replace(arm, errors=errors)

    first, second, third, last = base.arms
    arms = (without(first), second, third, without(last))
    return replace(base, questions={name: question(name) for name in ids}, arms=arms)


def test_each_prompt_is_named_once_with_its_arms() -> None:
    assert unanswered(lacking("p2"), [prompt("p1"), prompt("p2")]) == [
        f"prompt 'p2' (p.jsonl:2, 9,000 bytes): no answer in A1, S2: {WHY}"
    ]


def test_many_are_counted() -> None:
    names = [f"p{n}" for n in range(1, 7)]
    found = unanswered(lacking(*names), [prompt(name) for name in names])
    told = [line.partition(",")[0] for line in found[:3]]
    assert told == [f"prompt 'p{n}' (p.jsonl:{n}" for n in (1, 2, 3)]
    assert found[3:] == ["no answer either to some questions of 3 more prompts"]


def test_answers_everywhere_are_no_note() -> None:
    assert unanswered(trial(), [prompt("p1")]) == []
