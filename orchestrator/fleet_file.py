"""The FLEET argument that commands share."""

from collections.abc import Iterable
from pathlib import Path

import click

from adapters.problem import Problem

FLEET = click.argument(
    "fleet", default="fleet.yaml", type=click.Path(path_type=Path, exists=True, dir_okay=False)
)


def show_warnings(problems: Iterable[Problem]) -> None:
    """What does not stop a command, on standard error."""
    for problem in problems:
        if not problem.is_fatal:
            click.echo(str(problem), err=True)
