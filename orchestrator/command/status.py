"""draftgate status: what really runs."""

import json
from dataclasses import asdict
from pathlib import Path

import click

from orchestrator.deployment import read_deployment
from orchestrator.fleet_file import FLEET
from orchestrator.state import StateFolder, WorkerState
from orchestrator.supervisor import true_states


@click.command()
@FLEET
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(fleet: Path, as_json: bool) -> int:
    """Tell what really runs: processes are looked at, not remembered."""
    deployment = read_deployment(fleet, str(fleet))
    folder = StateFolder(deployment.file)
    if not deployment.is_usable:
        click.echo(
            "the fleet's files have errors now (`draftgate check`); this is what runs:", err=True
        )
    states = true_states(deployment, folder)
    is_supervised = folder.is_locked()
    if as_json:
        workers = {name: asdict(state) for name, state in states.items()}
        data = {"supervised": is_supervised, "state_folder": str(folder.path), "workers": workers}
        click.echo(json.dumps(data, indent=1))
        return 0
    for state in states.values():
        click.echo(_line(state))
    if not is_supervised:
        click.echo("no supervisor: `draftgate up` starts or adopts the workers")
    return 0


def _line(state: WorkerState) -> str:
    where = f"port {state.port}" if state.port else ""
    process = f"pid {state.pid}" if state.pid else ""
    times = "once" if state.restarts == 1 else f"{state.restarts} times"
    restarts = f"started again {times} ({state.last_end}); " if state.restarts else ""
    detail = state.detail.splitlines()[0] if state.detail else ""
    return f"{state.name:16}{state.state:10}{where:11}{process:13}{restarts}{detail}".rstrip()
