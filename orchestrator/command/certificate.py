"""draftgate certificate: show and verify what the gate has found, and make keys to sign it with."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from adapters.problem import Problem
from orchestrator.deployment import Deployment, read_deployment
from orchestrator.errors import GateFailedError, InconclusiveError, InputError
from orchestrator.gate.admission import Unmet
from orchestrator.gate.certificate import Certificate, read_certificate
from orchestrator.gate.outline import outline
from orchestrator.gate.report.words import printable
from orchestrator.gate.signature import PublicKey, load_public_key, public_path, write_keys
from orchestrator.gate.verification import Fit, Verification
from orchestrator.gate.verification import verify as verify_certificate

FILE = click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
_LABEL = 10  # columns
_EDITED = " is not its content's"


@click.group()
def command() -> None:
    """Show, verify and sign what the gate has found."""


@command.command()
@FILE
def show(file: Path) -> int:
    """Print a certificate in words; it is not verified."""
    certificate = read_certificate(file)
    try:
        lines = list(outline(certificate))
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{file}: its fields are not those of a certificate ({error})") from error
    for line in lines:
        click.echo(printable(line))
    return 0


@command.command()
@click.option("--out", required=True, type=click.Path(path_type=Path), help="The private key.")
def keygen(out: Path) -> int:
    """Make an Ed25519 key: the private one at OUT, the public one beside it, OUT.pub."""
    key = write_keys(out)
    public = public_path(out)
    click.echo(f"secret  {out}: the private key: keep it secret, where the gate runs", err=True)
    click.echo(f"        draftgate gate --sign-key {out}", err=True)
    click.echo(f"public  {public}: the public key: put it beside the fleet's file", err=True)
    click.echo(f"        gate: {{public_keys: [{public.name}]}}", err=True)
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
@click.option("--strict", "is_strict", is_flag=True, help="What was not checked is not met.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def verify(
    file: Path,
    fleet: Path | None,
    public_keys: tuple[Path, ...],
    is_strict: bool,
    as_json: bool,
) -> int:
    """Tell whether a certificate is intact, signed, a pass, and still about what runs.

    Every condition that is not met is told at once, and what was not checked. The signature is
    checked with --public-key and the fleet's gate.public_keys, what runs with --fleet.

    Exit code 0: nothing speaks against it. 2: the file cannot be read as one. 3: a condition is not
    met, or its verdict is fail. 4: nothing is wrong but that its verdict is inconclusive, or, with
    --strict, that something was not checked.
    """
    certificate = read_certificate(file)
    deployment = read_deployment(fleet, str(fleet)) if fleet else None
    keys = _load_keys([*public_keys, *_policy_keys(deployment)])
    found = verify_certificate(certificate, keys, deployment)
    if as_json:
        click.echo(json.dumps(_as_json(found, keys), indent=1))
    else:
        for line in _lines(found, keys):
            click.echo(printable(line))
    if found.is_valid:
        return InconclusiveError.exit_code if is_strict and found.unchecked else 0
    return InconclusiveError.exit_code if found.is_short else GateFailedError.exit_code


def _policy_keys(deployment: Deployment | None) -> list[Path]:
    if deployment is None:
        return []
    base = deployment.file.resolve().parent
    return [base / name for name in deployment.require().gate.public_keys]


def _load_keys(paths: Sequence[Path]) -> list[PublicKey]:
    """Raises InputError with every file that is no public key."""
    keys: list[PublicKey] = []
    problems: list[Problem] = []
    for path in paths:
        try:
            keys.append(load_public_key(path))
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    return keys


def _as_json(found: Verification, keys: Sequence[PublicKey]) -> dict[str, Any]:
    certificate, unmet = found.certificate, found.all_unmet
    return {
        "file": str(certificate.path),
        "is_valid": found.is_valid,
        "reason": "; ".join(u.seen for u in unmet) or f"{certificate.path.name} is a pass",
        "unmet": [_unmet_as_json(u) for u in unmet],
        "unchecked": list(found.unchecked),
        "verdict": certificate.verdict,
        "digest": certificate.digest,
        "is_intact": certificate.is_intact,
        "signature": _signature(certificate, keys),
        "workers": {
            fit.name: {"fits": fit.against is None, "reason": fit.against and str(fit.against)}
            for fit in found.fits
        },
        "unknown": _unknown(certificate),
    }


def _unmet_as_json(unmet: Unmet) -> dict[str, Any]:
    return {"seen": unmet.seen, "next": unmet.advice, "detail": list(unmet.detail)}


def _lines(found: Verification, keys: Sequence[PublicKey]) -> Iterator[str]:
    certificate = found.certificate
    yield f"{certificate.path}: {_headline(found)}"
    of_workers = [fit.against for fit in found.fits]
    for unmet in found.all_unmet:
        if unmet not in of_workers:
            yield from _told("not met", unmet)
    yield _row("verdict", certificate.verdict)
    yield _row("digest", f"{certificate.digest}{'' if certificate.is_intact else _EDITED}")
    yield _row("signature", _signature(certificate, keys))
    for fit in found.fits:
        yield from _fit(fit)
    yield from (_row("not known", f"{key}: {why}") for key, why in _unknown(certificate).items())
    yield from (_row("unchecked", what) for what in found.unchecked)


def _headline(found: Verification) -> str:
    count = len(found.all_unmet)
    if count:
        return f"not valid: {count} {'condition is' if count == 1 else 'conditions are'} not met"
    return "valid as far as it was checked" if found.unchecked else "valid"


def _row(label: str, text: str) -> str:
    return f"  {label:{_LABEL}} {text}"


def _told(label: str, unmet: Unmet) -> Iterator[str]:
    yield _row(label, unmet.seen)
    yield from (_row("", f"  {line}") for line in unmet.detail)
    yield _row("", f"next: {unmet.advice}")


def _fit(fit: Fit) -> Iterator[str]:
    if fit.against:
        yield from _told(fit.name, fit.against)
    else:
        are = "every bound fact is as it was"
        yield _row(fit.name, f"{are}, but for those not checked" if fit.skipped else are)


def _signature(certificate: Certificate, keys: Sequence[PublicKey]) -> str:
    signature = certificate.signature
    if not isinstance(signature, dict):
        return "none"
    named = str(signature.get("key"))
    if not keys:
        return f"by {named}, not checked"
    known = next((key.source for key in keys if key.fingerprint == named), "a key not given here")
    return f"by {named} ({known})"


def _unknown(certificate: Certificate) -> dict[str, str]:
    about = certificate.data.get("subject")
    unknown = about.get("unknown") if isinstance(about, dict) else None
    return unknown if isinstance(unknown, dict) else {}
