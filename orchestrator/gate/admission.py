"""Admission: whether a certificate, as it stands now, lets a worker have requests."""

from collections.abc import Iterator, Mapping, Sequence
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
from orchestrator.gate.difference import differences
from orchestrator.gate.prompt import prompts_path, source_digest
from orchestrator.gate.signature import PublicKey, load_public_key, signature_problem
from orchestrator.gate.suite import RAN
from orchestrator.pool import SAMPLING

AGAIN = "run `draftgate gate`"
NOT_ASKED = "not asked"
PASS, FAIL, INCONCLUSIVE, MISSING = "pass", "fail", "inconclusive", "missing"


@dataclass(frozen=True)
class Unmet:
    """A condition that a certificate does not meet: what was seen, and what to do about it."""

    seen: str
    advice: str = AGAIN
    detail: tuple[str, ...] = ()  # lines that show more than the sentence says

    def __str__(self) -> str:
        return f"{self.seen}; {self.advice}"


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
        void = _first_void(certificate, member, policy, keys)
    except InputError as error:
        return Standing(MISSING, str(error))
    except OSError as error:
        return Standing(MISSING, f"its files cannot be read: {error}")
    return Standing(MISSING, str(void), certificate) if void else judged(certificate)


def _first_void(
    certificate: Certificate, member: Member, policy: GatePolicy, keys: Sequence[PublicKey]
) -> Unmet | None:
    """Facts are compared last: that reads weights."""
    first = next(lacking(certificate, member.base, policy, keys), None)
    return first or unfit(certificate, member)


def shortfall(path: Path, member: Member, policy: GatePolicy) -> str | None:
    """What this certificate lacks, all of it, to admit this worker; None when nothing does."""
    certificate = read_certificate(path)
    keys = [load_public_key(member.base / name) for name in policy.public_keys]
    found = lacking(certificate, member.base, policy, keys)
    return "; ".join(unmet.seen for unmet in found) or None


def judged(certificate: Certificate) -> Standing:
    """By the verdict of a certificate that is sound."""
    if certificate.verdict == PASS:
        return Standing(PASS, f"{certificate.path.name} is a pass", certificate)
    verdict = certificate.verdict if certificate.verdict in (FAIL, INCONCLUSIVE) else MISSING
    return Standing(verdict, f"the gate's verdict is {certificate.verdict}", certificate)


def unproven(certificate: Certificate | None) -> Mapping[str, str]:
    """Requests of which a passing certificate says nothing, by what they have, and why not.

    Drawn tokens need the suite `sampled`; and `mixed`, because a drawn answer may spoil greedy ones
    that are decoded in the same steps.
    """
    if certificate is None:
        return {}
    suites = certificate.data.get("suites")
    known = suites if isinstance(suites, dict) else {}
    missing = [suite for suite in ("sampled", "mixed") if known.get(suite) != RAN]
    told = "; ".join(f"{suite}: {known.get(suite, NOT_ASKED)}" for suite in missing)
    why = f"the gate did not show that drawn tokens are plain's ({told})"
    return {SAMPLING: why} if missing else {}


def lacking(
    certificate: Certificate, base: Path, policy: GatePolicy, keys: Sequence[PublicKey]
) -> Iterator[Unmet]:
    """Everything that is wrong with it whatever the worker; without keys no signature is asked for.

    `base` is the folder of the fleet's file.
    """
    yield from unsound(certificate, keys)
    yield from not_enough(certificate, policy)
    yield from other_prompts(certificate, base, policy)


def unsound(certificate: Certificate, keys: Sequence[PublicKey]) -> Iterator[Unmet]:
    """Why its content or its signature cannot be trusted."""
    name = certificate.path.name
    if not certificate.is_intact:
        seen = f"{name} was changed after it was written: its digest is another"
        lines = (f"- {certificate.digest}", f"+ {certificate.content_digest or 'none'}")
        yield Unmet(seen, detail=lines)
    problem = signature_problem(certificate.digest, certificate.signature, keys) if keys else None
    if problem:
        files = " or ".join(key.source for key in keys)
        advice = f"run `draftgate gate --sign-key` with the private key of {files}"
        yield Unmet(f"{name} does not count: {problem}", advice)


def not_enough(certificate: Certificate, policy: GatePolicy) -> Iterator[Unmet]:
    """Why it is not what this version and this fleet's gate ask for.

    What an engine cannot be asked has its own words, and counts as asked.
    """
    made_by, made = certificate.data.get("draftgate"), certificate.data.get("policy")
    if made_by != __version__:
        yield Unmet(f"the certificate was made by draftgate {made_by}, this is {__version__}")
    if made not in ("strict", policy.policy):
        asked = f"the fleet asks for {policy.policy}"
        yield Unmet(f"the certificate was made with the policy {made}, {asked}")
    suites = certificate.data.get("suites")
    known = suites if isinstance(suites, dict) else {}
    unasked = [s for s in policy.suites if NOT_ASKED in str(known.get(s, NOT_ASKED))]
    if unasked:
        advice = "run `draftgate gate` without --suites"
        yield Unmet(f"the certificate says nothing of {', '.join(unasked)}", advice)
    tokens = compared_tokens(certificate.data)
    if certificate.verdict == PASS and tokens < policy.min_tokens:
        seen = f"{tokens} tokens were compared, the fleet asks for {policy.min_tokens}"
        advice = "run `draftgate gate` with more prompts and without --per-type"
        yield Unmet(seen, advice)


def compared_tokens(data: Mapping[str, Any]) -> int:
    """Tokens that a certificate's arms were compared on."""
    rates = data.get("rates")
    told = rates.get("all") if isinstance(rates, dict) else None
    tokens = told.get("tokens") if isinstance(told, dict) else None
    return tokens if isinstance(tokens, int) else 0


def other_prompts(certificate: Certificate, base: Path, policy: GatePolicy) -> Iterator[Unmet]:
    """Why the prompts are not the fleet's; those that are not on this machine are not compared."""
    asked = certificate.data.get("prompts")
    source = asked.get("source") if isinstance(asked, dict) else None
    now = source_digest(prompts_path(base, policy.prompts))
    if now is not None and source != now:
        advice = "run `draftgate gate` without --prompts"
        lines = (f"- {source}", f"+ {now}")
        yield Unmet(
            f"the certificate is for other prompts than {policy.prompts} holds", advice, lines
        )


def unfit(certificate: Certificate, member: Member) -> Unmet | None:
    """Which bound facts are not this worker's. Raises OSError when its files cannot be read."""
    found = differences(certificate, member)
    if not found:
        return None
    names = ", ".join(difference.fact for difference in found)
    lines = tuple(line for difference in found for line in difference.lines())
    return Unmet(f"the certificate is for another {names}", detail=lines)


def nearest(folder: Path, member: Member) -> Path | None:
    """This launch's certificate, else the newest of the profile, to say what changed since."""
    path = certificate_path(folder, member)
    if path.exists():
        return path
    found = folder.glob(f"{stem(member)}@*.json")
    others = [path for path in found if not path.name.endswith((BESIDE, PARTIAL))]
    return max(others, key=lambda p: p.stat().st_mtime, default=None)
