"""draftgate gate: prove that speculating output is plain output."""

import asyncio
import contextlib
import json
import signal
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, get_args

import click

from orchestrator.address import engine_url
from orchestrator.deployment import Deployment, Member, read_deployment
from orchestrator.errors import GateFailedError, InconclusiveError, InputError, OrchestratorError
from orchestrator.fleet import GatePolicy
from orchestrator.fleet_file import show_warnings
from orchestrator.gate.evidence import SUITES, Policy, Trial
from orchestrator.gate.journal import finish_run
from orchestrator.gate.prompt import prompts_path, read_prompts, source_digest, unknown_types
from orchestrator.gate.report.data import as_json as trial_json
from orchestrator.gate.report.summary import summary_lines
from orchestrator.gate.report.write import write_reports
from orchestrator.gate.run import Settings
from orchestrator.gate.trials import Pair, try_fleet, try_urls
from orchestrator.gate.unanswered import unanswered
from orchestrator.gate.verdict import Rules
from orchestrator.shipped import shipped
from orchestrator.state import StateFolder

T = TypeVar("T")


class _Suites(click.ParamType[frozenset[str]]):
    """A list of suites, with commas."""

    name = "list"

    def convert(self, value: Any, param: Any, ctx: Any) -> frozenset[str]:
        names = [name.strip() for name in str(value).split(",")]
        unknown = [name for name in names if name not in SUITES]
        if unknown:
            self.fail(f"{', '.join(map(repr, unknown))}: suites are {', '.join(SUITES)}")
        return frozenset(names)


@dataclass(frozen=True)
class _Asked:
    """The options of the command."""

    baseline: str | None
    candidate: tuple[str, ...]
    prompts: Path | None
    per_type: int | None
    policy: Policy | None
    suites: frozenset[str] | None
    min_tokens: int | None
    reports: Path | None
    sign_key: Path | None
    control: bool
    one_at_a_time: bool
    as_json: bool


@click.command()
@click.argument("fleet", required=False, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--baseline", help="A plain worker, or the URL of a plain engine.")
@click.option(
    "--candidate", multiple=True, help="A speculating worker or a URL; default: one a profile."
)
@click.option("--prompts", type=click.Path(path_type=Path), help="A JSONL file or a folder.")
@click.option("--per-type", type=click.IntRange(1), help="At most this many prompts of a type.")
@click.option("--policy", type=click.Choice(get_args(Policy)), help="Default: the fleet's.")
@click.option("--suites", type=_Suites(), help=f"Of {', '.join(SUITES)}; default: the fleet's.")
@click.option("--min-tokens", type=click.IntRange(1), help="Fewer compared: inconclusive.")
@click.option(
    "--reports", type=click.Path(path_type=Path, file_okay=False), help="Folder for them."
)
@click.option("--sign-key", type=click.Path(path_type=Path), help="Private key for certificates.")
@click.option("--control", is_flag=True, help="Compare plain with plain: is the engine repeatable?")
@click.option(
    "--one-at-a-time", is_flag=True, help="Never two engines at once, for want of memory."
)
@click.option("--json", "as_json", is_flag=True, help="Print a list of outcomes as JSON.")
def command(fleet: Path | None, **options: Any) -> int:
    """Prove that speculating output is plain output, token by token.

    FLEET's workers are used where they are up, and started for the purpose where they are not.
    Without FLEET, --baseline and --candidate are URLs of engines that run already.

    A run that was killed goes on where it was. Exit code 0: pass. 2: bad input. 3: the output
    differs. 4: nothing was shown either way. 5: an engine failed, or none answers.
    """
    asked = _Asked(**options)
    if _is_url(asked.baseline):
        return _gate_urls(asked)
    deployment = read_deployment(fleet or Path("fleet.yaml"), str(fleet or "fleet.yaml"))
    policy = deployment.require().gate
    show_warnings(deployment.problems)
    pairs = _choose(deployment, asked)
    base = deployment.file.resolve().parent
    file = asked.prompts or prompts_path(base, policy.prompts)
    settings = _settings(asked, policy, file, base / policy.reports)
    notes = _notes(deployment, file, settings)
    folder = StateFolder(deployment.file)
    trials = _run(try_fleet(deployment, folder, pairs, settings))
    trials = [_noted(trial, settings, notes) for trial in trials]
    return _conclude(trials, settings, base, asked.as_json)


def _notes(deployment: Deployment, prompts: Path, settings: Settings) -> list[str]:
    """Said now and in the reports. The prompts that come with draftgate have types of their own."""
    types = {rule.type for rule in deployment.require().types}
    if not types or prompts == shipped("prompts"):
        return []
    notes = unknown_types(settings.prompts, types)
    for note in notes:
        _talk(f"warning: {note}")
    return notes


def _noted(trial: Trial, settings: Settings, notes: Sequence[str] = ()) -> Trial:
    """With what only the files of prompts tell."""
    found = unanswered(trial, settings.prompts)
    return replace(trial, notes=(*found, *trial.notes, *notes))


def _settings(asked: _Asked, policy: GatePolicy, prompts: Path, reports: Path) -> Settings:
    """The command's options before the fleet's policy. Raises InputError for bad prompts."""
    rules = Rules(
        policy=asked.policy or policy.policy,
        min_tokens=asked.min_tokens or policy.min_tokens,
        forks_per_1000=policy.forks_per_1000,
    )
    settings = Settings(
        rules=rules,
        prompts=read_prompts(prompts, asked.per_type),
        prompts_source=source_digest(prompts),
        say=_talk,
        suites=asked.suites or frozenset(policy.suites),
        concurrency=policy.concurrency,
        alpha=policy.alpha,
        detectable=policy.detectable,
        side_by_side=policy.side_by_side and not asked.one_at_a_time,
        is_control=asked.control,
        reports=asked.reports or reports,
        sign_key=asked.sign_key,
    )
    if asked.control:  # nothing guesses: nothing is to be proved of the verify path
        settings = replace(settings, suites=settings.suites - {"sampled"})
    return settings


def _run(work: Coroutine[Any, Any, T]) -> T:
    """To its end, or until SIGTERM: engines that were started are ended first."""

    async def run() -> T:
        task = asyncio.ensure_future(work)
        loop = asyncio.get_running_loop()
        told: list[str] = []

        def on_signal(number: signal.Signals) -> None:
            told.append(number.name)
            task.cancel()

        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, on_signal, number)
        try:
            return await task
        except asyncio.CancelledError:
            kept = "answers and draws are kept: run it again to go on"
            if told:
                raise OrchestratorError(f"ended by {told[0]}; {kept}") from None
            _talk(kept)
            raise  # ctrl-C

    return asyncio.run(run())


def _talk(line: str) -> None:
    with contextlib.suppress(OSError):  # nobody listens any more: no reason to stop
        click.echo(line, err=True)


def _is_url(text: str | None) -> bool:
    return bool(text) and str(text).startswith(("http://", "https://"))


def _gate_urls(asked: _Asked) -> int:
    if len(asked.candidate) != 1 or not _is_url(asked.candidate[0]):
        raise InputError("a baseline URL needs exactly one candidate URL")
    if asked.prompts is None:
        raise InputError("without a fleet, --prompts names the file of prompts")
    if asked.sign_key is not None:
        raise InputError("--sign-key: engines at URLs get no certificate, so that none is signed")
    try:
        urls = engine_url(asked.baseline or ""), engine_url(asked.candidate[0])
    except ValueError as error:
        raise InputError(f"--baseline, --candidate: {error}") from error
    settings = _settings(asked, GatePolicy(), asked.prompts, Path("reports"))
    trial = _noted(_run(try_urls(*urls, settings)), settings)
    return _conclude([trial], settings, Path.cwd(), asked.as_json)


def _choose(deployment: Deployment, asked: _Asked) -> list[Pair]:
    """Every candidate with the plain worker of its own model and engine."""
    if asked.control:
        return _controls(deployment, asked)
    candidates = [deployment.member(n) for n in asked.candidate] or routed(deployment)
    if not candidates:
        raise InputError(f"{deployment.file}: no worker speculates; there is nothing to prove")
    pairs: dict[str, tuple[Member, list[Member]]] = {}
    for candidate in candidates:
        baseline = _baseline(deployment, candidate, asked.baseline)
        pairs.setdefault(baseline.name, (baseline, []))[1].append(candidate)
    return list(pairs.values())


def _controls(deployment: Deployment, asked: _Asked) -> list[Pair]:
    """Plain workers against themselves."""
    names = asked.candidate or ((asked.baseline,) if asked.baseline else ())
    plain = [m for m in deployment.members if not m.profile.is_speculating]
    chosen = [deployment.member(name) for name in names] or plain[:1]
    if not chosen:
        raise InputError(f"{deployment.file}: no worker is plain; a control needs one")
    return [(member, [member]) for member in chosen]


def _baseline(deployment: Deployment, candidate: Member, named: str | None) -> Member:
    if named:
        return deployment.member(named)
    for member in deployment.members:
        is_alike = (member.entry.model, member.entry.engine) == (
            candidate.entry.model,
            candidate.entry.engine,
        )
        if is_alike and not member.profile.is_speculating:
            return member
    message = f"{candidate.name}: no plain worker of model {candidate.entry.model!r}"
    raise InputError(f"{message} on {candidate.adapter.TITLE} to compare with")


def routed(deployment: Deployment) -> list[Member]:
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


def _conclude(trials: Sequence[Trial], settings: Settings, base: Path, as_json: bool) -> int:
    texts = {prompt.id: prompt.text for prompt in settings.prompts}
    lines: list[str] = []
    for trial in trials:
        folder = Path(trial.answers_folder or settings.reports).parent
        written = write_reports(folder, trial, texts, base)
        lines += summary_lines(trial, texts, written)
    for answers in {f for t in trials for f in (t.answers_folder, t.plain_answers_folder) if f}:
        finish_run(Path(answers))
    if as_json:
        lines = [json.dumps([trial_json(trial) for trial in trials], indent=1)]
    try:
        for line in lines:
            click.echo(line)
    except BrokenPipeError:
        pass  # the verdict is the exit code, and the reports stand
    except OSError as error:
        _talk(f"the outcome cannot be printed: {error.strerror}; the reports stand")
    verdicts = {trial.verdict for trial in trials}
    if "fail" in verdicts:
        return GateFailedError.exit_code
    return InconclusiveError.exit_code if "inconclusive" in verdicts else 0
