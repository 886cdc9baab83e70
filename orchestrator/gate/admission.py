"""Admission: whether a certificate, as it stands now, lets a worker have requests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator import __version__
from orchestrator.deployment import Member
from orchestrator.errors import InputError
from orchestrator.fleet import GatePolicy
from orchestrator.gate.certificate import (
    BESIDE,
    PARTIAL,
    Certificate,
    certificate_path,
    read_certificate,
    stem,
)
from orchestrator.gate.prompt import prompts_path, source_digest
from orchestrator.gate.signature import PublicKey, load_public_key, signature_problem
from orchestrator.gate.subject import changed, subject

AGAIN = "run `draftgate gate`, then start the router again"
NOT_ASKED = "not asked"
PASS, FAIL, INCONCLUSIVE, MISSING = "pass", "fail", "inconclusive", "missing"


@dataclass(frozen=True)
class Standing:
    """What a worker's certificate comes to now: pass, fail, inconclusive or missing, and why.

    "missing" is also said of a certificate that is void: edited, unsigned, or for something else.
    """

    verdict: str
    reason: str
    certificate: Certificate | None = None

    @property
    def is_pass(self) -> bool:
        return self.verdict == PASS


def objection(folder: Path, member: Member, policy: GatePolicy) -> str | None:
    """Why this worker may not be routed to by its certificate; None when it may."""
    found = standing(folder, member, policy)
    return None if found.is_pass else found.reason


def standing(folder: Path, member: Member, policy: GatePolicy) -> Standing:
    """What is known of this worker; its file is read anew. Raises nothing."""
    if not member.profile.is_speculating:
        return Standing(PASS, "it does not speculate: there is nothing to prove")
    try:
        path = nearest(folder, member)
        if path is None:
            return Standing(MISSING, f"it has no certificate; {AGAIN}")
        certificate = read_certificate(path)
        keys = [load_public_key(member.base / name) for name in policy.public_keys]
        void = _void(certificate, policy, keys) or unfit(certificate, member)
        void = void or other_prompts(certificate, member.base, policy)
    except InputError as error:
        return Standing(MISSING, str(error))
    except OSError as error:
        return Standing(MISSING, f"its files cannot be read: {error}")
    return Standing(MISSING, void, certificate) if void else judged(certificate)


def shortfall(path: Path, member: Member, policy: GatePolicy) -> str | None:
    """What this certificate lacks, all of it, to admit this worker; None when nothing does."""
    certificate = read_certificate(path)
    keys = [load_public_key(member.base / name) for name in policy.public_keys]
    found = [
        unsound(certificate, keys),
        not_enough(certificate, policy),
        other_prompts(certificate, member.base, policy),
    ]
    words = [said.removesuffix(f"; {AGAIN}") for said in found if said]
    return "; ".join(words) or None


def judged(certificate: Certificate) -> Standing:
    """By the verdict of a certificate that is sound."""
    if certificate.verdict == PASS:
        return Standing(PASS, f"{certificate.path.name} is a pass", certificate)
    verdict = certificate.verdict if certificate.verdict in (FAIL, INCONCLUSIVE) else MISSING
    return Standing(verdict, f"the gate's verdict is {certificate.verdict}", certificate)


def _void(certificate: Certificate, policy: GatePolicy, keys: Sequence[PublicKey]) -> str | None:
    """What is wrong with it whatever the worker."""
    return unsound(certificate, keys) or not_enough(certificate, policy)


def unsound(certificate: Certificate, keys: Sequence[PublicKey]) -> str | None:
    """Why its content or its signature cannot be trusted; without keys none is asked for."""
    name = certificate.path.name
    if not certificate.is_intact:
        return f"{name} was changed after it was written: its digest is another; {AGAIN}"
    problem = signature_problem(certificate.digest, certificate.signature, keys) if keys else None
    return f"{name} does not count: {problem}" if problem else None


def not_enough(certificate: Certificate, policy: GatePolicy) -> str | None:
    """Why it is not what this version and this fleet's gate ask for."""
    return _other_version(certificate) or _too_little(certificate, policy)


def _other_version(certificate: Certificate) -> str | None:
    made_by = certificate.data.get("draftgate")
    if made_by == __version__:
        return None
    return f"the certificate was made by draftgate {made_by}, this is {__version__}; {AGAIN}"


def _too_little(certificate: Certificate, policy: GatePolicy) -> str | None:
    """Why it shows less than the fleet asks for. What could not be asked is in its own words."""
    made = certificate.data.get("policy")
    if made not in ("strict", policy.policy):
        return (
            f"the certificate was made with the policy {made}, the fleet asks for strict; {AGAIN}"
        )
    suites = certificate.data.get("suites")
    known = suites if isinstance(suites, dict) else {}
    lacking = [s for s in policy.suites if NOT_ASKED in str(known.get(s, NOT_ASKED))]
    if lacking:
        return f"the certificate says nothing of {', '.join(lacking)}; {AGAIN}"
    tokens = compared_tokens(certificate.data)
    if certificate.verdict == PASS and tokens < policy.min_tokens:
        return f"{tokens} tokens were compared, the fleet asks for {policy.min_tokens}; {AGAIN}"
    return None


def compared_tokens(data: Mapping[str, Any]) -> int:
    """Tokens that a certificate's arms were compared on."""
    rates = data.get("rates")
    told = rates.get("all") if isinstance(rates, dict) else None
    tokens = told.get("tokens") if isinstance(told, dict) else None
    return tokens if isinstance(tokens, int) else 0


def other_prompts(certificate: Certificate, base: Path, policy: GatePolicy) -> str | None:
    """Why the prompts are not the fleet's; those that are not on this machine are not compared."""
    asked = certificate.data.get("prompts")
    source = asked.get("source") if isinstance(asked, dict) else None
    now = source_digest(prompts_path(base, policy.prompts))
    if now is None or source == now:
        return None
    return f"the certificate is for other prompts than {policy.prompts} holds; {AGAIN}"


def unfit(certificate: Certificate, member: Member) -> str | None:
    """Which bound facts are not this worker's. Raises OSError when its files cannot be read."""
    names = changed(certificate.data.get("subject"), subject(member), member.is_ours)
    return f"the certificate is for another {', '.join(names)}; {AGAIN}" if names else None


def nearest(folder: Path, member: Member) -> Path | None:
    """This launch's certificate, else the newest of the profile, to say what changed since."""
    path = certificate_path(folder, member)
    if path.exists():
        return path
    found = folder.glob(f"{stem(member)}@*.json")
    others = [path for path in found if not path.name.endswith((BESIDE, PARTIAL))]
    return max(others, key=lambda p: p.stat().st_mtime, default=None)
