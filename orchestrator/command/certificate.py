"""draftgate certificate: show and verify what the gate has found, and make keys to sign it with."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from orchestrator.deployment import Deployment, Member, read_deployment
from orchestrator.errors import GateFailedError, InconclusiveError, InputError
from orchestrator.gate.admission import (
    INCONCLUSIVE,
    Standing,
    judged,
    not_enough,
    other_prompts,
    unfit,
    unsound,
)
from orchestrator.gate.certificate import Certificate, read_certificate
from orchestrator.gate.signature import PublicKey, load_public_key, public_path, write_keys

FILE = click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))


@click.group()
def command() -> None:
    """Show, verify and sign what the gate has found."""


@command.command()
@FILE
def show(file: Path) -> int:
    """Print a certificate in words; it is not verified."""
    certificate = read_certificate(file)
    try:
        lines = list(summary(certificate))
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{file}: its fields are not those of a certificate ({error})") from error
    for line in lines:
        click.echo(line)
    return 0


@command.command()
@click.option("--out", required=True, type=click.Path(path_type=Path), help="The private key.")
def keygen(out: Path) -> int:
    """Make an Ed25519 key: the private one at OUT, the public one beside it, OUT.pub."""
    key = write_keys(out)
    click.echo(f"private key: {out} (keep it secret)", err=True)
    click.echo(f"public key:  {public_path(out)} (gate.public_keys of the fleet)", err=True)
    click.echo(key.public.fingerprint)
    return 0


@command.command()
@FILE
@click.option(
    "--fleet",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Compare every bound fact with this fleet's workers, and ask what its gate asks.",
)
@click.option(
    "--public-key",
    "public_keys",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="It must be signed by one of these.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def verify(file: Path, fleet: Path | None, public_keys: tuple[Path, ...], as_json: bool) -> int:
    """Tell whether a certificate is intact, signed, a pass, and still about what runs.

    Exit code 0: it is. 2: the file cannot be read as one. 3: it is not, or its verdict is fail.
    4: its verdict is inconclusive.
    """
    certificate = read_certificate(file)
    deployment = read_deployment(fleet, str(fleet)) if fleet else None
    keys = [load_public_key(path) for path in (*public_keys, *_policy_keys(deployment))]
    void = unsound(certificate, keys)
    workers = _workers(certificate, deployment) if deployment and not void else {}
    found = _conclude(certificate, void, deployment, workers)
    if as_json:
        click.echo(json.dumps(_as_json(certificate, keys, found, workers), indent=1))
    else:
        for line in _lines(certificate, keys, found, workers):
            click.echo(line)
    if found.is_pass:
        return 0
    is_short = found.verdict == INCONCLUSIVE
    return InconclusiveError.exit_code if is_short else GateFailedError.exit_code


def _policy_keys(deployment: Deployment | None) -> list[Path]:
    if deployment is None:
        return []
    base = deployment.file.resolve().parent
    return [base / name for name in deployment.require().gate.public_keys]


def _workers(certificate: Certificate, deployment: Deployment) -> dict[str, str | None]:
    """The fleet's workers that it may be about, each with what speaks against it.

    Raises InputError when the files of one cannot be read.
    """
    try:
        return {
            m.name: unfit(certificate, m) for m in deployment.members if _is_about(certificate, m)
        }
    except OSError as error:
        raise InputError(f"a worker's files cannot be read: {error}") from error


def _is_about(certificate: Certificate, member: Member) -> bool:
    """Whether it was made for this worker's profile, model and engine, whatever changed since."""
    about = certificate.data.get("subject")
    engine = about.get("engine") if isinstance(about, dict) else None
    return (
        isinstance(about, dict)
        and about.get("profile") == member.profile.profile
        and about.get("model") == member.spec.model.name
        and isinstance(engine, dict)
        and engine.get("name") == member.entry.engine
    )


def _conclude(
    certificate: Certificate,
    void: str | None,
    deployment: Deployment | None,
    workers: dict[str, str | None],
) -> Standing:
    """One launch has one certificate: it is enough that it fits one worker."""
    if deployment and not void:
        policy, base = deployment.require().gate, deployment.file.resolve().parent
        void = not_enough(certificate, policy) or other_prompts(certificate, base, policy)
        if not void and not workers:
            void = f"no worker of {deployment.file} has this profile, model and engine"
        elif not void and None not in workers.values():
            void = next(iter(workers.values()))
    return Standing("void", void, certificate) if void else judged(certificate)


def _as_json(
    certificate: Certificate,
    keys: Sequence[PublicKey],
    found: Standing,
    workers: dict[str, str | None],
) -> dict[str, Any]:
    return {
        "file": str(certificate.path),
        "is_valid": found.is_pass,
        "reason": found.reason,
        "verdict": certificate.verdict,
        "digest": certificate.digest,
        "is_intact": certificate.is_intact,
        "signature": _signature(certificate, keys),
        "workers": {name: {"fits": why is None, "reason": why} for name, why in workers.items()},
        "unknown": _unknown(certificate),
    }


def _lines(
    certificate: Certificate,
    keys: Sequence[PublicKey],
    found: Standing,
    workers: dict[str, str | None],
) -> Iterator[str]:
    yield f"{certificate.path}: {'valid' if found.is_pass else found.reason}"
    yield f"  verdict    {certificate.verdict}"
    intact = "" if certificate.is_intact else " is not its content"
    yield f"  digest     {certificate.digest}{intact}"
    yield f"  signature  {_signature(certificate, keys)}"
    for name, why in workers.items():
        yield f"  {name:10} {why or 'every bound fact is as it was'}"
    for key, why in _unknown(certificate).items():
        yield f"  not known  {key}: {why}"


def _signature(certificate: Certificate, keys: Sequence[PublicKey]) -> str:
    signature = certificate.signature
    if not isinstance(signature, dict):
        return "none"
    named = str(signature.get("key"))
    if not keys:
        return f"by {named}, not checked: name its public key with --public-key"
    known = next((key.source for key in keys if key.fingerprint == named), "a key not given here")
    return f"by {named} ({known})"


def _unknown(certificate: Certificate) -> dict[str, str]:
    about = certificate.data.get("subject")
    unknown = about.get("unknown") if isinstance(about, dict) else None
    return unknown if isinstance(unknown, dict) else {}


def summary(certificate: Certificate) -> Iterator[str]:
    """A certificate in words, one line each."""
    data = certificate.data
    yield f"{certificate.verdict}  policy {data.get('policy')}, made {data.get('created')}"
    yield from (f"  {reason}" for reason in data.get("reasons") or ())
    yield from _table("subject", data.get("subject"))
    prompts = data.get("prompts") or {}
    yield f"questions  {data.get('questions')} from {prompts.get('count')} prompts"
    yield from _table("suites", data.get("suites"))
    for arm in data.get("arms") or ():
        drafts = (
            "" if not arm["drafted"] else f", {arm['accepted']:g} of {arm['drafted']:g} accepted"
        )
        yield f"arm {arm['name']:6} {arm['tokens']} tokens in {arm['seconds']:g} s{drafts}"
    for name, rate in (data.get("rates") or {}).items():
        seen = f"{rate['forks']} forks in {rate['tokens']} tokens"
        yield f"rate       {name}: {seen}, {rate['low']:.3g} to {rate['high']:.3g} per 1,000"
    for key in ("findings", "divergences", "noise"):
        found = data.get(key) or {"kept": [], "more": 0}
        yield f"{key:11}{len(found['kept']) + found['more']}"
    yield from (f"note       {note}" for note in data.get("notes") or ())
    yield f"signature  {_signature(certificate, ())}"


def _table(title: str, data: Any, indent: str = "  ") -> Iterator[str]:
    yield f"{title}"
    for key, value in (data or {}).items():
        yield f"{indent}{key:10} {value if isinstance(value, str) else json.dumps(value)}"
