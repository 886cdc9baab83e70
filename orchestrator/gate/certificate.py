"""Certificate: the gate's verdict for exactly one engine build, weights and rendered launch.

The file holds the certificate, the digest of its canonical form, and a signature of that digest.
"""

import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from orchestrator import __version__
from orchestrator.deployment import Deployment, Member
from orchestrator.errors import InputError, OrchestratorError
from orchestrator.gate.canonical import digest, finite, parse
from orchestrator.gate.evidence import Arm, Divergence, Trial
from orchestrator.gate.signature import SigningKey
from orchestrator.gate.subject import launch_digest, rendered, subject
from orchestrator.hardware import noted

FORMAT = 2
MOST_KEPT = 100  # of divergences, noise and findings: the reports hold all
LARGEST = 2**24  # bytes of a file that is read
BESIDE = ".inconclusive.json"
PARTIAL = ".partial.json"  # a pass that shows less than its fleet asks for


@dataclass(frozen=True)
class Certificate:
    """A certificate as it was read. `is_intact`: the digest is the content's."""

    path: Path
    data: dict[str, Any]
    digest: str
    signature: Any

    @property
    def content_digest(self) -> str | None:
        """The digest of what it holds; None where that has no canonical form."""
        try:
            return digest(self.data)
        except ValueError:
            return None

    @property
    def is_intact(self) -> bool:
        """Whether nobody has edited it since."""
        return self.content_digest == self.digest

    @property
    def verdict(self) -> str:
        return str(self.data.get("verdict"))


def make_certificate(trial: Trial, baseline: Member, candidate: Member) -> dict[str, Any]:
    """Everything that the verdict rests on, as JSON data; null for numbers that are not finite."""
    about = subject(candidate)
    created = trial.created or time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    data = {
        "format": FORMAT,
        "draftgate": __version__,
        "created": created,
        "verdict": trial.verdict,
        "policy": trial.policy,
        "reasons": trial.reasons,
        "notes": [*trial.notes, *_unnamed_revisions(about)],
        "subject": about,
        "rendered": rendered(candidate),
        "baseline": {
            "worker": baseline.name,
            "arguments": baseline.launch.arguments,
            "launch": launch_digest(baseline),
        },
        "launch_diff": trial.launch_diff,
        "machine": noted(),
        **_evidence(trial),
    }
    found: dict[str, Any] = finite(data)
    return found


def _evidence(trial: Trial) -> dict[str, Any]:
    """What was asked, and what was found."""
    names = {question.prompt for question in trial.questions.values()}
    return {
        "prompts": {
            "digest": trial.prompts_digest,
            "count": len(names),
            "source": trial.prompts_source,
        },
        "questions": len(trial.questions),
        "suites": dict(trial.suites),
        "arms": [_arm(arm) for arm in trial.arms],
        "rates": {name: asdict(rate) for name, rate in trial.rates.items()},
        "noise_rate": asdict(trial.noise_rate) if trial.noise_rate else None,
        "wide_rate": asdict(trial.wide_rate) if trial.wide_rate else None,
        "precision": asdict(trial.precision) if trial.precision else None,
        "sampled": asdict(trial.sampled) if trial.sampled else None,
        "findings": _kept([asdict(finding) for finding in trial.findings]),
        "divergences": _kept([_divergence(d) for d in trial.divergences]),
        "noise": _kept([_divergence(d) for d in trial.noise]),
        "seconds": round(trial.wall_seconds, 3),
    }


def _arm(arm: Arm) -> dict[str, Any]:
    return {
        "name": arm.name,
        "worker": arm.worker,
        "boots": arm.boots,
        "fingerprint": arm.fingerprint or None,
        "seconds": round(arm.seconds, 3),
        "tokens": arm.tokens,
        "answers": sum(1 for answer in arm.answers.values() if answer),
        "unanswered": sum(1 for answer in arm.answers.values() if not answer),
        "drafted": arm.drafted,
        "accepted": arm.accepted,
        "steps": arm.steps,
        "positions": arm.positions,
    }


def _divergence(found: Divergence) -> dict[str, Any]:
    """Without the candidates that plain told: reports and raw answers hold them."""
    data = asdict(found)
    del data["candidates"]
    return data


def _kept(found: Sequence[Any]) -> dict[str, Any]:
    """The first of them, and how many more there are."""
    return {"kept": list(found[:MOST_KEPT]), "more": max(0, len(found) - MOST_KEPT)}


def _unnamed_revisions(about: dict[str, Any]) -> list[str]:
    """Notes on weights that are bound to a name only."""
    named = [about["weights"][key] for key in ("target", "draft")]
    loose = [w for w in named if w and not w.startswith("sha256:") and _is_loose(w)]
    return [f"{w} names no commit: what it stands for may change unseen" for w in loose]


def _is_loose(hub: str) -> bool:
    """A commit's name is 40 hex digits; any other revision can move."""
    revision = hub.partition("@")[2]
    return len(revision) != 40 or not set("0123456789abcdef").issuperset(revision)


def certificate_folder(deployment: Deployment) -> Path:
    """Where the fleet keeps its certificates."""
    return deployment.file.resolve().parent / deployment.require().gate.certificates


def certificate_path(folder: Path, member: Member) -> Path:
    """One file for each launch of a profile; `@` cannot stand in the names of it."""
    return folder / f"{stem(member)}@{launch_digest(member)[:12]}.json"


def stem(member: Member) -> str:
    """How the names of all certificates of this profile, model and engine begin."""
    return f"{member.profile.profile}@{member.spec.model.name}@{member.entry.engine}"


def require_writable(folder: Path) -> None:
    """Raises OrchestratorError when certificates cannot be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".{os.getpid()}.part"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise OrchestratorError(f"{folder} cannot be written: {error.strerror}") from error


def write_certificate(path: Path, data: dict[str, Any], key: SigningKey | None = None) -> Path:
    """Whole or not at all; returns where it stands.

    "Nothing was shown" takes nothing away from an earlier pass for the same subject: such a
    certificate is written beside it, `.inconclusive.json`. A fail replaces whatever is there.
    Raises OrchestratorError when it cannot be written.
    """
    about = digest(data)
    whole = {"certificate": data, "digest": about, "signature": key.sign(about) if key else None}
    if data["verdict"] == "inconclusive" and _is_passed(path, data):
        path = path.with_name(path.name.removesuffix(".json") + BESIDE)
    part = path.with_suffix(f".{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise OrchestratorError(f"{path} cannot be written: {error.strerror}") from error
    return path


def _is_passed(path: Path, data: dict[str, Any]) -> bool:
    """Whether a sound pass of this version for the same subject stands there."""
    try:
        earlier = read_certificate(path)
    except InputError:
        return False
    same = all(earlier.data.get(key) == data[key] for key in ("subject", "draftgate"))
    return earlier.verdict == "pass" and earlier.is_intact and same


def read_certificate(path: Path) -> Certificate:
    """Raises InputError when the file cannot be read or is no certificate of this format."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise ValueError(f"longer than {LARGEST} bytes")
        whole = parse(content.decode())
    except OSError as error:
        message = f"the certificate {path.name} cannot be read: {error.strerror or error}"
        raise InputError(message) from error
    except ValueError as error:
        raise InputError(f"the certificate {path.name} cannot be read: {error}") from error
    data = whole.get("certificate") if isinstance(whole, dict) else None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise InputError(f"{path.name} is not a certificate that this version reads")
    return Certificate(path, data, str(whole.get("digest")), whole.get("signature"))
