"""draftgate gate: prove that speculating output is plain output."""

import asyncio
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from orchestrator.deployment import Deployment, Member, read_deployment
from orchestrator.errors import GateFailedError, InconclusiveError, InputError
from orchestrator.fleet import engine_url
from orchestrator.fleet_file import show_warnings
from orchestrator.gate.prompt import Prompt, read_prompts
from orchestrator.gate.report import report
from orchestrator.gate.trial import Trial, try_fleet, try_urls
from orchestrator.shipped import shipped
from orchestrator.state import StateFolder


@click.command()
@click.argument("fleet", required=False, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--baseline", help="A plain worker, or the URL of a plain engine.")
@click.option(
    "--candidate", multiple=True, help="A speculating worker or a URL; default: one a profile."
)
@click.option("--prompts", type=click.Path(path_type=Path), help="A JSONL file or a folder.")
@click.option("--per-type", type=click.IntRange(1), help="At most this many prompts of a type.")
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
def command(
    fleet: Path | None,
    baseline: str | None,
    candidate: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> int:
    """Prove that speculating output is plain output, token by token.

    FLEET's workers are used where they are up, and started for the purpose where they are not.
    Without FLEET, --baseline and --candidate are URLs of engines that run already.

    Exit code 0: pass. 3: the output differs. 4: nothing was shown either way.
    """
    if _is_url(baseline):
        return _gate_urls(baseline or "", candidate, options, as_json)
    deployment = read_deployment(fleet or Path("fleet.yaml"), str(fleet or "fleet.yaml"))
    policy = deployment.require().gate
    show_warnings(deployment.problems)
    members = _choose(deployment, baseline, candidate)
    prompts = read_prompts(
        options["prompts"] or _prompts(deployment, policy.prompts), options["per_type"]
    )
    folder = StateFolder(deployment.file)
    trials = asyncio.run(try_fleet(deployment, folder, members, prompts, _talk))
    return _conclude(trials, prompts, as_json)


def _talk(line: str) -> None:
    click.echo(line, err=True)


def _is_url(text: str | None) -> bool:
    return bool(text) and str(text).startswith(("http://", "https://"))


def _gate_urls(
    baseline: str, candidate: tuple[str, ...], options: dict[str, Any], as_json: bool
) -> int:
    if len(candidate) != 1 or not _is_url(candidate[0]):
        raise InputError("a baseline URL needs exactly one candidate URL")
    if options["prompts"] is None:
        raise InputError("without a fleet, --prompts names the file of prompts")
    prompts = read_prompts(options["prompts"], options["per_type"])
    try:
        urls = engine_url(baseline), engine_url(candidate[0])
    except ValueError as error:
        raise InputError(f"--baseline, --candidate: {error}") from error
    trial = asyncio.run(try_urls(*urls, prompts, _talk))
    return _conclude([trial], prompts, as_json)


def _prompts(deployment: Deployment, named: str) -> Path:
    """The fleet's prompts, or where it has none of that name, those that come with draftgate."""
    own = deployment.file.resolve().parent / named
    return own if own.exists() or named != "prompts" else shipped("prompts")


def _choose(
    deployment: Deployment, baseline: str | None, candidate: tuple[str, ...]
) -> tuple[Member, list[Member]]:
    candidates = [deployment.member(name) for name in candidate] or _routed(deployment)
    if not candidates:
        raise InputError(f"{deployment.file}: no worker speculates; there is nothing to prove")
    if baseline:
        return deployment.member(baseline), candidates
    model = candidates[0].entry.model
    for member in deployment.members:
        if member.entry.model == model and not member.profile.is_speculating:
            return member, candidates
    raise InputError(f"model {model!r} has no plain worker to compare with")


def _routed(deployment: Deployment) -> list[Member]:
    """One speculating worker of each launch that a route names; of all without routes.

    A profile that no route names gets no requests; controls of measurements are such.
    """
    fleet = deployment.require()
    named = {hop.profile for route in fleet.routes for hop in fleet.hops(route)}
    chosen: dict[tuple[str, str, str], Member] = {}
    for member in deployment.members:
        is_named = not named or member.profile.profile in named
        if member.profile.is_speculating and is_named:
            key = (member.entry.profile, member.entry.model, member.launch.digest())
            chosen.setdefault(key, member)
    return list(chosen.values())


def _conclude(trials: list[Trial], prompts: list[Prompt], as_json: bool) -> int:
    if as_json:
        click.echo(json.dumps([_as_json(trial) for trial in trials], indent=1))
    for trial in trials:
        if not as_json:
            for line in report(trial.candidate, trial.comparison, trial.arms, prompts):
                click.echo(line)
            if trial.certificate:
                click.echo(f"  certificate: {trial.certificate}")
    verdicts = {trial.comparison.verdict for trial in trials}
    if "fail" in verdicts:
        return GateFailedError.exit_code
    return InconclusiveError.exit_code if "inconclusive" in verdicts else 0


def _as_json(trial: Trial) -> dict[str, Any]:
    return {
        "candidate": trial.candidate,
        "verdict": trial.comparison.verdict,
        "reasons": list(trial.comparison.reasons),
        "tokens_compared": trial.comparison.tokens,
        "divergences": [asdict(d) for d in trial.comparison.divergences],
        "certificate": str(trial.certificate) if trial.certificate else None,
    }
