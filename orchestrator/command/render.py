"""draftgate render: what an engine is started with."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from adapters import ADAPTERS
from adapters.document import read_document
from adapters.launch import FILES, Launch
from adapters.problem import Problem
from adapters.reading import with_problems
from adapters.worker_check import worker_problems
from orchestrator.command.subject import (
    engine_of,
    profile_of,
    version_of,
    warn,
    warn_of_unused_draft,
    worker_of,
)
from orchestrator.deployment import Member, read_deployment
from orchestrator.errors import InputError
from orchestrator.fleet_file import is_fleet

_FILES_NOTE = f"""note: {FILES} is the folder that draftgate writes the files below into;
save them yourself and put that folder's path there to start the engine by hand"""


@click.command()
@click.argument("source", type=click.Path(path_type=Path))
@click.option("--engine", help=f"One of: {', '.join(sorted(ADAPTERS))} (for a profile).")
@click.option("--engine-version", help="Version of the engine; default: the newest known.")
@click.option("--model", default="model", show_default=True, help="Path or hub id of the target.")
@click.option("--draft", help="Path or hub id of the draft, where the profile needs one.")
@click.option("--context", type=click.IntRange(16), help="Served context, in tokens.")
@click.option(
    "--memory-gib",
    type=click.FloatRange(0, 1e6, min_open=True),
    help="Memory for weights and KV cache, in GiB.",
)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=8000,
    show_default=True,
    help="Port of the worker.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="text: one argument a line; json: for programs.",
)
@click.pass_context
def command(
    ctx: click.Context, /, source: Path, engine: str | None, form: str, **options: Any
) -> int:
    """Print what an engine is started with for SOURCE: a fleet, or a profile (file or name)."""
    if source.is_file() and is_fleet(read_document(source)):
        _require_no_options(ctx)
        return _render_fleet(source, form)
    return _render_profile(source, engine, form, options)


def _require_no_options(ctx: click.Context) -> None:
    """A fleet says all this itself; an option beside it would be ignored."""
    given = [
        name
        for name in ("engine", "engine_version", "model", "draft", "context", "memory_gib", "port")
        if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    ]
    if given:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise InputError(f"{names}: not for a fleet, whose file says it")


def _render_fleet(source: Path, form: str) -> int:
    deployment = read_deployment(source, str(source))
    deployment.require()
    warn(deployment.problems)
    if form == "json":
        launches = {m.name: _member_json(m) for m in deployment.members}
        click.echo(json.dumps(launches, indent=1))
    else:
        _tell_of_files([member.launch for member in deployment.members])
        for member in deployment.members:
            click.echo(f"# {member.name}\n{member.launch.text()}", nl=True)
    return 0


def _tell_of_files(launches: Iterable[Launch]) -> None:
    """On stderr, so that the launch can still be piped."""
    if any(launch.files for launch in launches):
        click.echo(_FILES_NOTE, err=True)


def _member_json(member: Member) -> dict[str, object]:
    return _as_json(member.entry.engine, member.spec.engine_version, member.launch, [])


def _render_profile(source: Path, engine: str | None, form: str, options: dict[str, Any]) -> int:
    name = engine_of(engine)
    adapter = ADAPTERS[name]
    version = version_of(adapter, options["engine_version"])
    reading, profile = profile_of(source)
    if options["draft"] is None and profile.draft_name is not None:
        method = profile.speculation.method
        raise InputError(f"method {method} needs a draft: --draft PATH or hub id")
    warn_of_unused_draft(profile, options["draft"])
    worker = worker_of(profile, name, version, options)
    reading = with_problems(reading, worker_problems(adapter, profile, worker))
    reading = with_problems(reading, adapter.check_arguments({}, version))
    launch = adapter.render(profile, worker) if reading.is_usable else None
    if form == "json":
        found = _as_json(name, version, launch, reading.problems)
        click.echo(json.dumps(found, indent=1))
        return 0 if launch else 2
    if launch is None:
        raise InputError(reading.problems)
    warn(reading.problems)
    _tell_of_files([launch])
    click.echo(launch.text(), nl=False)
    return 0


def _as_json(
    engine: str, version: str, launch: Launch | None, problems: list[Problem]
) -> dict[str, object]:
    return {
        "engine": engine,
        "version": version,
        "argv": list(launch.argv) if launch else None,
        "env": dict(launch.env) if launch else None,
        "files": dict(launch.files) if launch else None,
        "batch_limit": launch.batch_limit if launch else None,
        "problems": [problem.as_json() for problem in problems],
    }
