"""What `render` and `explain` are asked about: a profile, an engine, and a worker to run it on."""

import math
from pathlib import Path
from typing import Any, cast, get_args

import click

from adapters import ADAPTERS
from adapters.contract import Adapter
from adapters.dialect import release
from adapters.launch import Model, WorkerSpec
from adapters.problem import Problem, did_you_mean
from adapters.profile import EngineName, Profile
from adapters.reader import read_checkpoint
from adapters.reading import Reading, read_profile
from adapters.support import known
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


def engine_of(engine: str | None) -> EngineName:
    """The engine that was named. Raises InputError naming those there are."""
    if engine in get_args(EngineName):
        return cast(EngineName, engine)
    hint = did_you_mean(engine or "", ADAPTERS)
    raise InputError(f"--engine {engine or 'is missing'}: {hint}")


def version_of(adapter: Adapter, given: str | None) -> str:
    """The version that was asked for, or the newest known. Raises InputError where it is none."""
    if given is None:
        return adapter.SUPPORTED[-1].name
    if release(given) is None:
        raise InputError(
            f"--engine-version {given}: not a version; known of {adapter.TITLE}: {known(adapter)}"
        )
    return given


def worker_of(
    profile: Profile, engine: EngineName, version: str, options: dict[str, Any]
) -> WorkerSpec:
    """The worker that --model, --draft, --context, --memory-gib and --port describe."""
    _require_sound(options)
    name, draft = profile.draft_name, options["draft"]
    drafts = {name: draft} if name and draft else {}
    found = {key: read_checkpoint(path) for key, path in drafts.items()}
    model = Model(
        name=Path(options["model"]).stem or "model",
        target=options["model"],
        context=options["context"],
        drafts=drafts,
        facts=read_checkpoint(options["model"]),
        draft_facts={key: facts for key, facts in found.items() if facts},
    )
    return WorkerSpec(
        name="worker",
        engine_version=version,
        command=ADAPTERS[engine].COMMANDS[:1],
        model=model,
        port=options.get("port", 8000),
        memory_gib=options["memory_gib"],
        engine=engine,
    )


def _require_sound(options: dict[str, Any]) -> None:
    """Raises InputError: what a fleet's schema refuses is refused as an option too."""
    for key in ("model", "draft"):
        if str(options[key] or "").startswith("-"):
            raise InputError(f"--{key} {options[key]}: engines would read that as an option")
    memory = options["memory_gib"]
    if memory is not None and not math.isfinite(memory):
        raise InputError(f"--memory-gib {memory}: a finite number of GiB")


def warn_of_unused_draft(profile: Profile, draft: str | None) -> None:
    """On stderr: an option that is given should do something."""
    if draft is not None and profile.draft_name is None:
        method = profile.speculation.method
        click.echo(f"warning: --draft is not used: method {method} needs none", err=True)


def warn(problems: tuple[Problem, ...] | list[Problem]) -> None:
    for problem in problems:
        click.echo(str(problem), err=True)
