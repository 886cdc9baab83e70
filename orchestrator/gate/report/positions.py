"""Picture: where in the answers the divergences are, by request type and class."""

from collections import Counter
from collections.abc import Iterator, Sequence

from orchestrator.gate.evidence import Divergence, Kind, Trial
from orchestrator.gate.report.divergence import is_of_prompt, kinds, kinds_in_words
from orchestrator.gate.report.figure import Draw, Figure, kind_legend
from orchestrator.gate.report.markup import Markup, table
from orchestrator.gate.report.svg import (
    Scale,
    binned,
    column_in_words,
    line,
    picture,
    stack,
    text,
    ticks,
)
from orchestrator.gate.report.words import NOTHING, compared, short

_TALLEST = 54.0  # pixels, the highest column
_BLOCK = 9.0
_MOST_TYPES = 12
_EDGES = (0, 8, 32, 128, 512)  # of the table's ranges, in tokens


def positions(trial: Trial) -> Figure:
    """Each block is one divergence, or each column a number of them where there are many."""
    by_type: dict[str, list[Divergence]] = {}
    for divergence in trial.divergences:
        by_type.setdefault(divergence.type, []).append(divergence)
    groups = sorted(by_type.items(), key=lambda pair: -len(pair[1]))
    return Figure(
        "positions",
        "Where answers leave plain's",
        "Position in the answer, in tokens, by request type. Later divergences of one answer "
        "are found by teacher forcing and stand here too.",
        _drawing(trial, groups) if groups else None,
        _table(groups),
        kind_legend(kinds(trial.divergences)),
        nothing(trial),
    )


def nothing(trial: Trial) -> str:
    """What a trial without divergences shows, in words."""
    if tokens := compared(trial):
        return f"No divergence: all {tokens:,} tokens that were compared are plain's."
    return NOTHING


def _longest(trial: Trial) -> int:
    """Tokens of the longest answer, so that early and late mean the same in every report of it."""
    lengths = (len(a.ids) for arm in trial.arms for a in arm.answers.values() if a)
    return max([1, *lengths, *(d.position + 1 for d in trial.divergences)])


def _drawing(trial: Trial, groups: Sequence[tuple[str, list[Divergence]]]) -> Draw:
    has_prompts = any(map(is_of_prompt, trial.divergences))
    description = "; ".join(f"{short(name)}: {kinds_in_words(found)}" for name, found in groups)

    def draw(width: float) -> Markup:
        left = 56.0 if has_prompts else 4.0
        name = (f"positions-{width:.0f}", "Divergences by position", description)
        rows = _Rows(_longest(trial), left, width - 6)
        marks = list(rows.draw(groups))
        return picture(name, (width, rows.bottom), *marks)

    return draw


class _Rows:
    """A row of columns for each request type, one below the other, over a common axis."""

    def __init__(self, longest: int, left: float, right: float):
        most = (right - left) / _BLOCK
        self.bin = 1
        while longest / self.bin > most:
            self.bin *= 2
        number = -(-longest // self.bin)
        self.width = min(_BLOCK * 2, (right - left) / number)
        self.scale = Scale(0, number * self.bin, left, left + number * self.width)
        self.bottom = 0.0

    def draw(self, groups: Sequence[tuple[str, list[Divergence]]]) -> Iterator[Markup]:
        columns = {name: binned(found, self._bin_of) for name, found in groups[:_MOST_TYPES]}
        highest = {
            name: max(sum(column.values()) for column in by_bin.values())
            for name, by_bin in columns.items()
        }
        unit = min(_BLOCK, _TALLEST / max(highest.values()))
        for name, by_bin in columns.items():
            yield from self._row(name, by_bin, highest[name], unit)
        if len(groups) > _MOST_TYPES:
            self.bottom += 16
            yield text(0, self.bottom, f"and {len(groups) - _MOST_TYPES} more types", "muted")
        yield from self._axis()

    def _bin_of(self, divergence: Divergence) -> int:
        return -1 if is_of_prompt(divergence) else divergence.position // self.bin

    def _row(
        self, name: str, by_bin: dict[int, Counter[Kind]], highest: int, unit: float
    ) -> Iterator[Markup]:
        total = sum(sum(column.values()) for column in by_bin.values())
        many = f", at most {highest:,} in {self.bin} tokens" if unit < 3 else ""
        base = self.bottom + 24 + max(12.0, highest * unit)
        yield text(0, self.bottom + 15, short(name, 24), "name")
        yield text(self.scale.right, self.bottom + 15, f"{total:,}{many}", "muted", "end")
        yield line(self.scale.left, base, self.scale.right, base, "axis")
        for number, column in sorted(by_bin.items()):
            x = self.scale(number * self.bin) if number >= 0 else 12.0
            width = self.width if number >= 0 else 2 * _BLOCK
            yield from stack(x, base, (width, unit), column, self._title(number, column))
        self.bottom = base + 6

    def _title(self, number: int, column: Counter[Kind]) -> str:
        found = column_in_words(column)
        if number < 0:
            return f"the arms read different prompts: {column.total()}"
        first = number * self.bin
        where = f"token {first}" if self.bin == 1 else f"tokens {first} to {first + self.bin - 1}"
        return f"{where}: {found}"

    def _axis(self) -> Iterator[Markup]:
        self.bottom += 14
        if self.scale.left > 50:
            yield text(4, self.bottom, "prompt", "tick")
        for value in ticks(self.scale.high, max(2, int((self.scale.right - self.scale.left) / 60))):
            if value.is_integer():
                x = self.scale(value)
                anchor = "start" if value == 0 else "end" if x > self.scale.right - 12 else "middle"
                yield line(x, self.bottom - 20, x, self.bottom - 15, "axis")
                yield text(x, self.bottom, f"{value:,.0f}", "tick", anchor)
        self.bottom += 18
        yield text(self.scale.left, self.bottom, "position in the answer, tokens", "muted")
        self.bottom += 6


def _table(groups: Sequence[tuple[str, list[Divergence]]]) -> Markup:
    """Numbers by type and range of positions."""
    uppers = (*(f"{edge - 1}" for edge in _EDGES[1:]), "")
    ranges = [
        f"{low} to {up}" if up else f"{low} on" for low, up in zip(_EDGES, uppers, strict=True)
    ]
    lines = ((short(name), *map(str, _counts(found))) for name, found in groups)
    return table(("request type", "prompt", *ranges), lines, len(ranges) + 1)


def _counts(found: Sequence[Divergence]) -> list[int]:
    counts = [0] * (len(_EDGES) + 1)
    for divergence in found:
        counts[sum(1 for edge in _EDGES if divergence.position >= edge)] += 1
    return counts
