"""Questions, arms and an examination of them, small enough to be read in a test."""

from collections.abc import Mapping

from adapters import ADAPTERS
from adapters.exchange import Generation
from orchestrator.gate.case import Examination, Subject
from orchestrator.gate.evidence import Arm, Policy, Question, Suite, Trial
from orchestrator.gate.run import Plan, Settings
from orchestrator.gate.verdict import Rules

IDS: Mapping[str, tuple[int, ...]] = {
    "greedy/p1": (1, 2, 3),
    "greedy/p2": (4, 5),
    "greedy/p3": (6, 7, 8, 9),
}
TOKENS = 9
Answers = Mapping[str, tuple[int, ...] | None]


def question(name: str, concurrency: int = 1, follows: str | None = None) -> Question:
    suite, _, prompt = name.partition("/")
    request = {"prompt": prompt, "max_tokens": 4}
    kind: Suite = "loaded" if suite.startswith("loaded") else "greedy"
    return Question(name, prompt, "chat", kind, request, concurrency, follows)


QUESTIONS = {name: question(name) for name in IDS}


def generation(ids: tuple[int, ...], prompt: tuple[int, ...] = (0,)) -> Generation:
    return Generation(prompt, ids, " ".join(map(str, ids)), "length")


def arm(name: str, changes: Answers | None = None, drafted: float | None = -1) -> Arm:
    """A pass over all questions; unless told, plain arms draft 0 tokens, others 120.

    Half of what is drafted is accepted.
    """
    if drafted == -1:
        drafted = 0 if name.startswith("A") else 120
    ids: dict[str, tuple[int, ...] | None] = {**IDS, **(changes or {})}
    answers = {prompt: None if i is None else generation(i) for prompt, i in ids.items()}
    errors = {name: "answered 400" for name, i in ids.items() if i is None}
    accepted = drafted and drafted / 2
    return Arm(name, answers, "w", errors, drafted, accepted)


def examine(questions: Mapping[str, Question] = QUESTIONS, **changes: Answers) -> Examination:
    """Arms A1, A2, S1, S2 with what is given changed, compared."""
    arms = {name: arm(name, changes.get(name)) for name in ("A1", "A2", "S1", "S2")}
    plan = Plan(questions, {"greedy": "ran"}, gamma=4)
    subject = Subject("s-0", "a-0", ADAPTERS[sorted(ADAPTERS)[0]], "guess")
    return Examination(plan, subject, [arms["A1"], arms["A2"]], [arms["S1"], arms["S2"]])


def settings(policy: Policy = "strict", min_tokens: int = 1, control: bool = False) -> Settings:
    return Settings(Rules(policy, min_tokens), (), None, lambda _: None, is_control=control)


def trial(**changes: Answers) -> Trial:
    """The strict outcome of such arms, nobody having been asked anything more."""
    return examine(QUESTIONS, **changes).trial(settings())
