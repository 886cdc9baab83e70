"""The words and figures of a trial that all reports share; what an engine said is made printable.

Prompts and answers may hold anything: escape sequences for terminals, characters that turn the
direction of writing, halves of surrogate pairs. None of these leaves this module unescaped.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from orchestrator.gate.evidence import Arm, Finding, Rate, Trial
from orchestrator.gate.suite import RAN

NOTHING: Final = "Nothing to show: no tokens were compared."
NO_FINGERPRINT: Final = "the engine tells none"
_LONGEST_NAME = 40


def printable(text: str) -> str:
    """The text with every control, format and unpaired character as its escape."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def short(text: str, most: int = _LONGEST_NAME) -> str:
    """One printable line of at most `most` characters; a longer one loses its middle."""
    line = printable(" ".join(text.split()))
    if len(line) <= most:
        return line
    kept = most - 1
    return f"{line[: kept - kept // 2]}…{line[len(line) - kept // 2 :]}"


def excerpt(text: str | None, most: int = 40) -> str:
    """The end of a prompt, quoted: what comes just before the answer; "" where it is not known."""
    if not text:
        return ""
    line = " ".join(text[-8 * most :].split())
    is_cut = len(line) > most or len(text) > 8 * most
    return f"{'…' if is_cut else ''}{line[-most:]!r}"


def figure(value: float | None) -> str:
    """A number to three figures, without an exponent where people would read it badly."""
    if value is None or not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    if abs(value) >= 999.5:
        return f"{value:,.0f}"
    text = f"{value:.3g}"
    return text if "e" not in text or abs(value) < 1e-4 else f"{value:.4f}"


def count(value: float | None) -> str:
    """A counter's value; a dash where the engine has none."""
    return "–" if value is None else f"{value:,.0f}"


def several(number: int, noun: str) -> str:
    """ "1 answer", "2 answers"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def percent(share: float | None) -> str:
    """A share of 1, in per cent."""
    return "–" if share is None else f"{100 * share:.1f} %"


def duration(seconds: float) -> str:
    """Wall time for people."""
    if seconds < 90:
        return f"{seconds:.1f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"


def bounds(rate: Rate) -> str:
    """The 95 % bounds of a rate; with no fork, the upper one alone."""
    if not rate.tokens:
        return "nothing compared"
    if not rate.forks:
        return f"below {figure(rate.high)}"
    return f"{figure(rate.low)} to {figure(rate.high)}"


def of_tokens(rate: Rate) -> str:
    """What a rate was counted from."""
    forks = several(rate.forks, "fork") if rate.forks else "no fork"
    return f"{forks} in {rate.tokens:,} tokens"


def rate_in_words(rate: Rate) -> str:
    """A rate with its bounds; with no fork, the bound alone."""
    return f"{figure(rate.per_1000)} ({bounds(rate)})" if rate.forks else bounds(rate)


def cells(rate: Rate) -> tuple[str, str, str, str]:
    """A rate for a table: tokens, forks, forks per 1,000 tokens, bounds."""
    per_1000 = figure(rate.per_1000) if rate.tokens else "–"
    return f"{rate.tokens:,}", f"{rate.forks:,}", per_1000, bounds(rate)


def compared(trial: Trial) -> int:
    """Tokens that were compared with plain's."""
    return trial.rates["all"].tokens if "all" in trial.rates else 0


def rows(trial: Trial) -> list[tuple[str, Rate]]:
    """Every rate with its name in words, the total first, request types before concurrencies."""
    keys = sorted(trial.rates, key=lambda key: (key != "all") + key.startswith("at "))
    return [(_rate_name(key), trial.rates[key]) for key in keys]


def references(trial: Trial) -> list[tuple[str, Rate]]:
    """What plain does without a drafter: against itself, and at the width of a verify step."""
    pairs = [("plain against itself", trial.noise_rate), ("plain at verify width", trial.wide_rate)]
    return [(name, rate) for name, rate in pairs if rate is not None]


def _rate_name(key: str) -> str:
    if key.startswith("at "):
        return f"{key.removeprefix('at ')} at once"
    name = short(key.removeprefix("type "), 24)
    is_taken = key != "all" and (name == "all" or name.endswith(" at once"))
    return f"type {name}" if is_taken else name


def is_speculating(arm: Arm) -> bool:
    """S1, S2: the arms that must prove that they draft."""
    return arm.name.startswith("S")


def acceptance(arm: Arm) -> float | None:
    """Accepted tokens over drafted ones; None where nothing was drafted or it is not counted."""
    if not arm.drafted or arm.accepted is None:
        return None
    return arm.accepted / arm.drafted


def by_position(arm: Arm) -> tuple[float, ...] | None:
    """Share of verify steps that accepted a guess at each position, where the engine tells both."""
    if not arm.steps or not arm.positions:
        return None
    return tuple(min(1.0, accepted / arm.steps) for accepted in arm.positions)


def speed(arm: Arm) -> str:
    """Tokens per second of the arm's wall time."""
    return f"{arm.tokens / arm.seconds:,.1f}" if arm.seconds > 0 else "–"


def fingerprints(arms: Iterable[Arm]) -> list[tuple[str, str]]:
    """Arms, and what their engine says of itself; "" where it says nothing (NO_FINGERPRINT)."""
    found: dict[str, list[str]] = {}
    for arm in arms:
        found.setdefault(arm.fingerprint, []).append(arm.name)
    return [(", ".join(names), short(told, 160)) for told, names in found.items()]


def finding(found: Finding) -> str:
    """What a check or a screen found, and where."""
    where = f"{short(found.arm)}, {short(found.question)}" if found.question else short(found.arm)
    return f"{short(found.check)}: {where}: {printable(found.message)}"


def not_run(suites: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Why suites did not run, with their names; those with the same reason together."""
    why: dict[str, list[str]] = {}
    for suite, outcome in suites.items():
        if outcome != RAN:
            why.setdefault(outcome, []).append(suite)
    for reason, names in why.items():
        yield ", ".join(names), printable(reason)


def title(trial: Trial) -> str:
    """Who was tried against whom."""
    profile = f" ({short(trial.profile)} on {short(trial.engine)})" if trial.profile else ""
    return f"{short(trial.candidate)}{profile} against {short(trial.baseline)}"
