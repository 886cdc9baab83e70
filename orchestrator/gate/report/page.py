"""The outcome as one HTML file that needs nothing else: no network, no script, no font."""

import base64
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from adapters.exchange import Candidate
from orchestrator import __version__
from orchestrator.gate.evidence import Divergence, Trial
from orchestrator.gate.report import tables
from orchestrator.gate.report.divergence import (
    PROMPT_HINT,
    explanation,
    is_excused,
    is_of_prompt,
    kinds_in_words,
    margin,
    place,
    prompts_in_words,
    swap,
    worst_first,
)
from orchestrator.gate.report.figure import Figure, render
from orchestrator.gate.report.forks import forks
from orchestrator.gate.report.guesses import guesses
from orchestrator.gate.report.margins import margins
from orchestrator.gate.report.markup import Markup, join, said, table, tag
from orchestrator.gate.report.positions import positions
from orchestrator.gate.report.words import (
    compared,
    excerpt,
    figure,
    several,
    short,
    title,
)

MOST_DIVERGENCES: Final = 50
_MOST_AT_ONCE = 10
_MOST_CANDIDATES = 5
_MARKS = {"pass": "✓ PASS", "fail": "✕ FAIL", "inconclusive": "? INCONCLUSIVE"}


def page(trial: Trial, texts: Mapping[str, str]) -> str:
    """The whole file. `texts` holds prompts by id.

    Its policy forbids everything but this very style sheet, should any escaping ever fail.
    """
    style = _style()
    allowed = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'sha256-{allowed}'; base-uri 'none'; form-action 'none'"
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", f"{trial.verdict}: {title(trial)}"),
        tag("style", style),
    )
    body = tag("body", _header(trial), tag("main", *_sections(trial, texts)), _footer(trial))
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def _style() -> Markup:
    return Markup(Path(__file__).with_name("style.css").read_text(encoding="utf-8"))


def _header(trial: Trial) -> Markup:
    reasons = [tag("li", reason) for reason in trial.reasons]
    links = (tag("a", name, href=f"#{key}") for key, name in _contents(trial))
    return tag(
        "header",
        tag("div", _MARKS[trial.verdict], class_=f"badge {trial.verdict}"),
        tag("h1", f"{short(trial.candidate)} against {short(trial.baseline)}"),
        tag("p", _subject(trial), class_="muted"),
        tag("ul", *reasons, class_=f"reasons {trial.verdict}"),
        tables.tiles(trial),
        tag("nav", *links, aria_label="sections"),
    )


def _subject(trial: Trial) -> str:
    parts = [short(trial.profile), short(trial.engine), f"policy {trial.policy}"]
    return " · ".join(part for part in parts if part)


def _contents(trial: Trial) -> Iterator[tuple[str, str]]:
    yield "rates", "Rates"
    yield "divergences", "Divergences"
    yield "findings", "Findings"
    yield "speculation", "Speculation"
    yield "sampled", "Sampled output"
    yield "suites", "Suites"
    if trial.notes:
        yield "notes", "Notes"
    yield "launch", "Launch"


def _sections(trial: Trial, texts: Mapping[str, str]) -> Iterator[Markup]:
    pictures = {picture.key: render(picture) for picture in _pictures(trial)}
    parts = {
        "rates": (pictures["forks"],),
        "divergences": (
            pictures["positions"],
            pictures["margins"],
            _list(trial, texts),
            tables.glossary(),
        ),
        "findings": (tables.findings(trial.findings, compared(trial) > 0),),
        "speculation": (pictures["guesses"], tables.arms(trial), *tables.missing(trial)),
        "sampled": (tables.sampled(trial.sampled),),
        "suites": (tables.suites(trial),),
        "notes": (tag("ul", *(tag("li", note) for note in trial.notes)),),
        "launch": (tables.launch_diff(trial),),
    }
    for key, name in _contents(trial):
        yield tag("section", tag("h2", name, id=key), *parts[key], aria_labelledby=key)


def _pictures(trial: Trial) -> Iterator[Figure]:
    for draw in (forks, positions, margins, guesses):
        yield draw(trial)


def _list(trial: Trial, texts: Mapping[str, str]) -> Markup:
    found = worst_first(trial)
    if not found:
        return Markup("")
    shown = found[:MOST_DIVERGENCES]
    rest = (
        f"; the first {len(shown)} are listed, report.json holds all"
        if len(found) > len(shown)
        else ""
    )
    head = tag("h3", f"{several(len(found), 'divergence')}: {kinds_in_words(found)}{rest}")
    items = [_item(d, trial, texts.get(d.prompt)) for d in shown]
    first, others = items[:_MOST_AT_ONCE], items[_MOST_AT_ONCE:]
    listed = tag("ol", *first, class_="list")
    if not others:
        return join((head, listed))
    more = tag("summary", f"{len(others)} more")
    return join((head, listed, tag("details", more, tag("ol", *others, class_="list"))))


def _item(divergence: Divergence, trial: Trial, prompt: str | None) -> Markup:
    d = divergence
    where = tag("p", tag("span", _kind(d, trial), class_="kind"), _where(d))
    return tag("li", where, _swap(d), _prompt(prompt), _candidates(d), class_=d.kind)


def _kind(divergence: Divergence, trial: Trial) -> str:
    if is_of_prompt(divergence):
        return "another prompt"
    excused = ", excused by the policy" if is_excused(divergence, trial.policy) else ""
    return f"{divergence.kind}{excused}"


def _where(divergence: Divergence) -> str:
    d = divergence
    later = "" if d.is_first else " (behind the first of its answer)"
    at_once = f", {d.concurrency} at once" if d.concurrency > 1 else ""
    at = "" if is_of_prompt(d) else f" at {place(d)}{later}"
    arms = " and ".join(d.arms)
    return f" · {short(d.question)} · {short(d.type)}, {d.suite}{at_once} · {arms}{at}"


def _prompt(prompt: str | None) -> Markup:
    words = excerpt(prompt, 120)
    return tag("p", "prompt ends ", said(words), class_="muted") if words else Markup("")


def _swap(divergence: Divergence) -> Markup:
    if is_of_prompt(divergence):
        return tag("p", f"{prompts_in_words(divergence)}: {PROMPT_HINT}")
    plain, found = swap(divergence)
    told = f"{margin(divergence)}; explained by {explanation(divergence)}"
    parts = (tag("span", "plain ", said(plain)), tag("span", "found ", said(found)))
    return tag("p", *parts, tag("span", told, class_="muted"), class_="swap")


def _candidates(divergence: Divergence) -> Markup:
    """What plain thinks comes next there."""
    if not divergence.candidates:
        return Markup("")
    lines = (_candidate(c) for c in divergence.candidates[:_MOST_CANDIDATES])
    told = table(("token", "log-probability"), lines, 1)
    return tag("details", tag("summary", "Plain's likeliest tokens here"), told)


def _candidate(candidate: Candidate) -> tuple[str, str]:
    words = f" {candidate.text[:40]!r}" if candidate.text else ""
    return said(f"{candidate.token}{words}"), figure(candidate.logprob)


def _footer(trial: Trial) -> Markup:
    facts = [f"draftgate {__version__}", trial.created]
    facts += [f"prompts {trial.prompts_digest}"] if trial.prompts_digest else []
    facts += [f"certificate {trial.certificate}"] if trial.certificate else []
    facts += [f"answers {trial.answers_folder}"] if trial.answers_folder else []
    return tag("footer", *(tag("div", fact) for fact in facts if fact))
