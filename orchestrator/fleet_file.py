"""The fleet file as commands see it: the FLEET argument, and telling it from a profile."""

from collections.abc import Iterable
from pathlib import Path

import click

from adapters.document import Document
from adapters.problem import Problem

FLEET = click.argument(
    "fleet", default="fleet.yaml", type=click.Path(path_type=Path, exists=True, dir_okay=False)
)


def show_warnings(problems: Iterable[Problem]) -> None:
    """What does not stop a command, on standard error."""
    for problem in problems:
        if not problem.is_fatal:
            click.echo(str(problem), err=True)


def is_fleet(document: Document) -> bool:
    """By its keys; a file that says neither `fleet` nor `profile`, by what else stands in it."""
    data = document.data
    if not isinstance(data, dict) or "profile" in data:
        return False
    return "fleet" in data or bool({"workers", "routes", "models"} & set(data))
