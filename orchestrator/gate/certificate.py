"""Certificate: the gate's verdict for exactly one engine build, weights and rendered launch."""

import json
import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from adapters.draft import draft_of
from adapters.profile import Drafted
from orchestrator import __version__
from orchestrator.deployment import Member
from orchestrator.errors import OrchestratorError
from orchestrator.gate.compare import Arm, Comparison
from orchestrator.weights import weights_digest

FORMAT = 1
_AGAIN = "run `draftgate gate`, then start the router again"


def subject(member: Member) -> dict[str, Any]:
    """What a certificate is about. Two workers with equal subjects need one certificate.

    Weights are digested (once: digests are remembered); hub ids stand for themselves.
    """
    model, spec = member.spec.model, member.profile.speculation
    draft = draft_of(member.profile, model)
    return {
        "engine": {"name": member.entry.engine, "version": member.spec.engine_version},
        "model": model.name,
        "weights": {
            "target": weights_digest(model.target) or f"{model.target}@{model.revision or 'main'}",
            "draft": (weights_digest(draft) or draft) if draft else None,
        },
        "profile": member.profile.profile,
        "method": spec.method,
        "gamma": spec.gamma if isinstance(spec, Drafted) else None,
        "launch": _launch(member),
    }


def make_certificate(
    baseline: Member,
    candidate: Member,
    arms: list[Arm],
    comparison: Comparison,
    prompts: dict[str, Any],
) -> dict[str, Any]:
    """Everything that the verdict rests on, as JSON data."""
    return {
        "format": FORMAT,
        "draftgate": __version__,
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "verdict": comparison.verdict,
        "policy": "strict",
        "reasons": list(comparison.reasons),
        "subject": subject(candidate),
        "arguments": list(candidate.launch.arguments),
        "baseline": {"worker": baseline.name, "arguments": list(baseline.launch.arguments)},
        "prompts": prompts,
        "concurrency": 1,
        "tokens_compared": comparison.tokens,
        "forks_per_1000_tokens_below": comparison.bound_per_1000,
        "arms": [_arm_json(arm) for arm in arms],
        "divergences": [asdict(d) for d in comparison.divergences],
    }


def _arm_json(arm: Arm) -> dict[str, Any]:
    return {
        "name": arm.name,
        "tokens": arm.tokens,
        "seconds": round(arm.seconds, 3),
        "drafted": arm.drafted,
        "accepted": arm.accepted,
    }


def certificate_path(folder: Path, member: Member) -> Path:
    """One file for each launch of a profile; `@` cannot stand in the names of it."""
    return folder / f"{_stem(member)}@{_launch(member)[:12]}.json"


def _stem(member: Member) -> str:
    return f"{member.profile.profile}@{member.spec.model.name}@{member.entry.engine}"


def _launch(member: Member) -> str:
    draft = draft_of(member.profile, member.spec.model)
    return member.launch.digest({draft: "draft"} if draft else {})


def require_writable(folder: Path) -> None:
    """Raises OrchestratorError when certificates cannot be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".{os.getpid()}.part"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise OrchestratorError(f"{folder} cannot be written: {error.strerror}") from error


def write_certificate(path: Path, certificate: dict[str, Any]) -> None:
    """Whole or not at all. Raises OrchestratorError when it cannot be written."""
    part = path.with_suffix(".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps(certificate, indent=1) + "\n")
        part.replace(path)
    except OSError as error:
        raise OrchestratorError(f"{path} cannot be written: {error.strerror}") from error


def objection(folder: Path, member: Member) -> str | None:
    """Why this worker may not be routed to by its certificate; None when it may."""
    if not member.profile.is_speculating:
        return None
    path = _nearest(folder, member)
    if path is None:
        return f"it has no certificate; {_AGAIN}"
    try:
        certificate = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        return f"the certificate {path.name} cannot be read: {error}"
    if not isinstance(certificate, dict) or certificate.get("format") != FORMAT:
        return f"{path.name} is not a certificate that this version reads"
    proved, now = certificate.get("subject"), subject(member)
    changed = [key for key in now if not isinstance(proved, dict) or proved.get(key) != now[key]]
    if changed:
        return f"the certificate is for another {', '.join(changed)}; {_AGAIN}"
    if certificate.get("verdict") != "pass":
        return f"the gate's verdict is {certificate.get('verdict')}"
    return None


def _nearest(folder: Path, member: Member) -> Path | None:
    """This launch's certificate, else the newest of the profile, to say what changed since."""
    path = certificate_path(folder, member)
    if path.exists():
        return path
    others = sorted(folder.glob(f"{_stem(member)}@*.json"), key=lambda p: p.stat().st_mtime)
    return others[-1] if others else None
