"""Write the files that are generated from the code; with --check, only tell which are not current.

python -m scripts.generate [--check]
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from adapters.profile import Profile
from orchestrator.cli import run
from orchestrator.errors import OrchestratorError
from orchestrator.fleet import Fleet
from scripts.methods import methods

ROOT = Path(__file__).resolve().parent.parent


def generated() -> Iterator[tuple[str, str]]:
    """Path, relative to the project's root, and text of each generated file."""
    yield "profiles/profile.schema.json", _schema(Profile, "A draftgate profile")
    yield "fleet.schema.json", _schema(Fleet, "A draftgate fleet")
    yield "docs/cli.md", _cli()
    yield "docs/methods.md", methods()


def _schema(model: type[Profile] | type[Fleet], title: str) -> str:
    schema: dict[str, Any] = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    schema |= model.model_json_schema()
    schema["title"] = title
    return json.dumps(schema, indent=1) + "\n"


def _cli() -> str:
    """Every command's help, and the exit codes from the errors' own table."""
    context = click.Context(run, info_name="draftgate", terminal_width=100)
    parts = ["# Commands\n\nGenerated from `--help`.\n", _help("draftgate", run, None)]
    for name in run.list_commands(context):
        command = run.get_command(context, name)
        if command is not None:
            parts += _helps(f"draftgate {name}", command, context)
    note = (
        "0 is good; 130 is ctrl-C, but for `up` and `serve`, which are ended so: they end with 0."
    )
    parts.append(f"## Exit codes\n\n{note}\n\n```\n{_exit_codes()}\n```\n")
    return "\n".join(parts)


def _helps(title: str, command: click.Command, parent: click.Context) -> Iterator[str]:
    """A command's help, and that of the commands below it."""
    yield _help(title, command, parent)
    if isinstance(command, click.Group):
        below = click.Context(command, info_name=title.rpartition(" ")[2], parent=parent)
        for name, inner in command.commands.items():
            yield from _helps(f"{title} {name}", inner, below)


def _help(title: str, command: click.Command, parent: click.Context | None) -> str:
    name = title.rpartition(" ")[2]
    context = click.Context(command, info_name=name, parent=parent, terminal_width=100)
    context.help_option_names = ["-h", "--help"]
    return f"## {title}\n\n```\n{command.get_help(context)}\n```\n"


def _exit_codes() -> str:
    kinds: list[type[OrchestratorError]] = [OrchestratorError, *OrchestratorError.__subclasses__()]
    lines = [f"{k.exit_code}  {k.__name__}: {(k.__doc__ or '').splitlines()[0]}" for k in kinds]
    return "\n".join(sorted(lines))


def main(arguments: list[str]) -> int:
    stale = [name for name, text in generated() if _read(ROOT / name) != text]
    if "--check" in arguments:
        for name in stale:
            click.echo(f"{name} is not current: run `python -m scripts.generate`", err=True)
        return 1 if stale else 0
    for name, text in generated():
        (ROOT / name).write_text(text)
    click.echo(f"written: {', '.join(stale) or 'nothing changed'}")
    return 0


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
