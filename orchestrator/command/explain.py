"""draftgate explain: what an engine makes of each key of a profile."""

import json
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import click

from adapters import ADAPTERS
from adapters.contract import Adapter
from adapters.dialect import Dialect
from adapters.document import read_document
from adapters.explain import Account, Explanation, explain
from adapters.fit.memory import describe, estimate, obstacle
from adapters.launch import WorkerSpec
from adapters.profile import Profile
from adapters.support import span
from orchestrator.command.subject import (
    engine_of,
    profile_of,
    version_of,
    warn_of_unused_draft,
    worker_of,
)
from orchestrator.errors import InputError
from orchestrator.fleet_file import is_fleet

_WIDEST = 110  # columns
_VALUE = 24  # columns for a value
_NOTE = 6  # columns before a note
_DROPPED = "(degrade: allow drops it)"
_LEGEND = """runs: yes; partly: some keys are changed; no: refused
honoured: as written; translated: in other words or numbers; changed: the engine does something
else; refused: not rendered; elsewhere: an option of another engine
*: a fleet with `degrade: allow` drops it, and runs the rest"""


@dataclass(frozen=True)
class _Answer:
    """One version's explanation. `dialect` is set where every version was asked for."""

    engine: str
    adapter: Adapter
    version: str
    found: Explanation
    memory: tuple[str, ...] = ()
    dialect: Dialect | None = None

    @property
    def runs(self) -> str:
        if self.found.is_refused:
            return "no*" if self.found.is_droppable else "no"
        return "partly" if self.found.is_changed else "yes"

    def as_json(self) -> dict[str, object]:
        return {
            "engine": self.engine,
            "version": self.version,
            "runs": self.runs,
            "keys": [account.as_json() for account in self.found.accounts],
            "memory": list(self.memory),
            "problems": [problem.as_json() for problem in self.found.beside],
        }


@click.command()
@click.argument("source", metavar="PROFILE", type=click.Path(path_type=Path))
@click.option("--engine", help=f"One of: {', '.join(sorted(ADAPTERS))}.")
@click.option("--engine-version", help="Version of the engine; default: the newest known.")
@click.option(
    "--all",
    "is_all",
    is_flag=True,
    help="Every known version of every engine, or of the one named.",
)
@click.option("--model", default="model", show_default=True, help="Path or hub id of the target.")
@click.option("--draft", help="Path or hub id of the draft; default: one is assumed.")
@click.option("--context", type=click.IntRange(16), help="Served context, in tokens.")
@click.option(
    "--memory-gib",
    type=click.FloatRange(0, 1e6, min_open=True),
    help="Memory for weights and KV cache, in GiB.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the explanation as JSON.")
def command(source: Path, is_all: bool, as_json: bool, **options: Any) -> int:
    """Tell what an engine makes of each key of PROFILE (a file or a name): in which words, or why
    not.

    With --all, a table of every known version first. Refusals are explained, not raised: the exit
    code is 0 unless the profile itself cannot be read.
    """
    _require_one(is_all, options)
    _require_no_fleet(source)
    _, profile = profile_of(source)
    warn_of_unused_draft(profile, options["draft"])
    answers = list(_answers(profile, is_all, options))
    if as_json:
        found = [answer.as_json() for answer in answers]
        click.echo(json.dumps({"profile": profile.profile, "answers": found}, indent=1))
        return 0
    groups = _groups(answers)
    if is_all:
        click.echo("\n".join(_matrix(groups)))
    for group in groups:
        click.echo("\n".join(_details(profile, group)))
    return 0


def _require_one(is_all: bool, options: dict[str, Any]) -> None:
    if is_all and options["engine_version"]:
        raise InputError("--all is every known version: leave out --engine-version")
    if not is_all and not options["engine"]:
        raise InputError(f"name one with --engine ({', '.join(sorted(ADAPTERS))}), or use --all")


def _require_no_fleet(source: Path) -> None:
    if source.is_file() and is_fleet(read_document(source)):
        raise InputError(
            f"{source} is a fleet, and a profile is explained: name one of its profiles, "
            "or use draftgate check or draftgate render"
        )


def _answers(profile: Profile, is_all: bool, options: dict[str, Any]) -> Iterator[_Answer]:
    """A draft is assumed where none is given: which one is not the question."""
    options = {**options, "draft": options["draft"] or "DRAFT"}
    every = is_all and not options["engine"]
    for engine in [engine_of(name) for name in (ADAPTERS if every else [options["engine"]])]:
        adapter = ADAPTERS[engine]
        dialects = adapter.SUPPORTED if is_all else (None,)
        for dialect in dialects:
            version = dialect.name if dialect else version_of(adapter, options["engine_version"])
            worker = worker_of(profile, engine, version, options)
            found = explain(adapter, profile, worker)
            yield _Answer(engine, adapter, version, found, _memory(profile, worker), dialect)


def _memory(profile: Profile, worker: WorkerSpec) -> tuple[str, ...]:
    """What target and draft take; nothing where the target is not on this machine."""
    if worker.model.facts is None:
        return ()
    memory = estimate(profile, worker)
    return tuple(describe(memory)) if memory else (obstacle(profile, worker),)


def _groups(answers: Sequence[_Answer]) -> list[list[_Answer]]:
    """Neighbouring versions of an engine that differ only in what they call themselves."""
    return [list(group) for _, group in groupby(answers, key=lambda a: (a.engine, _words(a)))]


def _words(answer: _Answer) -> str:
    return repr((answer.found, answer.memory)).replace(
        f"{answer.adapter.TITLE} {answer.version} ", ""
    )


def _title(group: Sequence[_Answer]) -> tuple[str, str]:
    """The engine, and the version that was asked for or the range of those that are alike."""
    adapter, alike = group[0].adapter, [answer.dialect for answer in group if answer.dialect]
    return adapter.TITLE, span(adapter, alike) if alike else group[0].version


def _matrix(groups: Sequence[Sequence[_Answer]]) -> Iterator[str]:
    """Rows are keys, columns are versions; neighbours with one explanation share a column."""
    columns = [{"runs": g[0].runs, **{a.key: _fate(a) for a in _shown(g[0].found)}} for g in groups]
    keys = list(dict.fromkeys(key for column in columns for key in column))
    titles = [_title(group) for group in groups]
    widths = [max(len(text) for text in (*title, "translated")) for title in titles]
    first = max(len(key) for key in keys)
    for part in _parts(first, widths):
        for line in (0, 1):
            yield _line(first, "", widths[part], [title[line] for title in titles[part]])
        for key in keys:
            yield _line(first, key, widths[part], [c.get(key, "") for c in columns[part]])
        yield ""
    yield f"{_LEGEND}\n"


def _fate(account: Account) -> str:
    return f"{account.fate}*" if account.is_droppable else account.fate


def _parts(first: int, widths: Sequence[int]) -> Iterator[slice]:
    """The columns in as many tables as the width needs, at least one column in each."""
    start, used = 0, first
    for index, width in enumerate(widths):
        if index > start and used + width + 2 > _columns():
            yield slice(start, index)
            start, used = index, first
        used += width + 2
    yield slice(start, len(widths))


def _shown(found: Explanation) -> list[Account]:
    """Without what no engine is told: the profile's name, its description."""
    return [a for a in found.accounts if a.fate != "ours" or a.notes]


def _line(first: int, key: str, widths: Sequence[int], cells: Sequence[str]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return "  ".join([key.ljust(first), *padded]).rstrip()


def _details(profile: Profile, group: Sequence[_Answer]) -> Iterator[str]:
    """Beside other versions only what is told to the engine, or needs telling of it."""
    title, versions = _title(group)
    answer, found = group[0], group[0].found
    versions = "(all versions)" if versions == "all" else versions
    yield f"{profile.profile} on {title} {versions}{_refused(found)}"
    accounts = [a for a in _shown(found) if not (answer.dialect and a.is_silent)]
    width = max((len(account.key) for account in accounts), default=0)
    value_width = min(_VALUE, max((len(_value(account)) for account in accounts), default=0))
    for account in accounts:
        yield from _lines(account, width, value_width)
    for line in answer.memory:
        yield from _wrapped(f"memory: {line}", "  ")
    for problem in found.beside:
        yield from _wrapped(str(problem).replace("\n    ", " "), "  ")
    yield ""


def _refused(found: Explanation) -> str:
    if not found.is_refused:
        return ""
    return ": refused (degrade: allow runs the rest)" if found.is_droppable else ": refused"


def _lines(account: Account, width: int, value_width: int) -> Iterator[str]:
    """Key, value, fate and native words; what is too long for its column has lines of its own."""
    value = _value(account)
    if len(value) > value_width:
        yield f"  {account.key:<{width}}  {value}"
        head = f"  {'':<{width}}  {'':<{value_width}}  "
    else:
        head = f"  {account.key:<{width}}  {value:<{value_width}}  "
    at = len(head) + 12
    texts = (_DROPPED,) if account.is_droppable else account.native
    room = _columns() - max((len(text) for text in texts), default=0)
    if room < at:  # as far before their column as one line of each needs
        indent = " " * max(_NOTE, room)
        words = ["", *(line for text in texts for line in _wrapped(text, indent))]
    else:
        words = [f"{'':<{at}}{text}" for text in texts]
    yield f"{head}{account.fate:<10}  {words[0].strip() if words else ''}".rstrip()
    yield from words[1:]
    for note in account.notes:
        yield from _wrapped(note, " " * _NOTE)


def _value(account: Account) -> str:
    value = account.value
    if value is None and account.path[0] != "engine":
        return "(default)"
    return value if isinstance(value, str) else json.dumps(value)


def _wrapped(text: str, indent: str) -> list[str]:
    """Broken at spaces only: names of options are to be copied."""
    return textwrap.wrap(
        text,
        max(_columns(), len(indent) + 32),
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _columns() -> int:
    """Of the terminal, within reason; files and pipes get the widest lines."""
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else _WIDEST
    return max(60, min(columns, _WIDEST))
