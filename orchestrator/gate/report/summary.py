"""The gate's outcome for a terminal: at most 25 lines of a pass, 45 of anything else."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from types import MappingProxyType

from orchestrator.gate.evidence import Arm, Divergence, Rate, Sampled, Trial
from orchestrator.gate.report.divergence import (
    PROMPT_HINT,
    explanation,
    is_of_prompt,
    is_outside,
    kinds,
    sentence,
    worst_first,
)
from orchestrator.gate.report.sampled import headline, sentences
from orchestrator.gate.report.words import (
    acceptance,
    count,
    excerpt,
    figure,
    finding,
    is_speculating,
    not_run,
    of_tokens,
    percent,
    printable,
    rate_in_words,
    references,
    rows,
    several,
    short,
    speed,
    title,
)

_WIDEST = 200
_NONE: Mapping[str, Path] = MappingProxyType({})


def summary_lines(
    trial: Trial, texts: Mapping[str, str], reports: Mapping[str, Path] = _NONE
) -> Iterator[str]:
    """The verdict, why, and what it rests on. `texts` holds prompts by id; `reports`, the files
    that write_reports wrote."""
    is_pass = trial.verdict == "pass"
    yield f"{title(trial)}, policy {trial.policy}: {trial.verdict.upper()}"
    sections = (
        _few((printable(reason) for reason in trial.reasons), 3 if is_pass else 5),
        _few((_arm_line(arm) for arm in trial.arms), 4),
        _rate_lines(trial, 5),
        _few(_divergence_lines(trial, texts), 2 if is_pass else 13),
        _few(map(finding, trial.findings), 4),
        _sampled_lines(trial.sampled),
        _few((f"not run: {names}: {why}" for names, why in not_run(trial.suites)), 2),
        _few((f"note: {printable(note)}" for note in trial.notes), 3 if is_pass else 2),
        _file_lines(trial, reports),
    )
    for line in chain.from_iterable(sections):
        yield f"  {line[:_WIDEST]}"


def _few(lines: Iterable[str], most: int) -> Iterator[str]:
    """At most `most` lines; the last of them says how many were left out."""
    found = list(lines)
    if len(found) <= most:
        yield from found
    elif most > 1:
        yield from found[: most - 1]
        yield f"… and {len(found) - most + 1} more like this in the report"
    else:
        yield found[0]


def _arm_line(arm: Arm) -> str:
    worker = f" {short(arm.worker)}" if arm.worker else ""
    line = f"{arm.name}{worker}: {arm.tokens:,} tokens, {speed(arm)} tokens/s"
    if arm.drafted:
        accepted = f"{count(arm.accepted)} of {count(arm.drafted)} drafted tokens accepted"
        line += f", {accepted} ({percent(acceptance(arm))})"
    elif is_speculating(arm):
        line += ", drafts not counted" if arm.drafted is None else ", nothing drafted"
    return f"{line}, {len(arm.errors)} without an answer" if arm.errors else line


def _rate_lines(trial: Trial, most: int) -> Iterator[str]:
    """The total, what plain does by itself, then the highest of the others."""
    named = rows(trial)
    total = [row for row in named if row[0] == "all"]
    others = sorted((row for row in named if row[0] != "all"), key=lambda row: -row[1].high)
    shown = [*total, *references(trial), *others]
    if not shown:
        return
    yield "forks per 1,000 tokens (95 % bounds):"
    width = max(len(name) for name, _ in shown[:most])
    yield from (f"  {line}" for line in _few((_rate_line(*row, width) for row in shown), most))


def _rate_line(name: str, rate: Rate, width: int) -> str:
    return f"{name:<{width}}  {rate_in_words(rate)}, {of_tokens(rate)}"


def _divergence_lines(trial: Trial, texts: Mapping[str, str]) -> Iterator[str]:
    """By class: how many, how large, what explains them, and the first examples of each.

    Prompts that were read differently come first: what follows from them is no fault of guessing.
    """
    prompts = [divergence for divergence in trial.divergences if is_of_prompt(divergence)]
    if prompts:
        yield f"{several(len(prompts), 'question')} with another prompt: {PROMPT_HINT}"
        yield from (f"  {_example(divergence, texts)}" for divergence in prompts[:1])
    found = [divergence for divergence in worst_first(trial) if not is_of_prompt(divergence)]
    for number, kind in enumerate(kinds(found)):
        members = [divergence for divergence in found if divergence.kind == kind]
        yield f"{len(members):,} {kind}: {_sizes(members)}; {_explained(members)}"
        examples = islice(members, 1 if number else 2)
        yield from (f"  {_example(divergence, texts)}" for divergence in examples)


def _explained(members: Sequence[Divergence]) -> str:
    """What takes the same tokens without a drafter, with numbers where it is not one for all."""
    by = Counter(explanation(divergence) for divergence in members)
    if len(by) == 1:
        return f"explained by {next(iter(by))}"
    return f"explained by {', '.join(f'{why}: {n:,}' for why, n in by.most_common())}"


def _sizes(members: Sequence[Divergence]) -> str:
    first = sum(1 for d in members if d.is_first)
    parts = [several(first, "first fork")]
    margins = [d.margin for d in members if d.margin is not None and math.isfinite(d.margin)]
    if margins:
        least, greatest = figure(min(margins)), figure(max(margins))
        sizes = f"margins {least} to {greatest}" if least != greatest else f"margin {least}"
        parts.append(f"{sizes} nats")
    if outside := sum(1 for d in members if is_outside(d)):
        parts.append(f"{outside:,} outside what plain told")
    return ", ".join(parts)


def _example(divergence: Divergence, texts: Mapping[str, str]) -> str:
    words = excerpt(texts.get(divergence.prompt), 30)
    return f"{short(divergence.question)} {words}: {sentence(divergence)}"


def _sampled_lines(sampled: Sampled | None) -> Iterator[str]:
    if sampled is None:
        return
    yield headline(sampled)
    yield from (f"  {sentence}" for sentence in sentences(sampled))
    if sampled.verdict != "pass" and sampled.worst:
        yield f"  differs most: {'; '.join(short(worst, 60) for worst in sampled.worst[:3])}"


def _file_lines(trial: Trial, reports: Mapping[str, Path]) -> Iterator[str]:
    if reports:
        folder = printable(str(next(iter(reports.values())).parent))
        yield f"reports: {folder}: {', '.join(path.name for path in reports.values())}"
    if trial.answers_folder:
        yield f"answers: {printable(trial.answers_folder)}"
    if trial.certificate:
        yield f"certificate: {printable(trial.certificate)}"
    if trial.verdict == "fail":
        yield 'what to do: docs/gate.md, under "Why greedy output differs without a bug"'
