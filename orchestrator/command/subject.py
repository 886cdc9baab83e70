"""What `render` and `explain` are asked about: a profile, an engine, and a worker to run it on."""

from pathlib import Path
from typing import Any

import click

from adapters import ADAPTERS
from adapters.contract import Adapter
from adapters.launch import Model, WorkerSpec
from adapters.problem import Problem, did_you_mean
from adapters.profile import Profile
from adapters.reading import Reading, read_profile
from orchestrator.errors import InputError
from orchestrator.shipped import shipped


def profile_file(source: Path) -> Path:
    """A file, or the name of a profile: in profiles/ here, or among those that are shipped.

    Raises InputError naming the profiles there are.
    """
    folders = (Path("profiles"), shipped("profiles"))
    for path in (source, *(folder / f"{source}.yaml" for folder in folders)):
        if path.is_file():
            return path
    names = {path.stem for folder in folders for path in folder.glob("*.yaml")}
    raise InputError(f"{source}: neither a file nor a profile; {did_you_mean(str(source), names)}")


def profile_of(source: Path) -> tuple[Reading[Profile], Profile]:
    """A profile that may be acted on, with its reading. Raises InputError with every mistake."""
    file = profile_file(source)
    reading = read_profile(file, str(file))
    if reading.value is None or not reading.is_usable:
        raise InputError(reading.problems)
    return reading, reading.value


def adapter_of(engine: str | None) -> Adapter:
    """Raises InputError naming the engines there are."""
    if engine is None or engine not in ADAPTERS:
        hint = did_you_mean(engine or "", ADAPTERS)
        raise InputError(f"--engine {engine or 'is missing'}: {hint}")
    return ADAPTERS[engine]


def worker_of(
    profile: Profile, adapter: Adapter, version: str, options: dict[str, Any]
) -> WorkerSpec:
    """The worker that --model, --draft, --context and --port describe."""
    name, draft = profile.draft_name, options["draft"]
    drafts = {name: draft} if name and draft else {}
    model = Model(Path(options["model"]).stem, options["model"], options["context"], drafts)
    port = options.get("port", 8000)
    return WorkerSpec("worker", version, adapter.COMMANDS[:1], model, port)


def warn_of_unused_draft(profile: Profile, draft: str | None) -> None:
    """On stderr: an option that is given should do something."""
    if draft is not None and profile.draft_name is None:
        method = profile.speculation.method
        click.echo(f"warning: --draft is not used: method {method} needs none", err=True)


def warn(problems: tuple[Problem, ...] | list[Problem]) -> None:
    for problem in problems:
        click.echo(str(problem), err=True)
