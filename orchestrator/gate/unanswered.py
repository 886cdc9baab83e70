"""Prompts that an engine gave no answer to, with the lines of their files that must be mended."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from orchestrator.gate.evidence import Trial
from orchestrator.gate.prompt import Prompt, told_prompt

_MOST = 3


@dataclass
class _Lack:
    """What the engine said first, and in which arms an answer is missing."""

    why: str
    arms: list[str] = field(default_factory=list)


def unanswered(trial: Trial, prompts: Sequence[Prompt]) -> list[str]:
    """Each such prompt in words, the first few of many. Suites that plain does not serve at all are
    told elsewhere."""
    lacks: dict[str, _Lack] = {}
    for arm in trial.arms:
        for name, why in arm.errors.items():
            if name in trial.questions:
                lack = lacks.setdefault(trial.questions[name].prompt, _Lack(why))
                lack.arms += [] if arm.name in lack.arms else [arm.name]
    told = [(told_prompt(p), lacks[p.id]) for p in prompts if p.id in lacks]
    lines = [f"{who}: no answer in {', '.join(of.arms)}: {of.why}" for who, of in told[:_MOST]]
    if len(told) > _MOST:
        lines.append(f"no answer either to some questions of {len(told) - _MOST} more prompts")
    return lines
