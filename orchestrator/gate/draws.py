"""Collecting draws at temperature above 0, and running the test of sampled output.

Plain is needed first and once, then the speculating engine: they need not be up together.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import httpx

from adapters.exchange import Candidate, Draws
from adapters.metric import rise
from orchestrator.errors import EngineError, EngineGoneError
from orchestrator.gate.conditional import (
    Comparison,
    Samples,
    are_cut,
    compare,
    p_value,
    planned,
    tempered,
    worst,
)
from orchestrator.gate.context import Path, wanted
from orchestrator.gate.draw_journal import DrawJournal
from orchestrator.gate.endpoint import Endpoint, changed_fingerprint
from orchestrator.gate.evidence import Sampled
from orchestrator.gate.mmd import mmd_p_value
from orchestrator.gate.power import WANTED_POWER, Power
from orchestrator.gate.progress import DrawProgress, Say
from orchestrator.gate.sampled import (
    LOOKS,
    REPETITION,
    SampledSettings,
    Shown,
    conclude,
    fails,
)
from orchestrator.wire import engine_client, hold, read_counters

Drawn: TypeAlias = dict[str, list[Path]]  # by prefix

_FEWEST_DRAWS: Final = 64  # planned for each prefix
_GROWTH: Final = 1.5
_AT_ONCE: Final = 64  # draws in one conversation
# An engine may count a little after it answers; nothing tells when.
_COUNT_PAUSE_S: Final = 0.2


@dataclass(frozen=True)
class Prefix:
    """What draws go on from: a prompt, and part of its answer where lookups are to find it."""

    id: str
    ids: tuple[int, ...]


@dataclass(frozen=True)
class _Line:
    """An engine being asked."""

    client: httpx.AsyncClient
    endpoint: Endpoint
    journal: DrawJournal

    async def candidates(self, ids: Path) -> tuple[Candidate, ...]:
        kept = self.journal.candidates(ids)
        if kept is not None:
            return kept
        api, model = self.endpoint.adapter.api, self.endpoint.model
        found = await hold(self.client, api.candidates(model, ids))
        self.journal.told(ids, found)
        return found

    async def sample(self, ids: Path, draws: Draws) -> tuple[Path, ...]:
        kept = self.journal.drawn(ids, draws)
        if kept is not None:
            return kept
        api, model = self.endpoint.adapter.api, self.endpoint.model
        found = await hold(self.client, api.sample(model, ids, draws))
        if len(found) != draws.count:
            message = f"{draws.count} answers were asked for, {len(found)} came"
            raise EngineError(f"{self.endpoint.url}: {message}")
        self.journal.drew(ids, draws, found)
        return found

    async def fingerprint(self) -> str:
        api, model = self.endpoint.adapter.api, self.endpoint.model
        return await hold(self.client, api.complete(model))

    async def drafted(self) -> Mapping[str, float | None]:
        return await read_counters(self.client, self.endpoint.adapter, ("drafted",))


@asynccontextmanager
async def _same_engine(endpoint: Endpoint, journal: DrawJournal) -> AsyncIterator[_Line]:
    """The engine must be the same one before and after. Raises EngineError otherwise."""
    async with engine_client(endpoint.url) as client:
        line = _Line(client, endpoint, journal)
        before = await line.fingerprint()
        journal.begin(before, endpoint.is_known)
        yield line
        after = await line.fingerprint()
    if before != after:
        journal.forget()
        message = f"another engine answered on {endpoint.url} while it was sampled"
        raise EngineError(f"{message}: {changed_fingerprint(before, after)}")


@dataclass(frozen=True)
class Kept:
    """Where the answers of both engines are kept, and what an earlier run left of them."""

    plain: DrawJournal = field(default_factory=DrawJournal)
    speculating: DrawJournal = field(default_factory=DrawJournal)


class Sampling:
    """One test: `score` with plain, then `draw` with the speculating engine until `is_done`.

    `judge` says what is shown so far, at any time. An engine that is gone, or another one in the
    end, raises EngineError; a prefix that one of them cannot answer is left out, and told.
    """

    def __init__(
        self,
        prefixes: Sequence[Prefix],
        settings: SampledSettings,
        say: Say,
        kept: Kept | None = None,
    ):
        self._kept = kept or Kept()
        self._prefixes = {prefix.id: prefix.ids for prefix in prefixes}
        self._settings = settings
        self._say = say
        self._progress = DrawProgress(say)
        self._seed = settings.seed
        self._planned = 0  # draws for each prefix
        self._told: dict[str, dict[Path, tuple[Candidate, ...]]] = {}
        self._plain: Drawn = {}
        self._plain_strings: Drawn = {}
        self._speculating: Drawn = {}
        self._repeated: Drawn = {}  # where a look has failed
        self._strings: Drawn = {}
        self._comparison: Comparison | None = None
        self._p_values: list[float] = []
        self._repeated_p_value: float | None = None
        self._drafted: float | None = 0.0
        self._lacks: list[str] = []

    @property
    def is_done(self) -> bool:
        """Whether further draws would change nothing."""
        is_cut = self._comparison is not None and self._comparison.cut > 0
        if not self._prefixes or is_cut or self._repeated_p_value is not None:
            return True
        return len(self._p_values) == len(LOOKS) and not self._is_repeating

    @property
    def _is_repeating(self) -> bool:
        """Whether a look has failed, so that new draws decide."""
        return fails(self._p_values, self._settings) and self._settings.is_repeated

    async def score(self, plain: Endpoint) -> None:
        """Plan the number of draws, and get from plain all that they will be compared with."""
        settings = self._settings
        engine = _same_engine(plain, self._kept.plain)
        async with self._progress.telling(plain.name), engine as line:
            self._progress.begin("planning the draws")
            await self._plan(line)
            await self._sample(line, self._plain_strings, settings.strings, settings.string_length)
            if not settings.is_told:
                await self._sample(line, self._plain, self._planned, settings.length)
        if are_cut(self._plain_strings, settings.string_length, settings.ends):
            self._lacks.append("plain's answers end without the token that ended them")
            self._prefixes.clear()

    async def draw(self, speculating: Endpoint) -> None:
        """Draw for the next look, or for its repetition, and look. What is drafted for strings
        does not count."""
        settings, journal, look = self._settings, self._kept.speculating, len(self._p_values)
        async with self._progress.telling(speculating.name):
            async with _same_engine(speculating, journal) as line:
                await self._sample(line, self._strings, settings.strings, settings.string_length)
                drafted = await self._draw_counted(line)
            if look == len(journal.counted):
                journal.count(drafted)
            self._drafted = _sum(self._drafted, journal.counted[look])
            self._progress.begin(f"{self._name_of_look}, comparing what was drawn")
            await asyncio.to_thread(self._look)

    @property
    def _name_of_look(self) -> str:
        if self._is_repeating:
            return "the repetition of a look that failed"
        return f"look {len(self._p_values) + 1} of {len(LOOKS)}"

    async def _draw_counted(self, line: _Line) -> float | None:
        """What the engine drafts for it; of draws kept from an earlier run, the journal knows."""
        share = 1.0 if self._is_repeating else LOOKS[len(self._p_values)][0]
        into = self._repeated if self._is_repeating else self._speculating
        await asyncio.sleep(_COUNT_PAUSE_S)
        start = await line.drafted()
        await self._sample(line, into, round(self._planned * share), self._settings.length)
        await asyncio.sleep(_COUNT_PAUSE_S)
        return rise(start, await line.drafted(), "drafted")

    def judge(self) -> Sampled:
        """The verdict on what was drawn so far."""
        seen = self._comparison
        look = len(self._p_values) - 1
        if self._repeated_p_value is not None:
            look = len(LOOKS) - 1  # as many draws
        plan = seen.plan(self._settings, look) if seen and look >= 0 else None
        shown = Shown(
            tuple(self._p_values),
            self._mmd_p_value(),
            seen.contexts if seen else 0,
            sum(map(len, (self._repeated or self._speculating).values())),
            Power(plan).detectable() if plan and seen and seen.contexts else None,
            self._drafted,
            seen.cut if seen else 0,
            tuple(self._lacks),
            worst(seen) if seen else (),
            self._repeated_p_value,
        )
        return conclude(shown, self._settings)

    async def _plan(self, line: _Line) -> None:
        """Ask for candidates and simulate the run, with more draws until it sees enough."""
        settings = self._settings
        most = settings.largest // max(len(self._prefixes), 1)
        draws = min(_FEWEST_DRAWS, most)
        power = await self._try(line, draws)
        while power < WANTED_POWER and draws < most and self._prefixes:
            draws = min(round(draws * _GROWTH), most)
            power = await self._try(line, draws)
        if power < WANTED_POWER and self._prefixes:
            wish = f"a total variation distance of {settings.detectable:g}"
            total = draws * len(self._prefixes)
            self._lacks.append(f"{total} draws would see {wish} with {power:.0%} only")
        self._planned = draws
        self._say(f"sampled: {draws} draws from each of {len(self._prefixes)} prefixes planned")

    async def _try(self, line: _Line, draws: int) -> float:
        for prefix in list(self._prefixes):
            try:
                await self._score_prefix(line, prefix, draws)
            except EngineError as error:
                self._leave_out(prefix, error)
        if not self._told:
            return 0.0
        plan = planned(self._told, self._settings, draws)
        return await asyncio.to_thread(lambda: Power(plan).against(self._settings.detectable))

    async def _score_prefix(self, line: _Line, prefix: str, draws: int) -> None:
        settings = self._settings
        told = self._told.setdefault(prefix, {})
        while True:
            known = told if settings.is_told else tempered(told, settings.temperature)
            paths = wanted(known, draws, settings.length, settings.ends)
            if not paths:
                return
            for path in paths:
                told[path] = await line.candidates(self._prefixes[prefix] + path)

    async def _sample(self, line: _Line, into: Drawn, count: int, length: int) -> None:
        """Bring every prefix up to `count` draws."""
        self._tell_of(into)
        for prefix in list(self._prefixes):
            drawn = into.setdefault(prefix, [])
            try:
                while len(drawn) < count:
                    draws = self._next(min(count - len(drawn), _AT_ONCE), length)
                    are_kept = line.journal.drawn(self._prefixes[prefix], draws) is not None
                    drawn += await line.sample(self._prefixes[prefix], draws)
                    self._progress.drew(draws.count, are_kept)
            except EngineError as error:
                self._leave_out(prefix, error)

    def _tell_of(self, into: Drawn) -> None:
        """The most that the whole run draws of this kind: a look that fails ends it before."""
        are_whole = into is self._strings or into is self._plain_strings
        most = (self._settings.strings if are_whole else self._planned) * len(self._prefixes)
        what = "whole answers" if are_whole else "next tokens"
        if into is self._speculating or into is self._repeated:
            what = f"{what}, {self._name_of_look}"
        self._progress.begin(what, sum(map(len, into.values())), most)

    def _next(self, count: int, length: int) -> Draws:
        """Seeds are never used twice: draws that share one go together, whatever the prefix."""
        draws = Draws(count, length, self._settings.temperature, self._seed)
        self._seed += count
        return draws

    def _leave_out(self, prefix: str, error: EngineError) -> None:
        if isinstance(error, EngineGoneError):
            raise error
        self._say(f"sampled: {prefix}: {error}")
        self._lacks.append(f"{prefix} was left out: {error}")
        del self._prefixes[prefix]
        for kept in (
            self._told,
            self._plain,
            self._plain_strings,
            self._speculating,
            self._repeated,
            self._strings,
        ):
            kept.pop(prefix, None)

    def _look(self) -> None:
        is_repeating, look = self._is_repeating, len(self._p_values)
        drawn = self._repeated if is_repeating else self._speculating
        self._comparison = compare(Samples(self._told, drawn, self._plain), self._settings)
        found = p_value(self._comparison, self._settings, REPETITION if is_repeating else look)
        name = "repetition" if is_repeating else f"look {look + 1}"
        total = sum(map(len, drawn.values()))
        self._say(f"sampled: {name} at {total} draws: p = {found:.2g} by itself")
        if is_repeating:
            self._repeated_p_value = found
        else:
            self._p_values.append(found)
            if self._is_repeating:
                self._say("sampled: that look fails; it stands if as many new draws fail too")

    def _mmd_p_value(self) -> float | None:
        return mmd_p_value(self._plain_strings, self._strings, self._settings.seed)


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


async def try_sampled(
    plain: Endpoint,
    speculating: Endpoint,
    prefixes: Sequence[Prefix],
    settings: SampledSettings,
    say: Say,
) -> Sampled:
    """The whole test on engines that are both up: it stops at the first look that fails."""
    sampling = Sampling(prefixes, settings, say)
    await sampling.score(plain)
    while not sampling.is_done:
        await sampling.draw(speculating)
    return sampling.judge()
