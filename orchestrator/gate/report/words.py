"""The words and figures of a trial that all reports share; what an engine said is made printable.

Prompts and answers may hold anything: escape sequences for terminals, characters that turn the
direction of writing, halves of surrogate pairs. None of these leaves this module unescaped.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from orchestrator.gate.compare import A_A
from orchestrator.gate.evidence import END, Arm, Divergence, Kind, Policy, Rate, Trial
from orchestrator.gate.suite import RAN
from orchestrator.gate.verdict import is_numeric

WORST_FIRST: Final[tuple[Kind, ...]] = ("wrong", "suspicious", "unscored", "near-tie", "tie")
NOTHING: Final = "Nothing to show: no tokens were compared."
_LONGEST_NAME = 40
_LONGEST_TOKEN = 24


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


def token(divergence: Divergence, identity: int) -> str:
    """A token's id, with its text where plain told it."""
    if identity == END:
        return "the end"
    text = next((c.text for c in divergence.candidates if c.token == identity), "")
    return f"{identity} {text[:_LONGEST_TOKEN]!r}" if text else str(identity)


def swap(divergence: Divergence) -> tuple[str, str]:
    """What plain has there and what was found; of prompts read otherwise, how long they are."""
    if divergence.position < 0:
        return f"{divergence.expected:,} tokens", f"{divergence.found:,} tokens"
    return token(divergence, divergence.expected), token(divergence, divergence.found)


def place(divergence: Divergence) -> str:
    """Where in the answer the arms part."""
    return "the prompt" if divergence.position < 0 else f"token {divergence.position}"


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


def is_outside(divergence: Divergence) -> bool:
    """Plain told its likeliest tokens, and the one found was not among them.

    An end is not among them either way: it is no token.
    """
    is_told = bool(divergence.candidates) and divergence.margin is None
    return divergence.found != END and (is_told or divergence.margin == math.inf)


def margin(divergence: Divergence) -> str:
    """How much plain prefers its own token, in nats and in units of the logits' precision."""
    if is_outside(divergence):
        return f"outside plain's {len(divergence.candidates)} likeliest"
    if divergence.margin is None:
        return "an end has no margin" if divergence.found == END else "not scored"
    told = figure(divergence.units)
    units = "" if told == "–" else f" ({told} unit{'' if told == '1' else 's'})"
    return f"{figure(divergence.margin)} nats{units}"


def explanation(divergence: Divergence) -> str:
    """What takes the same token without a drafter."""
    return " and ".join(divergence.explained) or "nothing"


def is_excused(divergence: Divergence, policy: Policy) -> bool:
    """Whether the policy lets this one difference pass. Rates and totals are judged elsewhere."""
    return A_A in divergence.explained if policy == "strict" else is_numeric(divergence)


def worst_first(trial: Trial) -> list[Divergence]:
    """The divergences in the order in which people should read them."""

    def order(divergence: Divergence) -> tuple[bool, int, bool, float, str, int]:
        is_another_prompt = divergence.position < 0
        severity = -1 if is_another_prompt else WORST_FIRST.index(divergence.kind)
        size = -math.inf if is_outside(divergence) else -(divergence.margin or 0.0)
        is_later = not divergence.is_first
        excused = is_excused(divergence, trial.policy)
        return excused, severity, is_later, size, divergence.question, divergence.position

    return sorted(trial.divergences, key=order)


def kinds(divergences: Iterable[Divergence]) -> dict[Kind, int]:
    """How many there are of each kind, the worst first; kinds without one are left out."""
    found = [divergence.kind for divergence in divergences]
    return {kind: found.count(kind) for kind in WORST_FIRST if kind in found}


def kinds_in_words(divergences: Iterable[Divergence]) -> str:
    """ "3 wrong, 1 tie"; "none" without any."""
    return ", ".join(f"{n:,} {kind}" for kind, n in kinds(divergences).items()) or "none"


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
