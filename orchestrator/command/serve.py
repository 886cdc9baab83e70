"""draftgate serve: the router."""

import logging
from pathlib import Path

import click

from orchestrator.app import router_config
from orchestrator.deployment import read_deployment
from orchestrator.fleet_file import FLEET, show_warnings
from orchestrator.router import run_router
from orchestrator.supervisor import state_folder


@click.command()
@FLEET
@click.option(
    "--access-log/--no-access-log",
    default=True,
    show_default=True,
    help="A line a request on standard error; never prompt text.",
)
def command(fleet: Path, access_log: bool) -> int:
    """Route requests to a fleet's workers by type and load, until ctrl-C.

    Speculating workers get requests only with a certificate that fits them (gate.required).
    """
    deployment = read_deployment(fleet, str(fleet))
    config = router_config(deployment, state_folder(deployment))
    show_warnings(deployment.problems)
    logging.getLogger("orchestrator").setLevel(logging.INFO if access_log else logging.WARNING)
    for upstream in config.upstreams:
        admitted = f"not routed to: {upstream.refused}" if upstream.refused else "admitted"
        click.echo(f"{upstream.name:16}{upstream.profile:16}{admitted}")
    host, port = config.listen
    click.echo(f"serving OpenAI requests on http://{host}:{port}/v1")
    run_router(config)
    return 0
