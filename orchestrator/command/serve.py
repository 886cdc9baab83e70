"""draftgate serve: the router."""

import logging
from dataclasses import replace
from pathlib import Path

import click

from orchestrator.access_log import OFF
from orchestrator.address import split_address
from orchestrator.app import FleetSource
from orchestrator.configuration import RouterConfig
from orchestrator.errors import InputError
from orchestrator.fleet_file import FLEET, show_warnings
from orchestrator.processes import checked, run_processes
from orchestrator.reload import Watched
from orchestrator.router import run_router


@click.command()
@FLEET
@click.option("--listen", help="host:port for clients; default: router.listen of the fleet.")
@click.option("--admin", help="host:port of the admin plane; default: router.admin of the fleet.")
@click.option(
    "--workers",
    "processes",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    help="Processes that share the port, each on a core of its own.",
)
@click.option(
    "--access-log",
    metavar="PATH|-|off",
    default="-",
    show_default=True,
    help="JSON lines, one a request; - is standard error, in short form on a terminal.",
)
def command(
    fleet: Path, listen: str | None, admin: str | None, processes: int, access_log: str
) -> int:
    """Route requests to a fleet's workers by type and load, until ctrl-C.

    Files that change are read again, and at once on SIGHUP; bad ones change nothing.
    Speculating workers get requests only with a certificate that fits them (gate.required).
    """
    at, admin_at = _address(listen), _address(admin)

    def change(read: RouterConfig) -> RouterConfig:
        read = replace(
            read,
            listen=at or read.listen,
            admin=admin_at or read.admin,
            access_log=None if access_log == OFF else access_log,
        )
        return read if processes == 1 else checked(read)

    source = FleetSource(fleet, str(fleet), change)
    watched, reading = Watched.read(source, {})
    config = reading.require()
    show_warnings(reading.problems)
    logging.getLogger("draftgate").setLevel(logging.INFO)
    for upstream in config.upstreams:
        admitted = f"not routed to: {upstream.refused}" if upstream.refused else "admitted"
        click.echo(f"{upstream.name:16}{upstream.profile:16}{admitted}")
    if processes == 1:
        run_router(config, watched)
    else:
        run_processes(config, watched, processes)
    return 0


def _address(text: str | None) -> tuple[str, int] | None:
    if text is None:
        return None
    try:
        return split_address(text)
    except ValueError as error:
        raise InputError(f"{text!r}: {error}") from error
