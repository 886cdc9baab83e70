"""Trials to make reports from: what a gate may find, and text that wants out of a report."""

import functools
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from adapters.exchange import Candidate, Generation
from orchestrator.gate.evidence import (
    END,
    Arm,
    Divergence,
    Finding,
    Kind,
    Precision,
    Question,
    Rate,
    Sampled,
    Suite,
    Trial,
)
from orchestrator.gate.margin import judged
from orchestrator.gate.statistics import rate

TYPES = ("chat", "code_edit", "creative", "json", "maths", "rag")
HOSTILE = (
    "</script><img src=x onerror=alert(1)>",
    "]]>",
    "a\x00b\x1b[31mred\x07",
    "| cell | `code` @octocat #1 ![x](http://evil.example/x.png) <b>",
    "emoji 👩‍💻 مرحبا \u202eback\u202c \ud800 \ufffe\u2028",
    "</title></style><svg/onload=alert(1)>&amp;\"'",
    "# heading\n\n---\n\n```\n~~~\n</details>\n$$x$$ [a]: http://evil.example www.evil.example",
)
BFLOAT16 = Precision(0.125, "a step of bfloat16 between 16 and 32")


def questions(per_type: int = 4) -> dict[str, Question]:
    """Some of the suite greedy, some loaded, one of another."""
    made = [_question("greedy", name, n) for name in TYPES for n in range(per_type)]
    made += [_question("loaded", name, n, 8) for name in TYPES[:4] for n in range(per_type)]
    made.append(_question("stream", "chat", 0))
    return {question.id: question for question in made}


def _question(suite: Suite, name: str, number: int, concurrency: int = 1) -> Question:
    prompt = f"{name}:{number + 1}"
    request = {"prompt": f"{prompt} text", "max_tokens": 128}
    return Question(f"{suite}/{prompt}", prompt, name, suite, request, concurrency)


def texts(per_type: int = 4) -> dict[str, str]:
    """Prompts by id."""
    words = "Here is what the customer wrote to us last Tuesday. Please answer in one line:"
    return {f"{name}:{n + 1}": f"({name}) {words} {n}" for name in TYPES for n in range(per_type)}


def arm(name: str, asked: dict[str, Question], length: int = 128) -> Arm:
    """Plain arms draft nothing; speculating ones tell positions."""
    answers: dict[str, Generation | None] = {
        q: Generation((1, 2, 3), tuple(range(length)), "text", "length", 1.5) for q in asked
    }
    tokens = length * len(asked)
    if name.startswith("A"):
        return Arm(name, answers, "plain-0", drafted=0, seconds=tokens / 41.7, boots=1)
    steps, shares = tokens / 2.31, (0.71, 0.38, 0.15, 0.07)
    shift = 1.0 if name == "S1" else 0.985
    positions = tuple(round(steps * share * shift) for share in shares)
    return Arm(
        name,
        answers,
        "edit-0",
        drafted=round(steps * 4),
        accepted=sum(positions),
        steps=round(steps),
        positions=positions,
        seconds=tokens / 83.2,
        fingerprint="0.32.0 pid 4711 since 1764523011",
        boots=1,
    )


@functools.cache
def passing() -> Trial:
    """Nothing differs anywhere; two suites did not run."""
    asked = questions()
    names = ("A1", "A2", "S1", "S2")
    total = 128 * len(asked)
    return Trial(
        candidate="edit-0",
        baseline="plain-0",
        engine="engine 0.32.0",
        profile="code-edit",
        policy="strict",
        verdict="pass",
        reasons=(f"{len(asked)} of {len(asked)} answers identical",),
        arms=tuple(arm(name, asked) for name in names),
        questions=asked,
        rates=_rates(asked, {}),
        noise_rate=rate(0, total),
        wide_rate=rate(0, total // 2),
        sampled=Sampled("pass", "", 1.0, 24, 9600, 3, 0.01, 0.41, 0.73, 0.062, 9000.0),
        suites={
            "greedy": "ran",
            "loaded": "ran",
            "stream": "ran",
            "json": "no prompt asks for structured output",
            "tools": "the engine was launched without a tool parser",
        },
        notes=("Nothing is claimed beyond 8 requests at once.",),
        launch_diff=LAUNCH_DIFF,
        prompts_digest="3b1f0c" * 10 + "abcd",
        wall_seconds=412.0,
        created="2026-03-02T09:41:07Z",
        certificate="certificates/code-edit@small@engine@1a2b3c4d5e6f.json",
        answers_folder=".draftgate/gate/edit-0-20260302",
    )


LAUNCH_DIFF = (
    '+ --speculative-config={"method": "ngram", "num_speculative_tokens": 4}',
    "- --served-model-name=plain",
    "+ --served-model-name=code-edit",
)


def _rates(asked: dict[str, Question], forks: dict[str, int]) -> dict[str, Rate]:
    tokens: dict[str, int] = {}
    for question in asked.values():
        for key in ("all", f"type {question.type}", f"at {question.concurrency}"):
            tokens[key] = tokens.get(key, 0) + 128
    return {key: rate(forks.get(key, 0), n) for key, n in tokens.items()}


def _candidates(margin: float, found: int | None, expected: int) -> tuple[Candidate, ...]:
    """Twenty tokens; `found` at its margin below the best, or not among them."""
    best = -0.5
    told = [Candidate(expected, best, " the")]
    if found is not None:
        told.append(Candidate(found, best - margin, " a"))
    rest = [Candidate(5000 + n, best - 2.5 - 0.4 * n, f" word{n}") for n in range(20 - len(told))]
    return tuple(sorted([*told, *rest], key=lambda c: -c.logprob))


def _divergence(question: Question, position: int, margin: float | None) -> Divergence:
    """With plain's margin there; infinite: not among the tokens told; None: plain was not asked."""
    found = Divergence(
        question=question.id,
        prompt=question.prompt,
        type=question.type,
        suite=question.suite,
        concurrency=question.concurrency,
        arms=("S1", "S2"),
        position=position,
        expected=1000 + position,
        found=2000 + position,
    )
    if margin is None:
        return found
    told = None if math.isinf(margin) else found.found
    return judged(found, _candidates(margin, told, found.expected), BFLOAT16)


@functools.cache
def failing(number: int = 200) -> Trial:
    """Divergences of all kinds, of all types, alone and under load; findings; missing answers."""
    draw = random.Random(7)
    base = passing()
    asked = list(base.questions.values())
    found = [
        _divergence(asked[0], -1, None),
        replace(_divergence(asked[1], 17, None), found=END),
        _divergence(asked[2], 127, None),
    ]
    while len(found) < number:
        question = asked[min(len(asked) - 1, int(draw.expovariate(1 / 12)))]
        margin = draw.choice([0.0, 0.0625, 0.125, 0.2, 0.6, 0.9, draw.expovariate(0.3), math.inf])
        one = _divergence(question, int(draw.triangular(0, 127, 30)), margin)
        explained = (("W",), ("prefill", "W"), ("A/A",), ())[draw.randrange(4)]
        is_first = draw.random() < 0.3
        found.append(replace(one, is_first=is_first, explained=explained if margin < 0.3 else ()))
    forks: dict[str, int] = {}
    for one in found:
        for key in ("all", f"type {one.type}", f"at {one.concurrency}"):
            forks[key] = forks.get(key, 0) + one.is_first
    total = 128 * len(asked)
    s2 = replace(base.arms[3], errors={asked[5].id: "HTTP 500: CUDA error: out of memory"})
    return replace(
        base,
        verdict="fail",
        reasons=(
            f"{len({d.question for d in found})} of 41 answers differ from plain (in S1, S2)",
            f"by class: {', '.join(f'{n} {kind}' for kind, n in _by_class(found).items())}",
            "penalties: loaded/chat:2 (S1): opposite penalties give the same answer",
        ),
        arms=(*base.arms[:3], s2),
        divergences=tuple(found),
        noise=(_divergence(asked[3], 90, 0.0625), _divergence(asked[4], 31, 0.125)),
        findings=(
            Finding("penalties", "loaded/chat:2", "chat", "S1", "opposite penalties, same answer"),
            Finding("loop", "greedy/rag:1", "rag", "S2", "'and the ' stands 41 times in a row"),
        ),
        rates=_rates(dict(base.questions), forks),
        noise_rate=rate(2, total),
        wide_rate=rate(9, total // 2),
        precision=BFLOAT16,
        sampled=Sampled(
            "fail",
            "the distribution of next tokens differs",
            1.0,
            24,
            9600,
            2,
            0.01,
            0.00002,
            0.0041,
            0.062,
            9000.0,
            ("chat:1 after 'Dear customer,': ' we' 41 % where plain has 22 %",),
        ),
        certificate=None,
    )


def _by_class(found: Sequence[Divergence]) -> dict[Kind, int]:
    kinds: tuple[Kind, ...] = ("wrong", "suspicious", "near-tie", "tie")
    return {kind: sum(1 for d in found if d.kind == kind) for kind in kinds}


@functools.cache
def other_prompts() -> Trial:
    """Two questions that the speculating engine read one token shorter; nothing else differs."""
    base = passing()
    asked = list(base.questions.values())
    found = tuple(
        replace(_divergence(question, -1, None), expected=476, found=475) for question in asked[:2]
    )
    reasons = ("2 of 41 answers differ from plain (in S1, S2)",)
    return replace(base, verdict="fail", reasons=reasons, divergences=found, certificate=None)


@functools.cache
def numerics() -> Trial:
    """Ties alone, all of them taken at verify width too: a pass under numerics."""
    base = passing()
    asked = list(base.questions.values())
    margins = (0.0, 0.0, 0.03125, 0.0625, 0.125, 0.125, 0.25)
    found = tuple(
        replace(_divergence(asked[3 * n], 20 + 11 * n, margin), explained=("W",))
        for n, margin in enumerate(margins)
    )
    forks = {"all": 7, "at 1": 7, "type chat": 2, "type code_edit": 1, "type creative": 2}
    return replace(
        base,
        policy="numerics",
        reasons=("34 of 41 answers identical; the others are plain's own numerics",),
        divergences=found,
        rates=_rates(dict(base.questions), forks),
        noise_rate=rate(1, 128 * len(asked)),
        wide_rate=rate(5, 64 * len(asked)),
        precision=BFLOAT16,
    )


@functools.cache
def inconclusive() -> Trial:
    """Nothing was drafted, and some answers are missing."""
    base = passing()
    asked = list(base.questions)
    errors = dict.fromkeys(asked[:3], "no answer within 600 s")
    answers = {q: None if q in errors else a for q, a in base.arms[2].answers.items()}
    silent = Arm("S1", answers, "edit-0", errors, 0, 0, 0, (), 90.0, "0.32.0", 1)
    return replace(
        base,
        verdict="inconclusive",
        reasons=(
            "S1: no tokens were drafted: verification was never tried",
            f"S1 has no answer to 3 of 41 questions ({asked[0]}: no answer within 600 s)",
        ),
        arms=(*base.arms[:2], silent, replace(silent, name="S2")),
        sampled=Sampled("inconclusive", "too few draws", 1.0, 2, 64, 1, 0.01, None, None, None),
        certificate=None,
    )


def nothing() -> Trial:
    """An outcome with next to nothing in it: every field that may be absent is."""
    reasons = ("the baseline did not start",)
    return Trial("c", "b", "", "", "strict", "inconclusive", reasons, (), {})


@functools.cache
def without_positions() -> Trial:
    """An engine that counts drafts but not by position."""
    base = passing()
    arms = (replace(a, positions=None, steps=None) for a in base.arms)
    return replace(base, arms=tuple(arms))


@functools.cache
def huge() -> Trial:
    """Names as long as people can make them, and many types."""
    base = failing(60)
    renamed = {f"t{n}-" + "long" * 40: f"type {n} " + "w" * 200 for n in range(30)}
    asked = {
        f"greedy/{name}": Question(f"greedy/{name}", name, kind, "greedy", {})
        for name, kind in renamed.items()
    }
    found = tuple(_divergence(q, 100_000 + n, 0.5) for n, q in enumerate(asked.values()))
    rates = {f"type {kind}": rate(3, 900) for kind in renamed.values()}
    rates["all"] = rate(90, 27_000)
    return replace(base, candidate="c" * 300, questions=asked, divergences=found, rates=rates)


MAKERS: list[Callable[[], Trial]] = [
    passing,
    failing,
    numerics,
    inconclusive,
    nothing,
    without_positions,
    huge,
    other_prompts,
]


@functools.cache
def hostile() -> tuple[Trial, dict[str, str]]:
    """Every text that is not ours is one that wants out; and its prompts."""
    base = failing(30)
    asked = {
        f"{text}{n}": Question(f"{text}{n}", f"{n}{text}", text, "greedy", {"prompt": text})
        for n, text in enumerate(HOSTILE)
    }
    found = [
        replace(
            _divergence(question, 5, 1.5),
            candidates=(Candidate(1005, -0.1, text), Candidate(2005, -1.6, text[::-1])),
        )
        for text, question in zip(HOSTILE, asked.values(), strict=True)
    ]
    findings = [Finding(t, t, t, t, t) for t in HOSTILE]
    arms = [
        replace(a, worker=t, fingerprint=t, errors={t: t})
        for a, t in zip(base.arms, HOSTILE, strict=False)
    ]
    trial = replace(
        base,
        candidate=HOSTILE[0],
        baseline=HOSTILE[5],
        engine=HOSTILE[3],
        profile=HOSTILE[4],
        reasons=HOSTILE,
        arms=tuple(arms),
        questions=asked,
        divergences=tuple(found),
        noise=(),
        findings=tuple(findings),
        rates=_hostile_rates(HOSTILE),
        sampled=Sampled("fail", HOSTILE[0], 1.0, 1, 1, 1, 0.01, 0.0, 0.0, 0.1, 1.0, HOSTILE),
        suites={"json": HOSTILE[1], "tools": HOSTILE[3]},
        notes=HOSTILE,
        launch_diff=tuple(f"+ {text}" for text in HOSTILE),
        certificate=HOSTILE[2],
        answers_folder=HOSTILE[4],
        created=HOSTILE[3],
        prompts_digest=HOSTILE[3],
    )
    return trial, {q.prompt: text for q, text in zip(asked.values(), HOSTILE, strict=True)}


def _hostile_rates(names: Sequence[str]) -> dict[str, Rate]:
    return {f"type {name}": rate(1, 100) for name in names}
