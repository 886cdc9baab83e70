"""draftgate demo: the whole job on this machine."""

import asyncio
import json
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from adapters import ADAPTERS
from orchestrator.app import router_config
from orchestrator.demo import Row, control_of, is_speculated, measure_type
from orchestrator.deployment import Deployment, Member, read_deployment
from orchestrator.errors import GateFailedError, InputError
from orchestrator.gate.evidence import Suite
from orchestrator.gate.prompt import Prompt, prompts_path, read_prompts, source_digest
from orchestrator.gate.report.summary import summary_lines
from orchestrator.gate.run import Settings
from orchestrator.gate.trials import try_fleet
from orchestrator.gate.verdict import Rules
from orchestrator.router import Router
from orchestrator.shipped import shipped
from orchestrator.state import StateFolder
from orchestrator.supervisor import Supervisor, run_until_signal
from orchestrator.weights import cache_folder

# The demo shows the job; `draftgate gate` does it in full.
GATE_TOKENS = 24  # a prompt
GATE_LEAST = 100  # tokens compared
GATE_SUITES: tuple[Suite, ...] = ("greedy", "limits", "stream")
MEASURED = (48, 2)  # tokens of an answer, rounds
MEASURED_PLAIN = (16, 1)  # where both sides are plain, there is little to see
WORTH = 1.1


@click.command()
@click.option(
    "--engine",
    type=click.Choice(sorted(ADAPTERS)),
    default=sorted(ADAPTERS)[0],
    show_default=True,
    help="The engine to show.",
)
@click.option("--keep", is_flag=True, help="Keep serving until ctrl-C.")
def command(engine: str, keep: bool) -> int:
    """Do the whole job on this machine: check, render, start, prove, route, measure."""
    start = time.monotonic()
    file = _demo_fleet(engine)
    deployment = _with_short_gate(read_deployment(file, file.name))
    _step(f"check: {file.name} and its profiles have no errors")
    for member in deployment.members:
        _step(f"render: {member.name} ({member.profile.profile})")
        click.echo(member.launch.shell())
    folder = StateFolder(deployment.file)
    with folder.lock("demo"):
        supervisor = Supervisor(deployment, folder, click.echo)
        show = _Show(deployment, supervisor, keep, start)
        _step("up: starting the workers, each must draft before it counts as ready")
        asyncio.run(run_until_signal(supervisor, show.begin))
    if show.error:
        raise show.error
    return 0


def _step(text: str) -> None:
    click.secho(f"\n== {text}", bold=True)


def _demo_fleet(engine: str) -> Path:
    """The shipped example fleet whose workers run this engine."""
    root = shipped("fleet.yaml").parent
    for file in sorted(root.glob("fleet*.yaml")):
        fleet = read_deployment(file, file.name).fleet
        if fleet and fleet.workers[0].engine == engine:
            return file if os.access(root, os.W_OK) else _copy(file)
    raise InputError(f"no example fleet for {engine} comes with draftgate")


def _with_short_gate(deployment: Deployment) -> Deployment:
    """Asking for what the demo has time for; its certificates are not those of the fleet."""
    fleet = deployment.require()
    own = cache_folder() / "demo"
    policy = fleet.gate.model_copy(
        update={
            "suites": GATE_SUITES,
            "min_tokens": GATE_LEAST,
            "certificates": str(own / "certificates"),
            "reports": str(own / "reports"),
        }
    )
    return replace(deployment, fleet=fleet.model_copy(update={"gate": policy}))


def _copy(file: Path) -> Path:
    """Certificates stand beside the fleet file: an installed one may not be written beside."""
    copy = cache_folder() / "demo" / file.name
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, copy)
    return copy


async def _until_started(router: Router, serving: asyncio.Future[None]) -> None:
    """Until the router listens; raises what kept it from doing so."""
    started = asyncio.ensure_future(router.started.wait())
    either: set[asyncio.Future[Any]] = {started, serving}
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    started.cancel()
    if serving.done():
        await serving


class _Show:
    """What the demo does once the workers are up."""

    def __init__(self, deployment: Deployment, supervisor: Supervisor, keep: bool, start: float):
        self.deployment = deployment
        self.supervisor = supervisor
        self.keep = keep
        self.start = start
        self.error: Exception | None = None
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self._task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        try:
            await self._steps()
        except Exception as error:  # noqa: BLE001 — carried out to the command's own edge
            if self.supervisor.phase != "stopping":  # else ctrl-C took the engines away
                self.error = error
        finally:
            self.supervisor.stop()

    async def _steps(self) -> None:
        await self._gate()
        fleet = self.deployment.require()
        config = replace(router_config(self.deployment, self.supervisor.folder), tls=None)
        router = Router(config)
        serving = asyncio.ensure_future(router.serve())
        try:
            await _until_started(router, serving)
            url = f"http://{config.listen[0]}:{router.port}"
            _step(f"serve: router on {fleet.router.listen}, choosing by request type")
            await self._measure(url)
            click.echo(f"\ntook {time.monotonic() - self.start:.0f} s")
            _step("try it" if self.keep else "try it (with --keep)")
            click.echo(_curl(url, next(iter(fleet.models))))
            if self.keep:
                click.echo("\nserving; ctrl-C ends everything")
                await serving
        finally:
            router.stop()
            await asyncio.gather(serving, return_exceptions=True)

    async def _gate(self) -> None:
        _step("gate: is speculating output plain output, token by token?")
        prompts = _shorter(read_prompts(shipped("prompts"), per_type=1), GATE_TOKENS)
        plain = next(m for m in self.deployment.members if not m.profile.is_speculating)
        candidates = self._candidates()
        folder = self.supervisor.folder
        policy = self.deployment.require().gate
        settings = Settings(
            Rules(min_tokens=policy.min_tokens),
            prompts,
            source_digest(prompts_path(self.deployment.file.resolve().parent, policy.prompts)),
            click.echo,
            frozenset(policy.suites),
            reports=Path(policy.reports),
        )
        pairs = [(plain, candidates)]
        trials = await try_fleet(self.deployment, folder, pairs, settings)
        texts = {prompt.id: prompt.text for prompt in prompts}
        for line in (line for trial in trials for line in summary_lines(trial, texts)):
            click.echo(line)
        if any(trial.verdict != "pass" for trial in trials):
            raise GateFailedError("the gate did not pass: nothing would be routed")

    def _candidates(self) -> list[Member]:
        control = control_of(self.deployment)
        return [m for m in self.deployment.members if m.profile.is_speculating and m != control]

    async def _measure(self, url: str) -> None:
        rows = []
        for prompt in read_prompts(shipped("prompts"), per_type=1):
            click.echo(f"measuring {prompt.type}")
            guesses = is_speculated(self.deployment, prompt.type)
            tokens, rounds = MEASURED if guesses else MEASURED_PLAIN
            short = _shorter([prompt], tokens)[0]
            rows.append(await measure_type(self.deployment, url, short, rounds))
        for line in [*_table(rows), "", *_conclusions(rows)]:
            click.echo(line)


def _shorter(prompts: list[Prompt], tokens: int) -> list[Prompt]:
    return [replace(p, request={**p.request, "max_tokens": tokens}) for p in prompts]


def _table(rows: list[Row]) -> list[str]:
    """Aligned text, one request at a time; the reason comes last because it is long."""
    has_control = any(row.control for row in rows)
    head = ["type", "profile", "plain tok/s", "router tok/s", "speed-up"]
    head += ["never drafting", "over that"] if has_control else []
    cells = [[*head, "α", "τ", "why"], *(_cells(row, has_control) for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    return [
        "  ".join(
            text.ljust(width) if index in (0, 1, len(line) - 1) else text.rjust(width)
            for index, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    ]


def _conclusions(rows: list[Row]) -> list[str]:
    """What the figures say of each type that was speculated; against the control, if there is one.

    An engine with a speculative configuration can be faster without a single guess.
    """
    lines = []
    for row in rows:
        if row.tau is None:
            continue
        gain = row.routed / (row.control or row.plain)
        over = "a worker that never drafts" if row.control else "plain"
        if gain >= WORTH:
            lines.append(f"{row.type}: guessing pays here, {gain:.2f}× over {over}")
        else:
            words = (
                f"guessing does not pay here, {gain:.2f}× over {over} although τ is {row.tau:.1f}"
            )
            lines.append(f"{row.type}: {words}; route it to plain")
    return lines


def _cells(row: Row, has_control: bool) -> list[str]:
    cells = [row.type, row.profile, f"{row.plain:.1f}", f"{row.routed:.1f}", f"{row.speedup:.2f}×"]
    if has_control:
        control = row.control
        cells += [f"{control:.1f}", f"{row.routed / control:.2f}×"] if control else ["–", "–"]
    cells.append("–" if row.alpha is None else f"{row.alpha:.2f}")
    cells.append("–" if row.tau is None else f"{row.tau:.2f}")
    return [*cells, row.reason]


def _curl(url: str, model: str) -> str:
    request = {"model": model, "prompt": "Once upon a time", "max_tokens": 32, "stream": True}
    body = json.dumps(request)
    return f"curl -N {url}/v1/completions -H 'content-type: application/json' -d '{body}'"
