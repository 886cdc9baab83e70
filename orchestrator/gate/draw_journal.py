"""What plain told for the sampled test and what was drawn, as lines of JSON, kept as they come.

The test is a function of these answers: a gate that was killed is told them again, and asks only
for what is not there.
"""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from adapters.exchange import Candidate, Draws
from orchestrator.errors import EngineError
from orchestrator.gate.endpoint import changed_fingerprint
from orchestrator.gate.journal import append_line, read_lines, remove

Ids: TypeAlias = tuple[int, ...]

_SCORED, _FROM, _COUNTED, _FINGERPRINT = "scored", "drawn_from", "counted", "fingerprint"
_Drawing: TypeAlias = tuple[Ids, Draws]


class _Scored(msgspec.Struct):
    scored: Ids
    candidates: tuple[Candidate, ...]


class _Drawn(msgspec.Struct):
    drawn_from: Ids
    draws: Draws
    answers: tuple[Ids, ...]


class DrawJournal:
    """The lines of one engine.

    `counted` holds what the engine drafted during each look, None where it does not tell. With
    `by_look`, draws that an earlier run left behind the last count are forgotten: what was drafted
    for them is not known. Without a path nothing outlives the object.
    """

    def __init__(self, path: Path | None = None, *, by_look: bool = False):
        self._path = path
        self._has_begun = False
        self._empty()
        lines = read_lines(path) if path else []
        whole = [n for n, line in enumerate(lines, start=1) if _COUNTED in line]
        last = max(whole, default=0) if by_look else len(lines)
        for number, line in enumerate(lines, start=1):
            with contextlib.suppress(msgspec.ValidationError, TypeError):
                if number <= last or _FINGERPRINT in line:
                    self._take(line)

    def _empty(self) -> None:
        self._scored: dict[Ids, tuple[Candidate, ...]] = {}
        self._drawn: dict[_Drawing, tuple[Ids, ...]] = {}
        self.counted: list[float | None] = []
        self._fingerprint: str | None = None

    def _take(self, line: dict[str, Any]) -> None:
        if _SCORED in line:
            scored = msgspec.convert(line, _Scored)
            self._scored[scored.scored] = scored.candidates
        elif _FROM in line:
            drawn = msgspec.convert(line, _Drawn)
            self._drawn[drawn.drawn_from, drawn.draws] = drawn.answers
        elif _COUNTED in line:
            self.counted.append(msgspec.convert(line[_COUNTED], float | None))
        elif _FINGERPRINT in line:
            self._fingerprint = msgspec.convert(line[_FINGERPRINT], str)

    def begin(self, fingerprint: str, is_known: bool) -> None:
        """The engine that answers now. What another one told an earlier run, or nobody knows which,
        is forgotten. Raises EngineError when it is another one than told this run."""
        is_same = self._fingerprint in (None, fingerprint)
        if self._has_begun and not is_same:
            change = changed_fingerprint(self._fingerprint or "", fingerprint)
            raise EngineError(f"another engine answers than was sampled before: {change}")
        if not self._has_begun and not (is_same and is_known):
            self.forget()
        self._has_begun = True
        if self._fingerprint is None:
            self._fingerprint = fingerprint
            self._keep({_FINGERPRINT: fingerprint})

    def forget(self) -> None:
        """Nothing here is known to come from one engine."""
        if self._path:
            remove(self._path)
        self._empty()

    def candidates(self, ids: Ids) -> tuple[Candidate, ...] | None:
        """What the engine told of the token behind these, or None."""
        return self._scored.get(ids)

    def drawn(self, ids: Ids, draws: Draws) -> tuple[Ids, ...] | None:
        """What was drawn by this very request, or None."""
        return self._drawn.get((ids, draws))

    def told(self, ids: Ids, candidates: Sequence[Candidate]) -> None:
        """Keep what the engine told."""
        self._scored[ids] = tuple(candidates)
        self._keep(msgspec.to_builtins(_Scored(ids, tuple(candidates))))

    def drew(self, ids: Ids, draws: Draws, answers: Sequence[Ids]) -> None:
        """Keep what was drawn."""
        self._drawn[ids, draws] = tuple(answers)
        self._keep(msgspec.to_builtins(_Drawn(ids, draws, tuple(answers))))

    def count(self, drafted: float | None) -> None:
        """A look is whole: keep what was drafted for it."""
        self.counted.append(drafted)
        self._keep({_COUNTED: drafted})

    def _keep(self, line: dict[str, Any]) -> None:
        if self._path:
            append_line(self._path, line)
