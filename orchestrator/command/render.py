"""draftgate render: what an engine is started with."""

import json
from pathlib import Path
from typing import Any

import click

from adapters import ADAPTERS
from adapters.document import read_document
from adapters.launch import Launch, Model, WorkerSpec
from adapters.problem import Problem, did_you_mean
from adapters.profile import Profile
from adapters.reading import read_profile, with_problems
from orchestrator.deployment import Member, read_deployment
from orchestrator.errors import InputError
from orchestrator.fleet_file import is_fleet
from orchestrator.shipped import shipped


@click.command()
@click.argument("source", type=click.Path(path_type=Path))
@click.option("--engine", help=f"One of: {', '.join(sorted(ADAPTERS))} (for a profile).")
@click.option("--engine-version", help="Version of the engine; default: the newest known.")
@click.option("--model", default="model", show_default=True, help="Path or hub id of the target.")
@click.option("--draft", help="Path or hub id of the draft, where the profile needs one.")
@click.option("--context", type=click.IntRange(16), help="Served context, in tokens.")
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
    return _render_profile(_profile_file(source), engine, form, options)


def _require_no_options(ctx: click.Context) -> None:
    """A fleet says all this itself; an option beside it would be ignored."""
    given = [
        name
        for name in ("engine", "engine_version", "model", "draft", "context", "port")
        if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    ]
    if given:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise InputError(f"{names}: not for a fleet, whose file says it")


def _profile_file(source: Path) -> Path:
    """A file, or the name of a profile: in profiles/ here, or among those that are shipped."""
    folders = (Path("profiles"), shipped("profiles"))
    for path in (source, *(folder / f"{source}.yaml" for folder in folders)):
        if path.is_file():
            return path
    names = {path.stem for folder in folders for path in folder.glob("*.yaml")}
    raise InputError(f"{source}: neither a file nor a profile; {did_you_mean(str(source), names)}")


def _render_fleet(source: Path, form: str) -> int:
    deployment = read_deployment(source, str(source))
    deployment.require()
    _warn(deployment.problems)
    if form == "json":
        launches = {m.name: _member_json(m) for m in deployment.members}
        click.echo(json.dumps(launches, indent=1))
    else:
        for member in deployment.members:
            click.echo(f"# {member.name}\n{member.launch.text()}", nl=True)
    return 0


def _member_json(member: Member) -> dict[str, object]:
    return _as_json(member.entry.engine, member.spec.engine_version, member.launch, [])


def _render_profile(file: Path, engine: str | None, form: str, options: dict[str, Any]) -> int:
    if engine is None or engine not in ADAPTERS:
        hint = did_you_mean(engine or "", ADAPTERS)
        raise InputError(f"--engine {engine or 'is missing'}: {hint}")
    adapter = ADAPTERS[engine]
    version = options["engine_version"] or adapter.SUPPORTED[-1].name
    reading = read_profile(file, str(file))
    profile = reading.value
    if profile is None or not reading.is_usable:
        raise InputError(reading.problems)
    drafts = _drafts(profile, options["draft"])
    model = Model(Path(options["model"]).stem, options["model"], options["context"], drafts)
    command_ = (adapter.COMMANDS[0],)
    worker = WorkerSpec("worker", version, command_, model, options["port"])
    reading = with_problems(reading, adapter.check(profile, worker))
    reading = with_problems(reading, adapter.check_arguments({}, version))
    launch = adapter.render(profile, worker) if reading.is_usable else None
    if form == "json":
        click.echo(json.dumps(_as_json(engine, version, launch, reading.problems), indent=1))
        return 0 if launch else 2
    if launch is None:
        raise InputError(reading.problems)
    _warn(reading.problems)
    click.echo(launch.text(), nl=False)
    return 0


def _drafts(profile: Profile, draft: str | None) -> dict[str, str]:
    name, spec = profile.draft_name, profile.speculation
    if draft is None and name is not None:
        raise InputError(f"method {spec.method} needs a draft: --draft PATH or hub id")
    if draft is not None and name is None:
        click.echo(f"warning: --draft is not used: method {spec.method} needs none", err=True)
    return {name: draft} if name and draft else {}


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


def _warn(problems: tuple[Problem, ...] | list[Problem]) -> None:
    for problem in problems:
        click.echo(str(problem), err=True)
