"""Plans of several candidates on one plain arm: equal ids ask the same."""

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.exchange import Generation
from orchestrator.gate.evidence import SUITES, Question
from orchestrator.gate.prompt import Prompt
from orchestrator.gate.request import asked, with_names
from orchestrator.gate.run import Plan, agreed
from orchestrator.gate.suite import SuiteSettings, questions

CHAT = [{"role": "user", "content": "hi"}]
PROMPTS = (
    Prompt("a", "code", {"prompt": "x" * 9, "max_tokens": 40}),
    Prompt("b", "chat", {"messages": CHAT, "max_tokens": 24}),
    Prompt("c", "code", {"prompt": "xyz", "max_tokens": 40, "min_p": 0.1}),
    Prompt("d", "rag", {"prompt": "y" * 30, "max_tokens": 12, "seed": 1}),
    Prompt("e", "rag", {"prompt": "z", "response_format": {"type": "json_object"}}),
)
FIELDS = ("min_p", "seed", "frequency_penalty", "logprobs", "response_format", "tools")


def plan(gamma: int = 4, refused: frozenset[str] = frozenset(), **changes: Any) -> Plan:
    usual: dict[str, Any] = {"levels": (2, 4), "context": 512}
    fields = dict.fromkeys(sorted(refused), "not while speculating")
    wanted = SuiteSettings(frozenset(SUITES), **(usual | changes), gamma=gamma, refused=fields)
    made, suites = questions(PROMPTS, wanted)
    return Plan({question.id: question for question in made}, suites, gamma)


def as_sent(plan: Plan) -> list[Any]:
    """What an engine gets, question by question, when each answer depends on the request alone."""
    answers: dict[str, Generation | None] = {}
    sent = []
    for name, question in plan.questions.items():
        request = asked(question, answers)
        sent.append(request)
        answers[name] = Generation((1, 2, 3), (5, 6), f"text of {request} in some words", "stop")
    return sent


plans = st.builds(plan, st.integers(1, 12), st.frozensets(st.sampled_from(FIELDS), max_size=3))


@settings(max_examples=30, deadline=None, derandomize=True, database=None)
@given(st.lists(plans, min_size=1, max_size=4))
def test_equal_ids_ask_the_same_and_nothing_else_changes(before: list[Plan]) -> None:
    known: dict[str, Question] = {}
    for made, was in zip(agreed(before), before, strict=True):
        assert all(known.setdefault(name, q) == q for name, q in made.questions.items())
        assert all(name == question.id for name, question in made.questions.items())
        assert as_sent(made) == as_sent(was)
        plain = [replace(q, id="", request={}, follows=None) for q in made.questions.values()]
        assert plain == [
            replace(q, id="", request={}, follows=None) for q in was.questions.values()
        ]


def test_prompts_as_long_as_the_context_differ_with_gamma() -> None:
    """One plain arm for gamma 6, 4 and 3: plain's answer was to a prompt of another length."""
    first, second, again = agreed([plan(6), plan(4), plan(6)])
    assert first == again == plan(6)
    name = next(name for name in first.questions if name.startswith("long/"))
    assert name not in second.questions
    assert second.questions[f"{name}~2"].request["prompt"]["length"] == 512 - 32 - 5


def test_what_is_asked_alike_keeps_one_id() -> None:
    first, second = agreed([plan(6), plan(4)])
    different = {name for name, q in second.questions.items() if first.questions.get(name) != q}
    assert {name.partition("/")[0] for name in different} == {"long", "limits-4", "limits-5"}


def test_names_are_changed_wherever_an_answer_is_needed() -> None:
    names = {"a": "a~2"}
    talk = [{"role": "assistant", "content": {"answer": "a"}}, {"role": "user", "content": "a"}]
    request = {"messages": talk, "stop": {"middle": "a"}, "max_tokens": 3}
    changed = with_names(Question("q", "p", "t", "turns", request, follows="a"), names)
    assert changed.follows == "a~2"
    assert changed.request["messages"][0]["content"] == {"answer": "a~2"}
    assert changed.request["messages"][1]["content"] == "a"
    assert changed.request["stop"] == {"middle": "a~2"}
    cycle = {"prompt": {"cycle": ["a", "b"], "length": 9}}
    changed = with_names(Question("q", "p", "t", "long", cycle), names)
    assert changed.request == {"prompt": {"cycle": ["a~2", "b"], "length": 9}}
    parts = {"prompt": ["a", {"answer": "a"}, "b"]}
    changed = with_names(Question("q", "p", "t", "turns", parts), names)
    assert changed.request == {"prompt": ["a", {"answer": "a~2"}, "b"]}


def test_a_field_of_the_users_own_that_looks_like_a_gap_is_left_alone() -> None:
    schema = {"response_format": {"type": "json_object", "json_schema": {"answer": "a"}}}
    question = Question("q", "p", "t", "json", schema)
    assert with_names(question, {"a": "a~2"}) == question
