"""The outcome as a comment on a pull request, for GitHub's and GitLab's Markdown.

Whatever an engine or a file said stands in <code>, each character that Markdown or HTML could read
as its own written as an entity: it cannot end a table's cell, start a tag, link or name a person.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from orchestrator.gate.evidence import Divergence, Finding, Trial, Verdict
from orchestrator.gate.report.divergence import (
    PROMPT_HINT,
    explanation,
    is_of_prompt,
    kinds_in_words,
    margin,
    place,
    sentence,
    swap,
    worst_first,
)
from orchestrator.gate.report.sampled import headline, sentences
from orchestrator.gate.report.words import (
    NO_FINGERPRINT,
    cells,
    excerpt,
    fingerprints,
    not_run,
    printable,
    references,
    rows,
    several,
    short,
)

MOST_DIVERGENCES: Final = 5
LONGEST_COMMENT: Final = 60_000  # characters; GitHub takes 65,536
_MOST_LISTED = 5
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
        _prompts(trial),
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
    lines = ((safe(name), *cells(rate)) for name, rate in [*named, *references(trial)])
    yield from _table(head, lines, 4)


def _prompts(trial: Trial) -> Iterator[str]:
    found = [d for d in worst_first(trial) if is_of_prompt(d)]
    if not found:
        return
    yield f"**{several(len(found), 'question')} with another prompt**: {safe(PROMPT_HINT)}."
    yield ""
    yield from (f"- {_code(short(d.question))}: {safe(sentence(d))}" for d in found[:_MOST_LISTED])
    yield from _more(found)


def _divergences(trial: Trial, texts: Mapping[str, str]) -> Iterator[str]:
    found = [d for d in worst_first(trial) if not is_of_prompt(d)]
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
    yield from map(_finding, trial.findings[:_MOST_LISTED])
    yield from _more(trial.findings)


def _finding(found: Finding) -> str:
    where = f"{_code(short(found.arm))}, {_code(short(found.question))}"
    return f"- {safe(short(found.check))}: {where}: {_code(found.message[:_LONGEST_LINE])}"


def _more(found: Sequence[object]) -> Iterator[str]:
    if len(found) > _MOST_LISTED:
        yield f"- and {len(found) - _MOST_LISTED} more"


def _sampled(trial: Trial) -> Iterator[str]:
    if trial.sampled is None:
        return
    yield f"**{safe(headline(trial.sampled)[:_LONGEST_LINE])}**"
    yield ""
    yield from (f"- {safe(sentence)}" for sentence in sentences(trial.sampled))


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
    facts += [
        f"fingerprint of {names}: {_code(told) or NO_FINGERPRINT}"
        for names, told in fingerprints(trial.arms)
    ]
    if trial.certificate:
        facts.append(f"certificate {_code(trial.certificate)}")
    if trial.answers_folder:
        facts.append(f"answers {_code(trial.answers_folder)}")
    if facts:
        yield f"<sub>{' · '.join(facts)}</sub>"
