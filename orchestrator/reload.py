"""Reload: files that changed are read anew while requests run; bad ones change nothing."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from adapters.problem import Problem
from orchestrator.configuration import RouterConfig
from orchestrator.errors import InputError
from orchestrator.watch import Marks, Settled, as_read, look

LOG = logging.getLogger("draftgate.router")

APPLIED, REFUSED = "applied", "refused"


@dataclass(frozen=True)
class Reading:
    """What files came to: no `config` where a problem is fatal. `files` are those to watch."""

    config: RouterConfig | None
    problems: tuple[Problem, ...]
    files: tuple[Path, ...]

    def require(self) -> RouterConfig:
        """Raises InputError with every problem where there is no configuration."""
        if self.config is None:
            raise InputError(self.problems)
        return self.config


class Source(Protocol):
    """Where a configuration comes from."""

    def read(self) -> Reading:
        """Reads everything as at the start; may take seconds. Raises nothing."""


# Puts a configuration to use; returns what it could not change, in sentences.
Apply: TypeAlias = Callable[[RouterConfig], Awaitable[tuple[str, ...]]]


@dataclass(frozen=True)
class Watched:
    """A source, the files that it was read from, and how they were then."""

    source: Source
    marks: Marks

    @classmethod
    def read(cls, source: Source, before: Marks) -> tuple["Watched", Reading]:
        """Reads the source; `before` are the marks taken until now."""
        started_ns = time.time_ns()
        reading = source.read()
        known = (Path(name) for name in before) if reading.config is None else ()
        after = look((*known, *reading.files))
        return cls(source, as_read(before, after, started_ns)), reading


class Reload:
    """Follows the files of a router. What it tells is of its last reading."""

    def __init__(self, watched: Watched, apply: Apply, every_s: float) -> None:
        self.counts = Counter[str]()
        self.applied_at = time.monotonic()  # when the configuration in use was put to use
        self._watched = watched
        self._apply = apply
        self._every_s = every_s
        self._settled = Settled(watched.marks)
        self._asked = asyncio.Event()
        self._told: dict[str, Any] = {"outcome": None, "at": None}
        self._told |= {"problems": [], "needs_restart": []}

    def ask(self) -> None:
        """Reads at once, changed or not; asked while it reads, it reads once more."""
        self._asked.set()

    def status(self) -> dict[str, Any]:
        """When it last read, with what outcome, and what was wrong."""
        return {**self._told, "config_age_s": round(time.monotonic() - self.applied_at, 1)}

    async def run(self) -> None:
        """Follows the files for ever."""
        while True:
            if await self._is_asked() or await self._has_changed():
                self._asked.clear()
                await self._read()

    async def _is_asked(self) -> bool:
        try:
            async with asyncio.timeout(self._every_s):
                return await self._asked.wait()
        except TimeoutError:
            return False

    async def _has_changed(self) -> bool:
        """Looked at in a thread: a network's folder may not answer."""
        paths = [Path(name) for name in self._watched.marks]
        return self._settled.see(await asyncio.to_thread(look, paths))

    async def _read(self) -> None:
        try:
            before = await asyncio.to_thread(look, [Path(name) for name in self._watched.marks])
            self._watched, reading = await asyncio.to_thread(
                Watched.read, self._watched.source, before
            )
            self._settled.was_read(self._watched.marks)
            notes = await self._apply(reading.config) if reading.config else ()
        except Exception as error:  # the edge of a reload: it must not stop the router
            LOG.exception("reloading failed")
            self._tell(REFUSED, (f"draftgate failed on it: {error!r}; its log has more",), ())
        else:
            problems = [str(problem) for problem in reading.problems]
            self._tell(APPLIED if reading.config else REFUSED, problems, notes)

    def _tell(self, outcome: str, problems: Sequence[str], notes: Sequence[str]) -> None:
        self.counts[outcome] += 1
        self._told = {
            "outcome": outcome,
            "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "problems": list(problems),
            "needs_restart": list(notes),
        }
        lines = "".join(f"\n{line}" for line in (*problems, *notes))
        if outcome == APPLIED:
            self.applied_at = time.monotonic()
            LOG.info("reloaded%s", lines)
        else:
            LOG.error("not reloaded, nothing changes:%s", lines)


class ReloadCollector(Collector):
    """Reads what was reloaded when it is scraped."""

    def __init__(self, reload: Reload) -> None:
        self._reload = reload

    def collect(self) -> Iterable[Metric]:
        counter = CounterMetricFamily(
            "draftgate_reloads", "Readings of changed files.", labels=["outcome"]
        )
        for outcome, count in self._reload.counts.items():
            counter.add_metric([outcome], count)
        yield counter
        age = time.monotonic() - self._reload.applied_at
        title = "Since the files in use were read."
        yield GaugeMetricFamily("draftgate_config_age_seconds", title, value=age)
