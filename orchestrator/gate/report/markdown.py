"""The outcome as a comment on a pull request, for GitHub's and GitLab's Markdown.

Whatever an engine or a file said stands in <code>, each character that Markdown or HTML could read
as its own written as an entity: it cannot end a table's cell, start a tag, link or name a person.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from orchestrator.gate.evidence import Divergence, Rate, Trial, Verdict
from orchestrator.gate.report.words import (
    bounds,
    excerpt,
    explanation,
    figure,
    kinds_in_words,
    margin,
    not_run,
    place,
    printable,
    references,
    rows,
    several,
    short,
    swap,
    worst_first,
)

MOST_DIVERGENCES: Final = 5
LONGEST_COMMENT: Final = 60_000  # characters; GitHub takes 65,536
_MOST_FINDINGS = 5
_MOST_RATES = 40
_MOST_DIFF_LINES = 80
_LONGEST_LINE = 300
_MARKS: Mapping[Verdict, str] = {"pass": "✅", "fail": "❌", "inconclusive": "⚠️"}
# What may start or end a tag, an entity, a cell, a span, a link, a formula or a name; and the dot
# and colon that make links of bare addresses.
_ACTIVE = re.compile(r"[&<>|`@#!*_\[\]{}~\\$:^]|(?<=www)\.", re.IGNORECASE)
_ZERO_WIDTH_SPACE = "&#8203;"


def markdown(trial: Trial, texts: Mapping[str, str]) -> str:
    """The comment. `texts` holds prompts by id."""
    blocks = (
        _verdict(trial),
        _reasons(trial),
        _rates(trial),
        _divergences(trial, texts),
        _findings(trial),
        _sampled(trial),
        _limits(trial),
        _launch_diff(trial),
        _footer(trial),
    )
    kept: list[str] = []
    for block in map("\n".join, blocks):
        if sum(map(len, kept)) + len(block) > LONGEST_COMMENT:
            kept.append("*The rest is too long for a comment; report.html holds it.*")
            break
        kept += [block] if block else []
    return "\n\n".join(kept) + "\n"


def safe(text: str) -> str:
    """Foreign text for running Markdown: one line without a character of meaning.

    The zero-width space after @, # and ! is for renderers that look for people and issues when
    entities are resolved already.
    """
    line = " ".join(printable(text).split())
    return _ACTIVE.sub(_entity, line)


def _entity(found: re.Match[str]) -> str:
    after = _ZERO_WIDTH_SPACE if found[0] in "@#!" else ""
    return f"&#{ord(found[0])};{after}"


def _code(text: str) -> str:
    return f"<code>{safe(text)}</code>" if text else ""


def _table(head: Sequence[str], lines: Iterable[Sequence[str]], numbers: int = 0) -> Iterator[str]:
    """Cells are Markdown already; the last `numbers` columns are figures."""
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * (len(head) - numbers)}{' ---: |' * numbers}"
    yield from (f"| {' | '.join(line)} |" for line in lines)


def _verdict(trial: Trial) -> Iterator[str]:
    who = f"{_code(short(trial.candidate))} against {_code(short(trial.baseline))}"
    yield f"### {_MARKS[trial.verdict]} draftgate: {trial.verdict.upper()} – {who}"
    yield ""
    where = [_code(short(trial.profile)), _code(short(trial.engine))]
    yield f"{' on '.join(part for part in where if part)}, policy **{trial.policy}**"


def _reasons(trial: Trial) -> Iterator[str]:
    yield from (f"- {safe(reason[:_LONGEST_LINE])}" for reason in trial.reasons[:10])


def _rates(trial: Trial) -> Iterator[str]:
    named = rows(trial)[:_MOST_RATES]
    if not named:
        return
    head = ("requests", "tokens", "forks", "per 1,000 tokens", "95 % bounds")
    yield from _table(head, (_rate(*row) for row in [*named, *references(trial)]), 4)


def _rate(name: str, rate: Rate) -> Sequence[str]:
    per_1000 = figure(rate.per_1000) if rate.tokens else "–"
    return safe(name), f"{rate.tokens:,}", f"{rate.forks:,}", per_1000, bounds(rate)


def _divergences(trial: Trial, texts: Mapping[str, str]) -> Iterator[str]:
    found = worst_first(trial)
    if not found:
        if trial.verdict == "pass":
            yield "No answer left plain's."
        return
    shown = found[:MOST_DIVERGENCES]
    first = f", the first {len(shown)}" if len(found) > len(shown) else ""
    yield f"**{several(len(found), 'divergence')}** ({kinds_in_words(found)}){first}:"
    yield ""
    head = ("question", "prompt ends", "arms", "at", "plain", "found", "class", "margin")
    yield from _table((*head, "explained by"), (_divergence(d, texts) for d in shown))


def _divergence(divergence: Divergence, texts: Mapping[str, str]) -> Sequence[str]:
    d = divergence
    return (
        _code(short(d.question)),
        _code(excerpt(texts.get(d.prompt))),
        safe(", ".join(d.arms)),
        place(d),
        *map(_code, swap(d)),
        f"**{d.kind}**",
        margin(d),
        safe(explanation(d)),
    )


def _findings(trial: Trial) -> Iterator[str]:
    if not trial.findings:
        return
    yield f"**{several(len(trial.findings), 'finding')} of checks and screens**:"
    yield ""
    for found in trial.findings[:_MOST_FINDINGS]:
        where = f"{_code(short(found.arm))}, {_code(short(found.question))}"
        message = _code(found.message[:_LONGEST_LINE])
        yield f"- {safe(short(found.check))}: {where}: {message}"
    if len(trial.findings) > _MOST_FINDINGS:
        yield f"- and {len(trial.findings) - _MOST_FINDINGS} more"


def _sampled(trial: Trial) -> Iterator[str]:
    sampled = trial.sampled
    if sampled is None:
        return
    yield (
        f"**Sampled output** at temperature {figure(sampled.temperature)}: {sampled.verdict}; "
        f"p-values {figure(sampled.p_value)} (next tokens) and {figure(sampled.mmd_p_value)} "
        f"(strings) at α {figure(sampled.alpha)}; a total variation distance of "
        f"{figure(sampled.detectable)} would have been seen with 80 % probability. "
        f"{safe(sampled.message[:_LONGEST_LINE])}"
    )


def _limits(trial: Trial) -> Iterator[str]:
    """What was not shown."""
    yield from (f"- not run: {safe(names)}: {safe(why)}" for names, why in not_run(trial.suites))
    yield from (f"- {safe(note[:_LONGEST_LINE])}" for note in trial.notes[:10])


def _launch_diff(trial: Trial) -> Iterator[str]:
    """A fence longer than any run of backticks inside cannot be closed from inside."""
    if not trial.launch_diff:
        return
    lines = [printable(line[:_LONGEST_LINE]) for line in trial.launch_diff[:_MOST_DIFF_LINES]]
    longest = max(len(run) for line in lines for run in ("", *re.findall("`+", line)))
    fence = "`" * max(3, longest + 1)
    total = len(trial.launch_diff)
    yield f"<details><summary>Launch diff, {several(total, 'line')}</summary>"
    yield ""
    yield f"{fence}diff"
    yield from lines
    yield fence
    yield ""
    yield "</details>"


def _footer(trial: Trial) -> Iterator[str]:
    facts = [f"prompts {_code(trial.prompts_digest[:16])}"] if trial.prompts_digest else []
    if trial.certificate:
        facts.append(f"certificate {_code(trial.certificate)}")
    if trial.answers_folder:
        facts.append(f"answers {_code(trial.answers_folder)}")
    if facts:
        yield f"<sub>{' · '.join(facts)}</sub>"
