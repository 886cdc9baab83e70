"""draftgate serve: the router."""

import logging
from dataclasses import replace
from pathlib import Path

import click

from orchestrator.access_log import OFF
from orchestrator.app import router_config
from orchestrator.deployment import read_deployment
from orchestrator.errors import InputError
from orchestrator.fleet import split_address
from orchestrator.fleet_file import FLEET, show_warnings
from orchestrator.router import run_router
from orchestrator.state import StateFolder


@click.command()
@FLEET
@click.option("--listen", help="host:port for clients; default: router.listen of the fleet.")
@click.option("--admin", help="host:port of the admin plane; default: router.admin of the fleet.")
@click.option(
    "--access-log",
    metavar="PATH|-|off",
    default="-",
    show_default=True,
    help="JSON lines, one a request; - is standard error, in short form on a terminal.",
)
def command(fleet: Path, listen: str | None, admin: str | None, access_log: str) -> int:
    """Route requests to a fleet's workers by type and load, until ctrl-C.

    Speculating workers get requests only with a certificate that fits them (gate.required).
    """
    deployment = read_deployment(fleet, str(fleet))
    config = router_config(deployment, StateFolder(deployment.file))
    config = replace(
        config,
        listen=_address(listen) or config.listen,
        admin=_address(admin) or config.admin,
        access_log=None if access_log == OFF else access_log,
    )
    show_warnings(deployment.problems)
    logging.getLogger("draftgate").setLevel(logging.INFO)
    for upstream in config.upstreams:
        admitted = f"not routed to: {upstream.refused}" if upstream.refused else "admitted"
        click.echo(f"{upstream.name:16}{upstream.profile:16}{admitted}")
    run_router(config)
    return 0


def _address(text: str | None) -> tuple[str, int] | None:
    if text is None:
        return None
    try:
        return split_address(text)
    except ValueError as error:
        raise InputError(f"{text!r}: {error}") from error
