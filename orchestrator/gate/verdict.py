"""The verdict: what the evidence comes to under a policy. Pure; "not shown" is never "equal"."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.gate.compare import A_A, Compared
from orchestrator.gate.evidence import (
    Arm,
    Divergence,
    Finding,
    Policy,
    Question,
    Rate,
    Sampled,
    Verdict,
)
from orchestrator.gate.statistics import exceeds, rate

_NUMERIC = frozenset({"tie", "near-tie"})


@dataclass(frozen=True)
class Rules:
    """What must be shown. `forks_per_1000` is for the policy numerics alone."""

    policy: Policy = "strict"
    min_tokens: int = 1000
    forks_per_1000: float = 10.0


@dataclass(frozen=True)
class Case:
    """Everything a verdict rests on. `lacks` is what is missing, in words."""

    questions: Mapping[str, Question]
    speculating: Sequence[Arm]
    compared: Compared
    divergences: Sequence[Divergence]
    findings: Sequence[Finding] = ()
    lacks: Sequence[str] = ()
    sampled: Sampled | None = None
    wide_rate: Rate | None = None

    def rates(self) -> dict[str, Rate]:
        """Forks of the first speculating arm by all, type and concurrency."""
        arm = self.speculating[0].name
        taken = [d for d in self.divergences if arm in d.arms and d.position >= 0]
        keys = {name: _keys(question) for name, question in self.questions.items()}
        tokens: dict[str, int] = {}
        forks: dict[str, int] = {}
        for name, count in self.compared.tokens_of.items():
            for key in keys[name]:
                tokens[key] = tokens.get(key, 0) + count
        for divergence in taken:
            for key in keys[divergence.question]:
                forks[key] = forks.get(key, 0) + 1
        return {k: rate(min(forks.get(k, 0), n), n) for k, n in tokens.items() if n}

    def noise_rate(self) -> Rate | None:
        """Forks of plain against itself, in its second arm."""
        count = sum(1 for d in self.compared.noise if "A2" in d.arms)
        tokens = self.compared.noise_tokens
        return rate(min(count, tokens), tokens) if tokens else None


def _keys(question: Question) -> tuple[str, ...]:
    return "all", f"type {question.type}", f"at {question.concurrency}"


def decide(case: Case, rules: Rules) -> tuple[Verdict, tuple[str, ...]]:
    """The verdict, and why. A failure goes before what is missing."""
    failures = [*_failures(case, rules), *_finding_words(case.findings)]
    if case.sampled and case.sampled.verdict == "fail":
        failures.append(f"sampled output: {case.sampled.message}")
    if failures:
        return "fail", tuple(failures)
    lacks = [*case.lacks, *_lacks(case, rules)]
    if lacks:
        return "inconclusive", tuple(lacks)
    return "pass", (_words_of_pass(case),)


def _failures(case: Case, rules: Rules) -> list[str]:
    if rules.policy == "strict":
        return _unexplained(case, [d for d in case.divergences if A_A not in d.explained])
    bad = [d for d in case.divergences if not is_numeric(d)]
    return _unexplained(case, bad) + _too_many(case, rules)


def is_numeric(divergence: Divergence) -> bool:
    """Whether rounding explains it: as good as tied, and taken without any guess as well."""
    if A_A in divergence.explained:
        return True
    return divergence.kind in _NUMERIC and bool(divergence.explained)


def _unexplained(case: Case, divergences: Sequence[Divergence]) -> list[str]:
    if not divergences:
        return []
    arms = ", ".join(sorted({arm for d in divergences for arm in d.arms}))
    answers = len({d.question for d in divergences})
    words = [f"{answers} of {len(case.questions)} answers differ from plain (in {arms})"]
    prompts = len({d.question for d in divergences if d.position < 0})
    if prompts:
        words.append(f"for {prompts} of them the arms read different prompts")
    kinds = [d.kind for d in divergences]
    told = {kind: kinds.count(kind) for kind in ("wrong", "suspicious", "near-tie", "tie")}
    counted = ", ".join(f"{count} {kind}" for kind, count in told.items() if count)
    if counted:
        words.append(f"by class: {counted}")
    return words


def _too_many(case: Case, rules: Rules) -> list[str]:
    """More forks than the fleet admits, or than plain's own numerics make."""
    seen = case.rates().get("all")
    if seen is None or not seen.forks:
        return []
    words = []
    if seen.low > rules.forks_per_1000:
        words.append(
            f"{seen.per_1000:.2g} forks per 1,000 tokens, at least {seen.low:.2g} (95 %); "
            f"{rules.forks_per_1000:g} are admitted"
        )
    own = _own_numerics(case)
    if own and exceeds(seen.forks, seen.tokens, own.forks, own.tokens):
        words.append(
            f"{seen.per_1000:.2g} forks per 1,000 tokens; plain's own numerics make "
            f"{own.per_1000:.2g} (at most {own.high:.2g})"
        )
    return words


def _own_numerics(case: Case) -> Rate | None:
    """The larger of W's and A/A's rates; without W nothing tells how often width alone flips."""
    known = [r for r in (case.wide_rate, case.noise_rate()) if r is not None]
    return max(known, key=lambda r: (r.per_1000, r.tokens)) if case.wide_rate else None


def _finding_words(findings: Sequence[Finding]) -> list[str]:
    by_check: dict[str, list[Finding]] = {}
    for finding in findings:
        by_check.setdefault(finding.check, []).append(finding)
    return [
        f"{check}: {found[0].question} ({found[0].arm}): {found[0].message}"
        + (f" (and {len(found) - 1} more)" if len(found) > 1 else "")
        for check, found in by_check.items()
    ]


def _lacks(case: Case, rules: Rules) -> list[str]:
    found = []
    tokens = case.compared.tokens
    # What comes behind a fork that plain makes itself is compared with no plain answer of its own.
    if tokens < rules.min_tokens:
        found.append(
            f"{tokens} tokens were compared, {rules.min_tokens} are asked for: more prompts or "
            "larger max_tokens show more, gate.min_tokens asks for less"
        )
    if case.sampled and case.sampled.verdict == "inconclusive":
        found.append(f"sampled output: {case.sampled.message}")
    noisy = {d.question for d in case.compared.noise if "A2" in d.arms}
    if rules.policy == "strict" and 4 * len(noisy) > len(case.questions):
        found.append(
            f"plain differs from itself on {len(noisy)} of {len(case.questions)} answers: equality "
            "cannot be shown on an engine that is not repeatable; see the policy numerics"
        )
    if rules.policy == "numerics":
        found += _numerics_lacks(case, rules)
    return found


def _numerics_lacks(case: Case, rules: Rules) -> list[str]:
    seen = case.rates().get("all")
    if seen and seen.forks and seen.high > rules.forks_per_1000:
        return [
            f"forks are at most {seen.high:.2g} per 1,000 tokens (95 %), "
            f"{rules.forks_per_1000:g} are admitted: more prompts would narrow it"
        ]
    return []


def _words_of_pass(case: Case) -> str:
    total = len(case.questions)
    if not case.divergences:
        return f"{total} of {total} answers identical"
    differing = len({d.question for d in case.divergences})
    return f"{total - differing} of {total} answers identical; the others are plain's own numerics"
