"""Suites: what an arm is asked, and what is left out with a reason."""

from collections import Counter
from typing import Any

import pytest

from orchestrator.gate.evidence import SUITES, Question
from orchestrator.gate.prompt import Prompt
from orchestrator.gate.request import OWN
from orchestrator.gate.suite import LONGEST, NOT_ASKED, RAN, SuiteSettings, questions

TYPES = ("chat", "code", "maths", "rag")
ALL = frozenset(SUITES)
FORMAT = {"type": "json_object"}
TOOLS = [{"type": "function", "function": {"name": "f"}}]


def prompt(name: str, kind: str = "t", **request: Any) -> Prompt:
    if "messages" not in request:
        request.setdefault("prompt", f"text of {name}")
    return Prompt(name, kind, {"max_tokens": 96, **request})


def chat(name: str, **request: Any) -> Prompt:
    return prompt(name, "chat", messages=[{"role": "user", "content": "hi"}], **request)


def many() -> list[Prompt]:
    """36 of four types, each with text of another length; the last is a chat."""
    made = [prompt(f"{kind}-{n}", kind, prompt="x" * (n + 1)) for kind in TYPES for n in range(9)]
    return [*made[:-1], chat("rag-8")]


def settings(**changes: Any) -> SuiteSettings:
    usual: dict[str, Any] = {"levels": (2, 4), "context": 512, "gamma": 4, "refused": {}}
    return SuiteSettings(**{"suites": ALL, **usual, **changes})


def of(suite: str, prompts: list[Prompt], **changes: Any) -> list[Question]:
    return [q for q in questions(prompts, settings(**changes))[0] if q.suite == suite]


def said(prompts: list[Prompt], **changes: Any) -> dict[str, str]:
    return questions(prompts, settings(**changes))[1]


def test_every_suite_runs_and_ids_are_unique() -> None:
    asked, suites = questions(many(), settings())
    assert set(suites) == ALL - {"sampled"}
    assert set(suites.values()) == {RAN}
    assert {question.suite for question in asked} == set(suites)
    assert max(Counter(question.id for question in asked).values()) == 1
    assert questions(many(), settings())[0] == asked


def test_what_is_made_from_an_answer_stands_behind_it() -> None:
    seen: set[str] = set()
    for question in questions(many(), settings())[0]:
        assert question.follows is None or question.follows in seen
        seen.add(question.id)


def test_features_cost_less_than_the_prompts_alone() -> None:
    asked = questions(many(), settings())[0]
    cost = Counter[str]()
    for question in asked:
        cost["prompts" if question.id.startswith("greedy/") else question.suite] += int(
            question.request["max_tokens"]
        )
    alone = cost.pop("prompts")
    assert alone == 36 * 96
    del cost["loaded"]
    assert cost.total() < alone * 0.6


def test_each_prompt_is_asked_alone() -> None:
    asked = [q for q in of("greedy", many()) if q.note != OWN]
    assert [q.id for q in asked] == [f"greedy/{p.id}" for p in many()]
    assert [q.request for q in asked] == [p.request for p in many()]
    assert {(q.concurrency, q.follows) for q in asked} == {(1, None)}


def test_own_log_probabilities_are_asked_for_where_the_engine_gives_them() -> None:
    own = [q for q in of("greedy", many()) if q.note == OWN]
    assert [q.id for q in own] == ["greedy-own/chat-0", "greedy-own/code-0", "greedy-own/rag-8"]
    refused = of("greedy", many(), refused={"logprobs": "hangs"})
    assert [q for q in refused if q.note == OWN] == []


def test_fields_that_change_the_choice_leave_nothing_to_see_in_log_probabilities() -> None:
    asked = of("greedy", [prompt("a", logit_bias={"5": 10}), prompt("b", "other")])
    assert [q.id for q in asked] == ["greedy/a", "greedy/b"]


@pytest.mark.parametrize("level", [2, 4, 16])
def test_load_is_kept_up_by_enough_questions(level: int) -> None:
    few = many()[:6]
    asked = of("loaded", few, levels=(level,))
    assert {q.concurrency for q in asked} == {level}
    assert len(asked) == max(len(few), 2 * level)
    assert {q.prompt for q in asked} == {p.id for p in few}
    assert of("loaded", few, levels=(2, level))[: max(len(few), 4)] == of(
        "loaded", few, levels=(2,)
    )


def test_answers_under_load_end_one_after_another() -> None:
    asked = of("loaded", many(), levels=(4,))
    assert [q.request["max_tokens"] for q in asked][:6] == [24, 48, 72, 96, 96, 96]
    assert of("loaded", [prompt("a", max_tokens=1)], levels=(4,))[0].request["max_tokens"] == 1


def test_long_prompts_alternate_with_short_ones() -> None:
    prompts = [prompt(f"p{n}", prompt="x" * n) for n in (3, 50, 1, 70, 20)]
    asked = of("loaded", prompts, levels=(2,))
    assert [q.prompt for q in asked] == ["p70", "p1", "p50", "p3", "p20"]


def test_conversations_grow_by_their_own_answers() -> None:
    one, two, three = of("turns", [prompt("a", prompt="text")])
    assert (one.id, one.follows, one.request["prompt"]) == ("turns-1/a", None, "text")
    assert (two.follows, three.follows) == ("turns-1/a", "turns-2/a")
    parts = three.request["prompt"]
    assert two.request["prompt"] == parts[:3]
    assert [part for part in parts if isinstance(part, dict)] == [
        {"answer": "turns-1/a"},
        {"answer": "turns-2/a"},
    ]


def test_conversations_are_short_ones_that_fit_the_context() -> None:
    prompts = [prompt("long", prompt="x" * 300), prompt("short", prompt="x" * 40)]
    assert [q.prompt for q in of("turns", prompts)] == ["short"] * 3
    assert [q.prompt for q in of("turns", prompts, context=None)] == ["short"] * 3
    assert of("turns", prompts[:1], context=None)
    reason = said(prompts[:1], context=512)["turns"]
    assert reason == "no prompt is sure to leave room for three turns in 512 tokens"


def test_chats_grow_by_messages() -> None:
    *_, three = of("turns", [chat("a")])
    messages = three.request["messages"]
    roles = [message["role"] for message in messages]
    assert roles == ["user", "assistant", "user", "assistant", "user"]
    assert messages[3]["content"] == {"answer": "turns-2/a"}


def test_a_long_prompt_leaves_room_for_its_answer_and_one_step() -> None:
    (question,) = of("long", many(), context=512, gamma=4)
    length = question.request["prompt"]["length"]
    assert length + question.request["max_tokens"] == 512 - 5
    (question,) = of("long", many(), context=512, gamma=40)
    assert question.request["max_tokens"] == 82, "a verify step and more"


@pytest.mark.parametrize(
    ("context", "reason"),
    [(None, "does not tell"), (LONGEST + 1, "is longer than"), (69, "is too short")],
)
def test_no_long_prompt(context: int | None, reason: str) -> None:
    short = [prompt("a", max_tokens=60)]
    assert reason in said(short, context=context)["long"]
    assert of("long", short, context=context) == []


@pytest.mark.parametrize(
    ("gamma", "counts"), [(4, [1, 2, 4, 5, 6]), (1, [1, 2, 3]), (2, [1, 2, 3, 4])]
)
def test_answers_are_cut_around_a_verify_step(gamma: int, counts: list[int]) -> None:
    asked = of("limits", [prompt("a")], gamma=gamma)
    assert [q.request["max_tokens"] for q in asked[:-1]] == counts
    assert asked[-1].request["stop"] == {"middle": "greedy/a"}
    assert asked[-1].follows == "greedy/a"


def test_a_prompt_keeps_its_own_stop_strings() -> None:
    asked = of("limits", [prompt("a", stop=["."])])
    assert [q.id for q in asked if "stop" in q.id] == []


def test_the_newer_name_of_the_limit_is_set_as_well() -> None:
    asked = of("limits", [chat("a", max_completion_tokens=50)], gamma=1)
    assert {q.request["max_tokens"] for q in asked[:3]} == {1, 2, 3}
    assert all(q.request["max_completion_tokens"] == q.request["max_tokens"] for q in asked[:3])
    one = of("turns", [chat("a", max_completion_tokens=20)])[0].request
    assert (one["max_tokens"], one["max_completion_tokens"]) == (20, 20)


def test_streams_repeat_what_was_asked_alone() -> None:
    asked = {q.id: q for q in questions(many(), settings())[0]}
    streams = [q for q in asked.values() if q.suite == "stream"]
    assert len(streams) == 3
    assert all(q.request == asked[f"greedy/{q.prompt}"].request for q in streams)


def test_penalties_of_opposite_sign() -> None:
    up, down = of("penalties", [prompt("a")])
    for field in ("frequency_penalty", "presence_penalty"):
        assert 1.5 <= up.request[field] <= 2
        assert down.request[field] == -up.request[field]
    (up, _) = of("penalties", [prompt("a")], refused={"presence_penalty": "late"})
    assert "presence_penalty" not in up.request


def test_formats_of_the_prompts_win_over_ours() -> None:
    given = [*many(), prompt("j", response_format=FORMAT), prompt("k", response_format=FORMAT)]
    assert [q.id for q in of("json", given)] == ["json/j", "json/k", "json@2/j", "json@2/k"]
    assert [q.concurrency for q in of("json", given)] == [1, 1, 2, 2]
    assert [q.id for q in of("json", given[:-1])] == ["json/j"], "one prompt is never together"
    ours = of("json", many(), levels=())
    assert [q.prompt for q in ours] == ["code-0", "rag-8"]
    assert all(q.request["response_format"]["type"] == "json_schema" for q in ours)


def test_tools_of_the_prompts_win_over_ours() -> None:
    given = [*many(), chat("w", tools=TOOLS)]
    assert [q.id for q in of("tools", given)] == ["tools/w"]
    (ours,) = of("tools", many())
    assert ours.request["tool_choice"] == "required"
    assert said([prompt("a")])["tools"] == "no prompt has messages"


def test_structured_prompts_stay_in_their_suites() -> None:
    prompts = [prompt("a"), prompt("j", response_format=FORMAT), chat("w", tools=TOOLS)]
    asked = questions(prompts, settings())[0]
    assert {q.suite for q in asked if q.prompt == "j"} == {"json"}
    assert {q.suite for q in asked if q.prompt == "w"} == {"tools"}


def test_only_structured_prompts() -> None:
    found = said([prompt("j", response_format=FORMAT)])
    assert {name for name, word in found.items() if word == RAN} == {"json"}


@pytest.mark.parametrize(
    ("field", "suite"),
    [("response_format", "json"), ("tools", "tools"), ("tool_choice", "tools")],
)
def test_what_the_engine_refuses_is_not_asked(field: str, suite: str) -> None:
    prompts = [*many(), chat("w", tools=TOOLS, response_format=FORMAT)]
    asked, suites = questions(prompts, settings(refused={field: "it hangs"}))
    assert suites[suite] == "it hangs"
    assert not any(field in q.request for q in asked)


def test_refused_penalties_are_not_asked() -> None:
    late = {"frequency_penalty": "late", "presence_penalty": "late"}
    assert said(many(), refused=late)["penalties"] == "late"


def test_prompts_with_refused_fields_are_left_out_and_named() -> None:
    prompts = [prompt("a"), prompt("b", min_p=0.1), prompt("c", min_p=0.2)]
    asked, suites = questions(prompts, settings(refused={"min_p": "answers 400"}))
    assert {q.prompt for q in asked} == {"a"}
    assert suites["prompts with min_p"] == "answers 400 (b, c)"
    assert suites["greedy"] == RAN


def test_suites_that_nobody_wants() -> None:
    asked, suites = questions(many(), settings(suites=frozenset({"greedy", "loaded"})))
    assert {q.suite for q in asked} == {"greedy", "loaded"}
    assert suites["turns"] == NOT_ASKED
    alone = said(many(), suites=ALL - {"greedy"})
    assert {name for name, word in alone.items() if "suite greedy" in word} == {
        "limits",
        "long",
        "mixed",
        "stream",
    }


def test_greedy_requests_beside_sampled_ones_are_half_of_those_in_flight() -> None:
    mixed = of("mixed", many(), levels=(2, 3))
    assert [q.id for q in mixed] == ["mixed@3/chat-0", "mixed@3/code-0", "mixed@3/rag-8"]
    assert {(q.concurrency, q.beside) for q in mixed} == {(3, 1)}
    alone = {q.prompt: q.request for q in of("greedy", many())}
    assert all(q.request == alone[q.prompt] and q.follows is None for q in mixed)
    full = of("mixed", many(), levels=(2, 8))
    assert [q.prompt for q in full] == ["chat-0", "code-0", "rag-8", "chat-1"]
    assert {(q.concurrency, q.beside) for q in full} == {(4, 2)}


def test_greedy_requests_are_not_mixed_where_nothing_may_be_sampled_or_in_flight() -> None:
    assert said(many(), refused={"temperature": "greedy only"})["mixed"] == "greedy only"
    assert said(many(), levels=())["mixed"] == "no more than one request is in flight at once"


def test_no_load_without_levels() -> None:
    assert said(many(), levels=())["loaded"] != RAN
