"""draftgate up: start a fleet's workers and hold them."""

import asyncio
import contextlib
import subprocess
import sys
import time
from pathlib import Path

import click

from orchestrator.deployment import Deployment, read_deployment
from orchestrator.errors import EngineError, OrchestratorError
from orchestrator.fleet_file import FLEET, show_warnings
from orchestrator.state import StateFolder
from orchestrator.supervisor import Supervisor, observe, plan, run_until_signal


@click.command()
@FLEET
@click.option("--dry-run", is_flag=True, help="Print the plan and the commands; do nothing.")
@click.option("--detach", "-d", is_flag=True, help="Return when all are ready; `down` ends them.")
@click.option("--only", multiple=True, metavar="WORKER", help="Only these workers; repeatable.")
def command(fleet: Path, dry_run: bool, detach: bool, only: tuple[str, ...]) -> int:
    """Start a fleet's workers and hold them until ctrl-C, restarting those that die."""
    deployment = read_deployment(fleet, str(fleet))
    deployment.require()
    for name in only:
        deployment.member(name)
    folder = StateFolder(deployment.file)
    if detach and not dry_run:
        return _detach(fleet, folder, only)
    show_warnings(deployment.problems)
    if dry_run:
        return _show_plan(deployment, folder, only)
    with folder.lock("up"):
        supervisor = Supervisor(deployment, folder, click.echo, only=only)
        asyncio.run(run_until_signal(supervisor, _say_up))
    click.echo("all workers are down")
    return 0


def _say_up() -> None:
    with contextlib.suppress(OSError):  # nobody listens any more: no reason to end workers
        here = " (or ctrl-C here)" if sys.stdin.isatty() and sys.stdout.isatty() else ""
        click.echo(f"up: every worker is ready; `draftgate down`{here} ends them")


def _show_plan(deployment: Deployment, folder: StateFolder, only: tuple[str, ...]) -> int:
    steps = plan(deployment, observe(deployment, folder), only)
    starts = {step.worker for step in steps if step.action == "start"}
    for step in steps:
        click.echo(str(step))
    for member in deployment.members:
        if member.name in starts:
            click.echo(f"\n# {member.name}\n{member.launch.shell()}")
    refused = [step for step in steps if step.action == "refuse"]
    if refused:
        raise EngineError("; ".join(step.cause for step in refused))
    return 0


def _detach(fleet: Path, folder: StateFolder, only: tuple[str, ...]) -> int:
    """Start this command again as a process of its own, and show its talk until all are ready."""
    folder.create()
    argv = [sys.executable, "-m", "orchestrator.cli", "up", str(fleet)]
    argv += [part for name in only for part in ("--only", name)]
    log = folder.supervisor_log
    log.touch(mode=0o600)
    start = log.stat().st_size
    with log.open("a") as output:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    with log.open() as talk:
        talk.seek(start)
        while True:
            ended = child.poll() is not None
            text = talk.read()
            click.echo(text, nl=False)
            if "\nup: " in f"\n{text}":
                return 0
            if ended and child.returncode < 0:
                raise OrchestratorError(f"the supervisor was killed by signal {-child.returncode}")
            if ended:
                return child.returncode or 1
            time.sleep(0.1)
