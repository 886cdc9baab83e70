"""The classifier finds what trying the rules in order finds."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.classify import Classifier
from orchestrator.condition import CHEAP, DEAR, KINDS
from orchestrator.feature import Features, read_features
from orchestrator.type_rule import TypeRule, When

TEXTS = (
    "",
    "fix the story, please",
    "summarize: a.b",
    "```x``` and y",
    "同じ文章を要約して",
    "a1b" * 40,
)
PATTERNS = ("fix", r"\bthe\b", "a.*b", r"^summar", "(?i)STORY|y", r"\d+", "zzz", "", "[a-z]+ story")
SIGNS = (">=", "<=", ">", "<", "==")

texts = st.sampled_from(TEXTS)
numbers = st.sampled_from((0, 0.3, 1, 2, 3.5, 40))
optional_number = st.one_of(st.none(), numbers)
comparisons = st.builds(lambda sign, bound: f"{sign}{bound}", st.sampled_from(SIGNS), numbers)
booleans = st.booleans()
BY_NAME: dict[str, st.SearchStrategy[Any]] = {
    "model": st.sampled_from((("a",), ("a", "b"), ("c",))),
    "response_format": st.sampled_from((("text",), ("json_object", "json_schema"))),
    "language": st.sampled_from((("en", "ja"), ("unknown",))),
    "intent": st.sampled_from((("edit",), ("summarize", "extract"))),
    "lora": st.one_of(booleans, st.sampled_from((("x",), ("x", "y")))),
}
BY_KIND = {"flag": booleans, "number": comparisons, "search": st.sampled_from(PATTERNS)}


def condition(name: str) -> st.SearchStrategy[Any]:
    return BY_NAME[name] if name in BY_NAME else BY_KIND[KINDS[name]]


whens = st.sets(st.sampled_from(sorted(KINDS)), max_size=3).flatmap(
    lambda names: st.fixed_dictionaries({name: condition(name) for name in sorted(names)})
)
rule_lists = st.lists(whens, max_size=12).map(
    lambda found: [
        TypeRule(type=f"t{index}", when=When(**when)) for index, when in enumerate(found)
    ]
)
messages = st.lists(
    st.builds(
        lambda role, text: {"role": role, "content": text},
        st.sampled_from(("user", "system", "assistant")),
        texts,
    ),
    max_size=4,
)
requests = st.fixed_dictionaries(
    {"messages": messages},
    optional={
        "model": st.sampled_from(("a", "b", "d", 5)),
        "stream": booleans,
        "temperature": optional_number,
        "top_p": optional_number,
        "n": optional_number,
        "max_tokens": optional_number,
        "frequency_penalty": optional_number,
        "tools": st.sampled_from(([], [{}])),
        "lora_path": st.sampled_from(("x", "z", ["x", "y"])),
        "response_format": st.sampled_from(({"type": "json_object"}, "x")),
    },
)


def by_definition(classifier: Classifier, features: Features) -> int | None:
    rules = enumerate(classifier.rules)
    return next((index for index, rule in rules if rule.matches(features)), None)


@settings(max_examples=100, deadline=None)
@given(rule_lists, requests)
def test_the_first_match_is_found(rules: list[TypeRule], request: dict[str, Any]) -> None:
    classifier = Classifier(rules)
    source = json.dumps(request).encode()
    assert classifier.first(read_features(source)) == by_definition(
        classifier, read_features(source)
    )


def test_every_condition_is_known_to_the_classifier() -> None:
    assert {*KINDS} == {*When.model_fields}
    assert {**CHEAP, **DEAR} == KINDS


def test_the_last_of_many_rules_is_found() -> None:
    rules = [
        TypeRule(type=f"t{n}", when=When(last_user=f"word{n}x", temperature=f"<{n}", overlap=">=0"))
        for n in range(500)
    ]
    request = {"messages": [{"role": "user", "content": "word499x word7x"}], "temperature": 50}
    features = read_features(json.dumps(request).encode())
    assert Classifier(rules).first(features) == 499
