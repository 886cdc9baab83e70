"""The outcome as JSON data. Its keys are documented in docs/gate-reports.md and stay."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from orchestrator import __version__
from orchestrator.gate.evidence import Arm, Divergence, Question, Trial
from orchestrator.gate.report.divergence import is_excused, kinds, sentence
from orchestrator.gate.report.words import acceptance, by_position
from orchestrator.gate.suite import RAN

FORMAT: Final = 1
MOST_CANDIDATES: Final = 5


def as_json(trial: Trial) -> dict[str, Any]:
    """Everything but prompts and answers, which are in the folder of answers.

    A number that JSON has no word for (NaN, infinity) is null.
    """
    data: dict[str, Any] = _finite(
        {
            "format": FORMAT,
            "draftgate": __version__,
            "created": trial.created,
            "candidate": trial.candidate,
            "baseline": trial.baseline,
            "engine": trial.engine,
            "profile": trial.profile,
            "policy": trial.policy,
            "verdict": trial.verdict,
            "reasons": trial.reasons,
            "arms": [_arm(arm) for arm in trial.arms],
            "rates": {name: asdict(rate) for name, rate in trial.rates.items()},
            "noise_rate": asdict(trial.noise_rate) if trial.noise_rate else None,
            "wide_rate": asdict(trial.wide_rate) if trial.wide_rate else None,
            "precision": asdict(trial.precision) if trial.precision else None,
            "kinds": kinds(trial.divergences),
            "divergences": [_divergence(d, trial) for d in trial.divergences],
            "noise": [_divergence(d, trial) for d in trial.noise],
            "findings": [asdict(finding) for finding in trial.findings],
            "sampled": asdict(trial.sampled) if trial.sampled else None,
            "suites": _suites(trial),
            "questions": [_question(question) for question in trial.questions.values()],
            "notes": trial.notes,
            "launch_diff": trial.launch_diff,
            "prompts_digest": trial.prompts_digest,
            "wall_seconds": trial.wall_seconds,
            "certificate": trial.certificate,
            "answers_folder": trial.answers_folder,
        }
    )
    return data


def _arm(arm: Arm) -> dict[str, Any]:
    return {
        "name": arm.name,
        "worker": arm.worker,
        "tokens": arm.tokens,
        "seconds": round(arm.seconds, 3),
        "answered": sum(1 for answer in arm.answers.values() if answer is not None),
        "errors": dict(arm.errors),
        "drafted": arm.drafted,
        "accepted": arm.accepted,
        "steps": arm.steps,
        "positions": arm.positions,
        "acceptance_rate": acceptance(arm),
        "acceptance_by_position": by_position(arm),
        "fingerprint": arm.fingerprint or None,
        "boots": arm.boots,
    }


def _divergence(divergence: Divergence, trial: Trial) -> dict[str, Any]:
    """With plain's likeliest candidates, and the two tokens in question wherever they rank."""
    asked = {divergence.expected, divergence.found}
    kept = [
        asdict(candidate)
        for rank, candidate in enumerate(divergence.candidates)
        if rank < MOST_CANDIDATES or candidate.token in asked
    ]
    return {
        **{k: v for k, v in vars(divergence).items() if k != "candidates"},
        "sentence": sentence(divergence),
        "excused": is_excused(divergence, trial.policy),
        "candidates": kept,
        "candidates_told": len(divergence.candidates),
    }


def _question(question: Question) -> dict[str, Any]:
    return {
        "id": question.id,
        "prompt": question.prompt,
        "type": question.type,
        "suite": question.suite,
        "concurrency": question.concurrency,
        "follows": question.follows,
        "note": question.note,
    }


def _suites(trial: Trial) -> dict[str, Any]:
    return {
        suite: {"ran": outcome == RAN, "why_not": None if outcome == RAN else outcome}
        for suite, outcome in trial.suites.items()
    }


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(inner) for key, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_finite(inner) for inner in value]
    return value
