"""What the gate holds: questions, arms, divergences, findings, and a trial's outcome.

Data only. Collecting is in arm.py, judging in compare.py and verdict.py, showing in report/.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from adapters.exchange import Candidate, Generation

Verdict: TypeAlias = Literal["pass", "fail", "inconclusive"]
Policy: TypeAlias = Literal["strict", "numerics"]
Kind: TypeAlias = Literal["tie", "near-tie", "suspicious", "wrong", "unscored"]
# What each suite asks is in docs/gate.md; a certificate names those that ran.
Suite: TypeAlias = Literal[
    "greedy",
    "loaded",
    "mixed",
    "turns",
    "long",
    "limits",
    "stream",
    "json",
    "tools",
    "penalties",
    "sampled",
]

SUITES: tuple[Suite, ...] = get_args(Suite)

END = -1  # stands for "the answer ended here" where a token id is expected


@dataclass(frozen=True)
class Question:
    """One request of an arm. `request` holds its OpenAI fields.

    `concurrency` is how many requests of its suite are in flight at once, and `beside` how many of
    them are sampled ones that nobody compares (gate/neighbours.py). `follows` names the question
    whose answer it is made from (gate/suite.py); `note` says what is special about it.
    """

    id: str
    prompt: str
    type: str
    suite: Suite
    request: Mapping[str, Any]
    concurrency: int = 1
    follows: str | None = None
    note: str = ""
    beside: int = 0


@dataclass(frozen=True)
class Arm:
    """One pass over all questions. `answers` holds None where the engine gave none (`errors`).

    `drafted`, `accepted`, `steps` (verify steps) and `positions` (accepted tokens by position in
    the guess) are what the engine counted during the pass; None where it does not count them.
    `seconds` is the wall time of answering; `boots` is how often the engine was started for it, 0
    for one that ran before.
    """

    name: str
    answers: Mapping[str, Generation | None]
    worker: str = ""
    errors: Mapping[str, str] = field(default_factory=dict)
    drafted: float | None = None
    accepted: float | None = None
    steps: float | None = None
    positions: tuple[float, ...] | None = None
    seconds: float = 0.0
    fingerprint: str = ""
    boots: int = 0

    @property
    def tokens(self) -> int:
        """Tokens of all answers."""
        return sum(len(answer.ids) for answer in self.answers.values() if answer)


@dataclass(frozen=True)
class Divergence:
    """Where a speculating answer left every plain answer to the same question.

    `position` counts tokens of the answer from 0; -1: the arms read different prompts. `margin` is
    how many nats plain prefers its own token by, None where `found` was not among the `candidates`
    that plain told (or plain was not asked: kind "unscored"). `units` is the margin in steps of the
    logits' precision. `explained` names what else takes the same token without a drafter: "A/A",
    "W", "prefill". `is_first` is False for those found behind the first by teacher forcing.
    """

    question: str
    prompt: str
    type: str
    suite: Suite
    concurrency: int
    arms: tuple[str, ...]
    position: int
    expected: int
    found: int
    is_first: bool = True
    candidates: tuple[Candidate, ...] = ()
    gap: float | None = None  # nats between plain's two best tokens there
    margin: float | None = None
    units: float | None = None
    kind: Kind = "unscored"
    explained: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finding:
    """What a check or a screen found that fails whatever the tokens say."""

    check: str  # "stop", "max_tokens", "stream", "penalties", "empty", "loop", "special", "json", …
    question: str
    type: str
    arm: str
    message: str


@dataclass(frozen=True)
class Rate:
    """Forks per 1,000 tokens with exact 95 % bounds (Clopper and Pearson, 1934).

    With no fork `low` is 0 and `high` the one-sided bound: 3 in n (the rule of three).
    """

    forks: int
    tokens: int
    per_1000: float
    low: float
    high: float


@dataclass(frozen=True)
class Precision:
    """The unit of margins, in nats, and where it comes from, in words."""

    unit: float
    source: str


@dataclass(frozen=True)
class Sampled:
    """What was shown of output at temperature above 0.

    `p_value` is of the conditional next-token test, `mmd_p_value` of the test on whole strings;
    each is compared with its share of `alpha`, the chance that a faultless engine fails.
    `detectable` is the total variation distance that would have been seen with 80 % probability.
    `repeated` is the p-value of new draws, made because a look had failed: the test fails only when
    they fail too (gate/sampled.py).
    """

    verdict: Verdict
    message: str
    temperature: float
    contexts: int
    draws: int
    looks: int
    alpha: float
    p_value: float | None
    mmd_p_value: float | None
    detectable: float | None
    drafted: float | None = None
    worst: tuple[str, ...] = ()  # the contexts that differ most, in words
    repeated: float | None = None


@dataclass(frozen=True)
class Trial:
    """One candidate's outcome, complete: every report is made from this alone.

    `suites` says of each suite "ran" or why not. `notes` are limits of what was shown, in words.
    `rates` are unexplained and explained forks together: "all", "type <name>", "at <concurrency>".
    `wide_rate` is W's: forks of plain against itself at verify width. `launch_diff` has a line for
    each argument that differs between the arms (`- plain`, `+ speculating`).
    """

    candidate: str
    baseline: str
    engine: str
    profile: str
    policy: Policy
    verdict: Verdict
    reasons: tuple[str, ...]
    arms: tuple[Arm, ...]
    questions: Mapping[str, Question]
    divergences: tuple[Divergence, ...] = ()
    noise: tuple[Divergence, ...] = ()
    findings: tuple[Finding, ...] = ()
    rates: Mapping[str, Rate] = field(default_factory=dict)
    noise_rate: Rate | None = None
    wide_rate: Rate | None = None
    precision: Precision | None = None
    sampled: Sampled | None = None
    suites: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    launch_diff: tuple[str, ...] = ()
    prompts_digest: str = ""
    prompts_source: str | None = None
    wall_seconds: float = 0.0
    created: str = ""
    certificate: str | None = None
    answers_folder: str | None = None
    plain_answers_folder: str | None = None
