"""Divergences in words that all reports share: what was taken, where, how sure plain was."""

import math
from collections.abc import Iterable
from typing import Final

from orchestrator.gate.compare import A_A
from orchestrator.gate.evidence import END, Divergence, Kind, Policy, Trial
from orchestrator.gate.report.words import figure
from orchestrator.gate.verdict import is_numeric

WORST_FIRST: Final[tuple[Kind, ...]] = ("wrong", "suspicious", "unscored", "near-tie", "tie")
PROMPT_HINT: Final = (
    "one engine may have another tokenizer or chat template, add another token at the start, or "
    "have cut the prompt"
)
_LONGEST_TOKEN = 24


def is_of_prompt(divergence: Divergence) -> bool:
    """Whether the arms read different prompts: then no token of the answers was compared."""
    return divergence.position < 0


def prompts_in_words(divergence: Divergence) -> str:
    """What the arms read, where that differs."""
    plain, found = divergence.expected, divergence.found
    lengths = f"{plain:,} and {found:,} tokens" if plain != found else f"{plain:,} tokens each"
    return f"the arms read different prompts ({lengths})"


def sentence(divergence: Divergence) -> str:
    """Which arms differ, where, and in what."""
    arms = " and ".join(divergence.arms)
    if is_of_prompt(divergence):
        return f"{arms}: {prompts_in_words(divergence)}"
    plain, found = swap(divergence)
    where = f"{arms} at {place(divergence)}"
    return f"{where}: plain {plain}, found {found}; {margin(divergence)}"


def token(divergence: Divergence, identity: int) -> str:
    """A token's id, with its text where plain told it."""
    if identity == END:
        return "the end"
    text = next((c.text for c in divergence.candidates if c.token == identity), "")
    return f"{identity} {text[:_LONGEST_TOKEN]!r}" if text else str(identity)


def swap(divergence: Divergence) -> tuple[str, str]:
    """The token that plain has there, and the one that was found."""
    return token(divergence, divergence.expected), token(divergence, divergence.found)


def place(divergence: Divergence) -> str:
    """Where in the answer the arms part."""
    return f"token {divergence.position}"


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
        severity = -1 if is_of_prompt(divergence) else WORST_FIRST.index(divergence.kind)
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
    """ "1 with another prompt, 3 wrong, 1 tie"; "none" without any."""
    found = list(divergences)
    prompts = sum(map(is_of_prompt, found))
    told = [f"{prompts:,} with another prompt"] if prompts else []
    tokens = kinds(divergence for divergence in found if not is_of_prompt(divergence))
    told += [f"{number:,} {kind}" for kind, number in tokens.items()]
    return ", ".join(told) or "none"
