"""draftgate key: a new API key, and the line of the key file that goes with it."""

import re

import click

from adapters.profile import NAME_PATTERN
from orchestrator.errors import InputError
from orchestrator.keys import digest, new_key


@click.command()
@click.argument("name")
def command(name: str) -> int:
    """Make an API key for NAME: for its holder, once, and as an entry of router.keys' file.

    The key is printed on standard output and the entry on standard error, so that
    `draftgate key team-a > team-a.key` keeps the key and shows what belongs in the file.
    """
    if re.fullmatch(NAME_PATTERN, name) is None:
        raise InputError(f"{name!r} is no name: letters, digits, '-', '_' and '.' make one")
    key = new_key()
    click.echo(key)
    click.echo("for the file that router.keys names, under keys:", err=True)
    click.echo(f'  - {{name: {name}, sha256: "{digest(key.encode())}"}}', err=True)
    return 0
