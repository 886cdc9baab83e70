"""The gate's verdict. Whatever could not be compared is never equal."""

from collections.abc import Mapping, Sequence

import pytest

from adapters.exchange import Generation
from orchestrator.gate.compare import END, Arm, Comparison, compare, first_divergence

PROMPTS = ("p1", "p2", "p3")
IDS: Mapping[str, tuple[int, ...]] = {"p1": (1, 2, 3), "p2": (4, 5), "p3": (6, 7, 8, 9)}
Answers = Mapping[str, tuple[int, ...] | None]


def generation(ids: tuple[int, ...], prompt: tuple[int, ...] = (0,)) -> Generation:
    return Generation(prompt, ids, "", "length")


def arm(name: str, changes: Answers | None = None, drafted: float | None = -1) -> Arm:
    """A pass over all prompts; where nothing else is said, plain arms draft 0 tokens, others 10."""
    if drafted == -1:
        drafted = 0 if name.startswith("A") else 10
    ids: dict[str, tuple[int, ...] | None] = {**IDS, **(changes or {})}
    answers = {prompt: None if i is None else generation(i) for prompt, i in ids.items()}
    return Arm(name, answers, drafted, drafted)


def verdict(**changes: Answers) -> Comparison:
    """Arms A1, A2, S1, S2 with what is given changed."""
    arms = {name: arm(name, changes.get(name)) for name in ("A1", "A2", "S1", "S2")}
    return compare(PROMPTS, [arms["A1"], arms["A2"]], [arms["S1"], arms["S2"]])


@pytest.mark.parametrize(
    ("one", "other", "position"),
    [
        ((), (), None),
        ((1, 2), (1, 2), None),
        ((1, 2), (1, 3), 1),
        ((1, 2), (2, 2), 0),
        ((1, 2), (1,), 1),
        ((1,), (1, 2), 1),
        ((), (1,), 0),
    ],
)
def test_first_divergence(one: Sequence[int], other: Sequence[int], position: int | None) -> None:
    assert first_divergence(one, other) == position


def test_equal_arms_pass_and_say_what_was_compared() -> None:
    found = verdict()
    assert found.verdict == "pass"
    assert found.reasons == ("3 of 3 prompts identical",)
    assert found.divergences == ()
    assert (found.prompts, found.tokens) == (3, 9)
    assert found.bound_per_1000 == pytest.approx(3000 / 9)


OTHER: Answers = {"p1": (1, 2, 99)}
GONE: Answers = {"p1": None}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"S1": OTHER}, "fail"),
        ({"S2": OTHER}, "fail"),
        ({"S1": OTHER, "S2": OTHER}, "fail"),
        ({"S1": {"p1": (1, 2)}}, "fail"),
        ({"S1": {"p1": (1, 2, 3, 4)}}, "fail"),
        ({"S1": {"p1": ()}}, "fail"),
        ({"A2": OTHER}, "inconclusive"),
        ({"A2": OTHER, "S1": OTHER}, "inconclusive"),
        ({"A2": OTHER, "S1": {"p2": (4, 99)}}, "fail"),
        ({"A1": GONE}, "inconclusive"),
        ({"A2": GONE}, "inconclusive"),
        ({"S1": GONE}, "inconclusive"),
        ({"S2": GONE}, "inconclusive"),
        ({"A1": GONE, "A2": GONE, "S1": GONE, "S2": GONE}, "inconclusive"),
        ({"S1": {"p1": None, "p2": (4, 99)}}, "fail"),
        ({"A2": GONE, "S1": OTHER}, "fail"),
        ({"A1": {"p1": ()}, "A2": {"p1": ()}, "S1": {"p1": ()}, "S2": {"p1": ()}}, "pass"),
    ],
)
def test_verdicts(changes: Mapping[str, Answers], expected: str) -> None:
    found = verdict(**changes)
    assert found.verdict == expected
    assert found.reasons
    assert all(found.reasons)


@pytest.mark.parametrize("name", ["A1", "A2", "S1", "S2"])
@pytest.mark.parametrize("prompt", PROMPTS)
def test_one_missing_answer_anywhere_is_never_a_pass(name: str, prompt: str) -> None:
    found = verdict(**{name: {prompt: None}})
    assert found.verdict == "inconclusive"
    assert f"{name} has no answer to 1 prompts ({prompt}, …)" in found.reasons


@pytest.mark.parametrize("name", ["S1", "S2"])
@pytest.mark.parametrize("prompt", PROMPTS)
def test_one_changed_token_anywhere_is_never_a_pass(name: str, prompt: str) -> None:
    for position in range(len(IDS[prompt])):
        ids = list(IDS[prompt])
        ids[position] += 1000
        found = verdict(**{name: {prompt: tuple(ids)}})
        assert found.verdict == "fail"
        (divergence,) = found.divergences
        assert (divergence.prompt, divergence.arm) == (prompt, name)
        assert divergence.position == position
        assert divergence.found == divergence.expected + 1000
        assert found.bound_per_1000 is None


def test_an_answer_that_ends_early_diverges_at_its_end() -> None:
    (divergence,) = verdict(S1={"p1": (1, 2)}).divergences
    assert (divergence.position, divergence.expected, divergence.found) == (2, 3, END)


def test_another_prompt_read_is_a_divergence_although_the_answers_are_equal() -> None:
    answers = {**arm("S1").answers, "p1": generation(IDS["p1"], prompt=(0, 1))}
    plain = [arm("A1"), arm("A2")]
    found = compare(PROMPTS, plain, [Arm("S1", answers, 10), arm("S2")])
    assert found.verdict == "fail"
    assert found.divergences[0].position == -1


def test_tokens_of_another_prompt_are_not_counted_as_compared() -> None:
    answers = {name: generation(ids, prompt=(0, 1)) for name, ids in IDS.items()}
    found = compare(PROMPTS, [arm("A1"), arm("A2")], [Arm("S1", answers, 10)])
    assert found.tokens == 0


@pytest.mark.parametrize("drafted", [0, 0.0, None])
@pytest.mark.parametrize("number", [0, 1])
def test_an_arm_that_drafted_nothing_proves_nothing(drafted: float | None, number: int) -> None:
    speculating = [arm("S1"), arm("S2")]
    speculating[number] = arm(f"S{number + 1}", drafted=drafted)
    found = compare(PROMPTS, [arm("A1"), arm("A2")], speculating)
    assert found.verdict == "inconclusive"
    assert found.reasons[0].startswith(f"S{number + 1}: ")


def test_a_difference_counts_although_nothing_was_drafted() -> None:
    speculating = [arm("S1", OTHER, drafted=0)]
    assert compare(PROMPTS, [arm("A1"), arm("A2")], speculating).verdict == "fail"


def test_empty_answers_alone_prove_nothing() -> None:
    nothing: Answers = dict.fromkeys(PROMPTS, ())
    found = verdict(A1=nothing, A2=nothing, S1=nothing, S2=nothing)
    assert found.verdict == "inconclusive"
    assert found.reasons[0] == "A1 answered nothing but empty text"


def test_no_prompts_prove_nothing() -> None:
    arms = [arm(name) for name in ("A1", "A2", "S1", "S2")]
    assert compare([], arms[:2], arms[2:]).verdict == "inconclusive"


def test_no_speculating_arm_proves_nothing() -> None:
    assert compare(PROMPTS, [arm("A1"), arm("A2")], []).verdict == "inconclusive"


def test_a_single_plain_arm_does_not_show_that_the_engine_repeats_itself() -> None:
    assert compare(PROMPTS, [arm("A1")], [arm("S1"), arm("S2")]).verdict == "inconclusive"


def test_a_baseline_that_drafts_is_not_plain() -> None:
    plain = [arm("A1", drafted=0), arm("A2", drafted=5)]
    assert compare(PROMPTS, plain, [arm("S1")]).verdict != "pass"


@pytest.mark.parametrize("drafted", [0, None])
def test_a_plain_baseline_has_no_drafts_or_no_counter(drafted: float | None) -> None:
    plain = [arm("A1", drafted=drafted), arm("A2", drafted=drafted)]
    assert compare(PROMPTS, plain, [arm("S1"), arm("S2")]).verdict == "pass"


def test_noise_is_named_with_its_prompts() -> None:
    found = verdict(A2=OTHER)
    assert any("plain differs from itself on 1 of 3 prompts" in r for r in found.reasons)
    assert [d.arm for d in found.divergences] == ["A2"]


def test_no_bound_without_tokens() -> None:
    assert Comparison("inconclusive", (), (), 0, 0).bound_per_1000 is None
