"""Verification: everything that a certificate must meet, looked at at once, and what was not."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from orchestrator.deployment import Deployment, Member
from orchestrator.errors import InputError
from orchestrator.gate.admission import (
    AGAIN,
    FAIL,
    INCONCLUSIVE,
    PASS,
    Unmet,
    lacking,
    unfit,
    unsound,
)
from orchestrator.gate.certificate import Certificate
from orchestrator.gate.prompt import prompts_path, source_digest
from orchestrator.gate.signature import PublicKey
from orchestrator.gate.subject import not_compared, subject

_KEYS = "--public-key FILE.pub, or gate.public_keys of --fleet"


@dataclass(frozen=True)
class Fit:
    """A worker that the certificate may be about, and what speaks against it."""

    name: str
    against: Unmet | None
    skipped: tuple[str, ...]  # facts that cannot be known from here


@dataclass(frozen=True)
class Verification:
    """What was found: conditions that are not met, workers, and what was not looked at.

    One launch has one certificate: it is enough that it fits one worker.
    """

    certificate: Certificate
    unmet: tuple[Unmet, ...]
    verdict: Unmet | None  # why the verdict admits nobody
    fits: tuple[Fit, ...]
    unchecked: tuple[str, ...]

    @property
    def is_valid(self) -> bool:
        return not self.all_unmet

    @property
    def is_short(self) -> bool:
        """Whether nothing speaks against it but that it is inconclusive."""
        is_inconclusive = self.certificate.verdict == INCONCLUSIVE
        return is_inconclusive and self.all_unmet == (self.verdict,)

    @property
    def fits_one(self) -> bool:
        return any(fit.against is None for fit in self.fits)

    @property
    def all_unmet(self) -> tuple[Unmet, ...]:
        """The verdict's condition and the workers' among them."""
        of_workers = () if self.fits_one else tuple(f.against for f in self.fits if f.against)
        of_verdict = (self.verdict,) if self.verdict else ()
        return (*of_verdict, *self.unmet, *of_workers)


def verify(
    certificate: Certificate, keys: Sequence[PublicKey], deployment: Deployment | None
) -> Verification:
    """Without keys no signature is asked for, without a fleet nothing of what runs.

    Raises InputError when the files of a worker cannot be read.
    """
    fits: tuple[Fit, ...] = ()
    if deployment is None:
        unmet = list(unsound(certificate, keys))
    else:
        policy, base = deployment.require().gate, deployment.file.resolve().parent
        unmet = list(lacking(certificate, base, policy, keys))
        fits = _fits(certificate, deployment)
        if not fits:
            unmet.append(_no_worker(certificate, deployment))
    unchecked = tuple(_unchecked(certificate, keys, deployment, fits))
    return Verification(certificate, tuple(unmet), _verdict(certificate), fits, unchecked)


def _verdict(certificate: Certificate) -> Unmet | None:
    if certificate.verdict == PASS:
        return None
    advice = {
        FAIL: "read the report and mend what differs, or serve plain",
        INCONCLUSIVE: "give the gate what the reasons name",
    }.get(certificate.verdict, "the gate writes no such verdict")
    reasons = certificate.data.get("reasons")
    lines = tuple(str(reason) for reason in reasons) if isinstance(reasons, list) else ()
    return Unmet(f"the gate's verdict is {certificate.verdict}", f"{advice}; {AGAIN}", lines)


def _fits(certificate: Certificate, deployment: Deployment) -> tuple[Fit, ...]:
    members = [m for m in deployment.members if _is_about(certificate, m)]
    try:
        return tuple(
            Fit(m.name, unfit(certificate, m), not_compared(subject(m), m.is_ours)) for m in members
        )
    except OSError as error:
        raise InputError(f"a worker's files cannot be read: {error}") from error


def _is_about(certificate: Certificate, member: Member) -> bool:
    """Whether it was made for this worker's profile, model and engine, whatever changed since."""
    return _about(certificate) == _about_worker(member)


def _about(certificate: Certificate) -> tuple[object, ...]:
    about = certificate.data.get("subject")
    known = about if isinstance(about, dict) else {}
    engine = known.get("engine")
    name = engine.get("name") if isinstance(engine, dict) else None
    return known.get("profile"), known.get("model"), name


def _about_worker(member: Member) -> tuple[object, ...]:
    return member.profile.profile, member.spec.model.name, member.entry.engine


def _no_worker(certificate: Certificate, deployment: Deployment) -> Unmet:
    lines = [f"- {_in_words(_about(certificate))}"]
    lines += [f"+ {_in_words(_about_worker(m))} ({m.name})" for m in deployment.members]
    seen = f"no worker of {deployment.file} has this profile, model and engine"
    advice = "name the fleet that it was made for, or give this one such a worker"
    return Unmet(seen, advice, tuple(lines))


def _in_words(about: tuple[object, ...]) -> str:
    profile, model, engine = about
    return f"profile {profile}, model {model}, engine {engine}"


def _unchecked(
    certificate: Certificate,
    keys: Sequence[PublicKey],
    deployment: Deployment | None,
    fits: Sequence[Fit],
) -> Iterator[str]:
    if not keys:
        is_signed = certificate.signature is not None
        what = "the signature was not checked" if is_signed else "it is not signed"
        yield f"{what}, and no public key was given: {_KEYS}"
    if deployment is None:
        yield "nothing was compared with what runs, and no fleet was given: --fleet FILE"
        return
    named = deployment.require().gate.prompts
    if source_digest(prompts_path(deployment.file.resolve().parent, named)) is None:
        yield f"whether the prompts are the fleet's: {named} is not on this machine"
    yield from (
        f"of {fit.name}: {', '.join(fit.skipped)}: they cannot be known from here"
        for fit in fits
        if fit.skipped
    )
