"""draftgate check: every problem of profiles and fleets at once."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from adapters.document import read_document
from adapters.native import method_problems, native_problems
from adapters.problem import Problem, sort_problems
from adapters.reading import check_profile, with_problems
from orchestrator.deployment import Deployment, read_deployment
from orchestrator.errors import InputError
from orchestrator.fleet_file import is_fleet
from orchestrator.keys import read_keys


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the problems as JSON.")
def command(paths: tuple[Path, ...], as_json: bool) -> int:
    """List every problem of profiles and fleets, all at once.

    PATHS are files or folders of YAML files; without any, profiles/ and fleet.yaml here.
    """
    files = list(_files(paths or _default_paths()))
    problems = sort_problems(problem for file in files for problem in check_file(file))
    errors = sum(problem.is_fatal for problem in problems)
    if as_json:
        found = [problem.as_json() for problem in problems]
        click.echo(json.dumps({"files": len(files), "errors": errors, "problems": found}, indent=1))
    else:
        for problem in problems:
            click.echo(str(problem))
        warnings = len(problems) - errors
        click.echo(
            f"{_count(len(files), 'file')}: {_count(errors, 'error')}, "
            f"{_count(warnings, 'warning')}"
        )
    return 2 if errors else 0


def check_file(file: Path) -> list[Problem]:
    """The problems of one file, whichever of the two kinds it is."""
    document = read_document(file, str(file))
    if is_fleet(document):
        return list(_fleet_problems(read_deployment(file, str(file))))
    reading = check_profile(document)
    if reading.value is not None:
        found = [*native_problems(reading.value), *method_problems(reading.value)]
        is_found_by_name = file.absolute().parent.name == "profiles"
        if is_found_by_name and reading.value.profile not in (file.stem, "unread"):
            message = f"fleets find a profile by its file's name, {file.stem!r}"
            hint = f"name the file {reading.value.profile}.yaml"
            found.append(Problem(("profile",), message, hint, "warning", "file-name"))
        reading = with_problems(reading, found)
    return reading.problems


def _fleet_problems(deployment: Deployment) -> Iterator[Problem]:
    yield from deployment.problems
    fleet = deployment.fleet
    if fleet is not None and fleet.router.keys is not None:
        yield from read_keys(deployment.file, fleet.router.keys, fleet.models).problems


def _default_paths() -> tuple[Path, ...]:
    found = tuple(path for path in (Path("profiles"), Path("fleet.yaml")) if path.exists())
    if not found:
        raise InputError("no profiles/ and no fleet.yaml here; name the files to check")
    return found


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            inside = sorted([*path.rglob("*.yaml"), *path.rglob("*.yml")])
            if not inside:
                raise InputError(f"{path}: no .yaml files in this folder")
            yield from inside
        else:
            yield path


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
