"""draftgate down: end a fleet's workers."""

import asyncio
import contextlib
import os
import signal
import time
from pathlib import Path

import click

from orchestrator.errors import OrchestratorError
from orchestrator.fleet_file import FLEET
from orchestrator.process import created
from orchestrator.state import StateFolder
from orchestrator.supervisor import sweep
from orchestrator.worker import DRAIN_S, NOTICE_S, TERM_GRACE_S

LONGEST_WAIT_S = DRAIN_S + NOTICE_S + TERM_GRACE_S + 15


@click.command()
@FLEET
@click.option("--now", is_flag=True, help="Do not wait for running requests.")
def command(fleet: Path, now: bool) -> int:
    """End a fleet's workers, after their running requests, and whatever a crash left behind."""
    folder = StateFolder(fleet)
    if folder.is_locked():
        _end_supervisor(folder, now)
    ended = asyncio.run(sweep(folder, 0.0 if now else TERM_GRACE_S))
    if ended:
        click.echo(f"ended what had no supervisor: process {', '.join(str(p) for p in ended)}")
    click.echo("down: no process of this fleet is left")
    return 0


def _end_supervisor(folder: StateFolder, now: bool) -> None:
    """SIGTERM, then wait until the process is gone."""
    status, _ = folder.read_status()
    pid = int(status.get("pid", 0))
    if not pid or created(pid) is None:
        raise OrchestratorError(f"a supervisor holds {folder.path} but tells no process id")
    click.echo(f"ending the supervisor, process {pid}")
    start, until = created(pid), time.monotonic() + LONGEST_WAIT_S
    _terminate(pid)
    while created(pid) == start:
        if time.monotonic() > until:
            raise OrchestratorError(f"process {pid} does not end; see {folder.supervisor_log}")
        time.sleep(0.2)
        if now:
            _terminate(pid)  # every signal after the first ends the drain


def _terminate(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
