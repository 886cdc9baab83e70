"""draftgate classify: which type rule matches each request of a file, and why."""

import json
from collections.abc import Iterator
from pathlib import Path

import click

from adapters.problem import Problem
from orchestrator.classify import Classifier
from orchestrator.errors import InputError
from orchestrator.fleet import Fleet
from orchestrator.fleet_check import read_fleet
from orchestrator.request_log import Logged, read_log
from orchestrator.type_report import Account, Report, account, type_of

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
_SHOWN = 200  # characters of a prompt, with --show-text


@click.command()
@click.argument("file", metavar="FILE.jsonl", type=_FILE)
@click.option(
    "--fleet", default="fleet.yaml", show_default=True, type=_FILE, help="Whose rules are used."
)
@click.option("--against", type=_FILE, help="A fleet whose rules would move requests: which?")
@click.option("--report", "is_report", is_flag=True, help="Only the report, no line a request.")
@click.option("--show-text", is_flag=True, help="Quote how the last user message begins.")
@click.option("--json", "as_json", is_flag=True, help="Print an object a line; the report is last.")
def command(  # noqa: PLR0913  one for each option
    file: Path,
    fleet: Path,
    against: Path | None,
    is_report: bool,
    show_text: bool,
    as_json: bool,
) -> int:
    """Tell which type rule matches each request of FILE.jsonl, why, and why no earlier one does.

    A line is a request body, a line of a prompt file, or a record with the body as `body` or
    `request`. Where lines have a `type` of their own, the report holds it against the rules'.
    """
    rules = _Rules(_fleet(fleet))
    others = _Rules(_fleet(against)) if against else None
    report = Report()
    for logged in _good(file, report):
        kind, reason = rules.type_of(logged)
        report.add(logged.line, kind, reason, logged.type)
        if others is not None:
            moved = others.type_of(logged)[0]
            if moved != kind:
                report.move(logged.line, kind, moved)
        if not is_report:
            _show(logged, rules.account(logged), show_text, as_json)
    if as_json:
        click.echo(json.dumps({"report": report.as_json()}, ensure_ascii=False))
    else:
        click.echo("\n".join(report.lines(others is not None)))
    return 2 if report.bad else 0


class _Rules:
    """A fleet's rules, made ready."""

    def __init__(self, fleet: Fleet) -> None:
        self._classifier = Classifier(fleet.types)
        self._may_name = fleet.router.type_header

    def type_of(self, logged: Logged) -> tuple[str, str]:
        return type_of(self._classifier, logged.features, self._may_name)

    def account(self, logged: Logged) -> Account:
        return account(self._classifier, logged.features, self._may_name)


def _fleet(file: Path) -> Fleet:
    """Raises InputError with every mistake."""
    reading = read_fleet(file, str(file))
    if reading.value is None or not reading.is_usable:
        raise InputError(reading.problems)
    return reading.value


def _good(file: Path, report: Report) -> Iterator[Logged]:
    """The requests; bad lines are told and counted, and the rest goes on."""
    for found in read_log(file):
        if isinstance(found, Problem):
            report.bad += 1
            click.echo(str(found), err=True)
        else:
            yield found


def _show(logged: Logged, found: Account, show_text: bool, as_json: bool) -> None:
    text = (logged.features.last_user or "")[:_SHOWN] if show_text else None
    if as_json:
        told = {"line": logged.line, **found.as_json()}
        click.echo(json.dumps(told if text is None else {**told, "text": text}, ensure_ascii=False))
        return
    click.echo(f"{logged.line}: {found.type}: {found.reason}{_values(found.seen)}")
    for failed in found.failed:
        reasons = "; ".join(f"{text} ({value})" for text, value in failed.conditions)
        click.echo(f"    not {failed.rule}: {reasons}")
    if text is not None:
        click.echo(f"    {json.dumps(text, ensure_ascii=False)}")


def _values(seen: tuple[tuple[str, str], ...]) -> str:
    return f" ({', '.join(f'{text}: {value}' for text, value in seen)})" if seen else ""
