"""Parts of the page that are words and figures: arms, launch, suites, sampled output, findings."""

from collections.abc import Iterator, Sequence

from orchestrator.gate.evidence import Arm, Finding, Sampled, Trial
from orchestrator.gate.report.markup import Markup, join, said, table, tag
from orchestrator.gate.report.sampled import sentences
from orchestrator.gate.report.words import (
    NO_FINGERPRINT,
    acceptance,
    compared,
    count,
    duration,
    figure,
    fingerprints,
    is_speculating,
    percent,
    several,
    short,
    speed,
)
from orchestrator.gate.suite import RAN

_MOST_FINDINGS = 50
_MOST_LINES = 400


def arms(trial: Trial) -> Markup:
    """What each arm did."""
    if not trial.arms:
        return tag("p", "No arm ran.")
    head = ("arm", "worker", "starts", "tokens", "seconds", "tokens/s")
    lines = (_arm(arm) for arm in trial.arms)
    whole = table((*head, "drafted", "accepted", "rate", "no answer"), lines, 8)
    told = [(names, said(one) or NO_FINGERPRINT) for names, one in fingerprints(trial.arms)]
    listed = table(("arms", "engine process that answered"), told)
    return join((whole, tag("details", tag("summary", "Fingerprints"), listed)))


def _arm(arm: Arm) -> Sequence[str]:
    return (
        arm.name,
        short(arm.worker),
        f"{arm.boots}",
        f"{arm.tokens:,}",
        f"{arm.seconds:,.1f}",
        speed(arm),
        count(arm.drafted),
        count(arm.accepted),
        percent(acceptance(arm)),
        f"{len(arm.errors):,}",
    )


def missing(trial: Trial) -> Iterator[Markup]:
    """The first answers that an arm did not get, and why."""
    for arm in trial.arms:
        if arm.errors:
            question, why = next(iter(arm.errors.items()))
            number = several(len(arm.errors), "question")
            head = f"{arm.name} has no answer to {number}, the first: {short(question)}: "
            yield tag("p", head, said(why[:500]))


def launch_diff(trial: Trial) -> Markup:
    """Each argument that differs, as a diff."""
    if not trial.launch_diff:
        return tag("p", "The launches of the two workers are not known or do not differ.")
    classes = {"+": "added", "-": "removed"}
    lines = [tag("span", line, class_=classes.get(line[:1])) for line in trial.launch_diff]
    return tag("pre", *lines[:_MOST_LINES])


def suites(trial: Trial) -> Markup:
    """Which suites ran, with how many questions, and why others did not."""
    if not trial.suites:
        return tag("p", "No suite ran.")
    asked: list[str] = [question.suite for question in trial.questions.values()]
    lines = (
        (suite, f"{asked.count(suite) or '–'}", "ran" if outcome == RAN else f"not run: {outcome}")
        for suite, outcome in trial.suites.items()
    )
    return table(("suite", "questions", "outcome"), lines)


def sampled(outcome: Sampled | None) -> Markup:
    """Output at temperature above 0: p-values against α, and what could have been seen."""
    if outcome is None:
        return tag("p", "Not tested: nothing is claimed for temperatures above 0.")
    lines = [
        ("outcome", outcome.verdict),
        ("temperature", figure(outcome.temperature)),
        ("α, the chance that a faultless engine fails", figure(outcome.alpha)),
        ("p-value of the next tokens' distribution", figure(outcome.p_value)),
        ("p-value of whole strings (MMD)", figure(outcome.mmd_p_value)),
        ("total variation distance seen with 80 % probability", figure(outcome.detectable)),
        ("contexts", f"{outcome.contexts:,}"),
        ("draws", f"{outcome.draws:,}"),
        ("looks at the data", f"{outcome.looks:,}"),
        ("tokens drafted meanwhile", count(outcome.drafted)),
    ]
    worst = [tag("li", said(short(one, 200))) for one in outcome.worst]
    listed = join((tag("p", "Contexts that differ most:"), tag("ul", *worst))) if worst else ""
    figures = tag("div", table(("what", "value"), lines, 1), class_="brief")
    message = tag("p", outcome.message) if outcome.message and outcome.verdict != "pass" else ""
    parts = tag("ul", *(tag("li", sentence) for sentence in sentences(outcome)))
    return join((message, parts, figures, listed))


def findings(found: Sequence[Finding], is_checked: bool) -> Markup:
    """What checks and screens found."""
    if not found:
        return tag(
            "p", "Checks and screens found nothing." if is_checked else "Nothing was checked."
        )
    items = [tag("li", *_finding(one), class_="finding") for one in found[:_MOST_FINDINGS]]
    more = len(found) - _MOST_FINDINGS
    rest = tag("p", f"and {more:,} more: report.json holds all.") if more > 0 else ""
    return join((tag("ul", *items, class_="list"), rest))


def _finding(found: Finding) -> Iterator[Markup]:
    where = f" in {short(found.arm)}, {short(found.type)} {short(found.question)}"
    yield tag("p", tag("span", short(found.check), class_="kind"), where)
    yield tag("p", said(found.message[:500]))


def tiles(trial: Trial) -> Markup:
    """The figures that decide, in large type."""
    entries = (
        ("tokens compared", f"{compared(trial):,}", several(len(trial.questions), "question")),
        _divergence_tile(trial),
        _acceptance_tile(trial),
        ("wall time", duration(trial.wall_seconds), _created(trial)),
    )
    parts = (
        tag("div", tag("dt", name), tag("dd", value, tag("small", note)))
        for name, value, note in entries
    )
    return tag("dl", *parts, class_="tiles")


def _divergence_tile(trial: Trial) -> tuple[str, str, str]:
    questions = len({d.question for d in trial.divergences})
    note = "no answer left plain's" if compared(trial) else "nothing was compared"
    note = f"in {several(questions, 'answer')}" if questions else note
    return "divergences", f"{len(trial.divergences):,}", note


def _acceptance_tile(trial: Trial) -> tuple[str, str, str]:
    speculating = [arm for arm in trial.arms if is_speculating(arm)]
    told = [arm for arm in speculating if arm.drafted and arm.accepted is not None]
    if not told:
        return "accepted guesses", "–", "none drafted, or not counted"
    drafted = sum(arm.drafted or 0 for arm in told)
    accepted = sum(arm.accepted or 0 for arm in told)
    return "accepted guesses", percent(accepted / drafted), f"{count(accepted)} of {count(drafted)}"


_GLOSSARY = (
    ("fork", "a place where an answer takes a token that plain does not take there"),
    ("tie, near-tie", "plain prefers its own token by at most 1, at most 2 units of precision"),
    ("suspicious, wrong", "by less than 1 nat; by 1 nat or more, or it told 20 likelier tokens"),
    ("unscored", "plain was not asked what it thinks there, or could not be; no margin is known"),
    ("another prompt", "the arms read different ids of the prompt; no answer to it was compared"),
    ("A1, A2", "the plain engine, started twice"),
    ("S1, S2", "the speculating engine, started twice"),
    ("explained by A/A", "a plain answer takes the same token"),
    ("explained by W", "plain takes it when it computes as many rows as a verify step, undrafted"),
    ("explained by prefill", "plain takes it when it reads the answer instead of writing it"),
)


def glossary() -> Markup:
    """What the words of the page mean."""
    meanings = table(("word", "meaning"), ((word, meaning) for word, meaning in _GLOSSARY))
    return tag("details", tag("summary", "What the words mean"), meanings)


def _created(trial: Trial) -> str:
    return trial.created.replace("T", " ").replace("Z", " UTC")
