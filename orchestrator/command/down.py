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
from orchestrator.mark import created
from orchestrator.state import Holder, StateFolder
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
    holder = _holder(folder)
    if holder is None:
        return
    click.echo(f"ending `draftgate {holder.purpose}`, process {holder.pid}")
    until = time.monotonic() + LONGEST_WAIT_S
    _terminate(holder.pid)
    while created(holder.pid) == holder.created:
        if time.monotonic() > until:
            message = f"process {holder.pid} does not end"
            raise OrchestratorError(f"{message}; see {folder.supervisor_log}")
        time.sleep(0.2)
        if now:
            _terminate(holder.pid)  # every signal after the first ends the drain


def _holder(folder: StateFolder) -> Holder | None:
    """Who holds the lock; it may take an instant until a process that just took it has said so."""
    until = time.monotonic() + 2
    while folder.is_locked():
        holder = folder.holder()
        if holder is not None:
            return holder
        if time.monotonic() > until:
            raise OrchestratorError(f"a process holds {folder.path} but does not say which it is")
        time.sleep(0.05)
    return None


def _terminate(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
