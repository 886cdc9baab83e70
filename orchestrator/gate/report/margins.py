"""Picture: how sure plain was of its own token, in steps of what its logits can tell apart."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from orchestrator.gate.evidence import Divergence, Kind, Trial
from orchestrator.gate.report.divergence import (
    explanation,
    is_of_prompt,
    is_outside,
    kinds,
    kinds_in_words,
)
from orchestrator.gate.report.figure import Draw, Figure, kind_legend
from orchestrator.gate.report.markup import Markup, table
from orchestrator.gate.report.svg import (
    binned,
    column_in_words,
    line,
    picture,
    room_for,
    stack,
    text,
)
from orchestrator.gate.report.words import NOTHING, compared, figure, several

_TALLEST = 110.0
_BLOCK = 10.0
_SPECIAL = 62.0  # pixels, a bin beside the scale
_MOST_FINE = 12  # octaves up to which a bin is half of one


def margins(trial: Trial) -> Figure:
    """Speculating answers, and below them plain against itself where it differs.

    Prompts that were read differently are left out: there is no token to prefer.
    """
    measured = tuple(d for d in trial.divergences if not is_of_prompt(d))
    groups = [("speculating against plain", measured)]
    if any(d.margin is not None or d.candidates for d in trial.noise):
        groups.append(("plain against itself", trial.noise))
    drawn = [(name, found) for name, found in groups if found]
    is_scored = any(_bin_of(d, _unit(trial), 1) != _UNSCORED for _, found in drawn for d in found)
    everything = [d for _, found in drawn for d in found]
    return Figure(
        "margins",
        "Margins against the logits' precision",
        _caption(trial),
        _drawing(trial, drawn) if is_scored else None,
        _table(measured),
        kind_legend(kinds(everything)),
        _instead(trial, drawn),
    )


def _caption(trial: Trial) -> str:
    text = "How far plain prefers its own token to the one that was found. "
    if trial.precision is None:
        return f"{text}The precision of the logits is not known: margins are in nats."
    unit = figure(trial.precision.unit)
    return f"{text}One unit is {unit} nats: {trial.precision.source}."


def _instead(trial: Trial, drawn: Sequence[tuple[str, tuple[Divergence, ...]]]) -> str:
    if drawn:
        number = sum(not is_of_prompt(d) for d in trial.divergences)
        return f"{several(number, 'divergence')}, none scored: plain was not asked."
    if trial.divergences:
        return "Nothing to measure: the arms read different prompts."
    return "Nothing to measure: no answer left plain's." if compared(trial) else NOTHING


_ZERO, _OUTSIDE, _UNSCORED = -1000, 1000, 1001  # bins beside the scale


def _unit(trial: Trial) -> float:
    return trial.precision.unit if trial.precision and trial.precision.unit > 0 else 1.0


def _bin_of(divergence: Divergence, unit: float, per_octave: int) -> int:
    """Bins of the scale count from 1 unit, so that no bin crosses 1 or 2 units.

    A margin of exactly 1 unit is still a tie: bins are closed above.
    """
    if is_outside(divergence):
        return _OUTSIDE
    if divergence.margin is None or math.isnan(divergence.margin):
        return _UNSCORED
    if divergence.margin <= 0:
        return _ZERO
    place = math.log2(divergence.margin / unit) * per_octave
    return math.ceil(round(place, 4)) - 1


class _Columns:
    """Where bins stand. The scale runs over whole octaves and holds 1 nat and 4 units at least."""

    def __init__(self, unit: float, everything: Sequence[Divergence], width: float):
        self.unit, self.width = unit, width
        values = [d.margin / unit for d in everything if d.margin and math.isfinite(d.margin)]
        values = [value for value in values if value > 0]
        self.low = max(-6, math.floor(math.log2(min([0.5, *values]))))
        self.high = math.ceil(math.log2(max([4.0, 1.5 / unit, *values])))
        self.per_octave = 2 if self.high - self.low <= _MOST_FINE else 1
        bins = set(map(self.bin_of, everything))
        self.left = 4.0 + (_SPECIAL + 8 if _ZERO in bins else 0)
        ends = [b for b in (_OUTSIDE, _UNSCORED) if b in bins]
        self.right = width - 4 - _SPECIAL * len(ends) - (8 if ends else 0)
        self.specials = {
            _ZERO: 4.0,
            **{b: self.right + 8 + _SPECIAL * i for i, b in enumerate(ends)},
        }
        self.shown = [b for b in self.specials if b in bins]
        self.column = (self.right - self.left) / ((self.high - self.low) * self.per_octave)

    def x(self, octave: float) -> float:
        """Pixels of a power of 2, in units."""
        share = (octave - self.low) / (self.high - self.low)
        return self.left + share * (self.right - self.left)

    def bin_of(self, divergence: Divergence) -> int:
        """The bin that it stands in."""
        return _bin_of(divergence, self.unit, self.per_octave)

    def box(self, number: int) -> tuple[float, float]:
        """Left edge and width of a bin."""
        if number in self.specials:
            return self.specials[number] + _SPECIAL / 2 - _BLOCK - 1, 2 * _BLOCK
        octave = max(self.low, min(self.high - 1 / self.per_octave, number / self.per_octave))
        return self.x(octave), self.column


def _drawing(trial: Trial, groups: Sequence[tuple[str, tuple[Divergence, ...]]]) -> Draw:
    everything = [d for _, found in groups for d in found]
    description = "; ".join(f"{name}: {kinds_in_words(found)}" for name, found in groups)

    def draw(width: float) -> Markup:
        columns = _Columns(_unit(trial), everything, width)
        counted = [(name, binned(found, columns.bin_of)) for name, found in groups]
        highest = max(sum(c.values()) for _, by_bin in counted for c in by_bin.values())
        unit = min(_BLOCK, _TALLEST / highest)
        marks: list[Markup] = []
        bottom = 40.0
        for name, by_bin in counted:
            tallest = max(sum(c.values()) for c in by_bin.values())
            base = bottom + 22 + max(14.0, tallest * unit)
            marks += _row(columns, (name, bottom + 14, base), by_bin, unit)
            bottom = base + 8
        lines = list(_thresholds(columns, trial, bottom - 8))
        marks = [*lines, *marks, *_axis(columns, trial, bottom + 10)]
        name_of = (f"margins-{width:.0f}", "Divergences by margin", description)
        return picture(name_of, (width, bottom + 38), *marks)

    return draw


def _row(
    columns: _Columns,
    where: tuple[str, float, float],
    by_bin: dict[int, Counter[Kind]],
    unit: float,
) -> Iterator[Markup]:
    name, top, base = where
    total = sum(sum(column.values()) for column in by_bin.values())
    yield text(0, top, f"{name}: {total:,}", "name halo")
    yield line(columns.left, base, columns.right, base, "axis")
    for number in columns.shown:
        left = columns.specials[number]
        yield line(left + 4, base, left + _SPECIAL - 6, base, "axis")
    for number, column in sorted(by_bin.items()):
        x, width = columns.box(number)
        yield from stack(x, base, (width, unit), column, column_in_words(column))


def _thresholds(columns: _Columns, trial: Trial, base: float) -> Iterator[Markup]:
    """1 and 2 units, where a tie and a near-tie end; 1 nat, where a difference is wrong."""
    marks = [(math.log2(1 / columns.unit), "1 nat", 32.0, "start")]
    if trial.precision is not None:
        marks += [(0.0, "1 unit", 14.0, "end"), (1.0, "2 units", 14.0, "start")]
    for octave, name, y, anchor in marks:
        if columns.low <= octave <= columns.high:
            x = columns.x(octave)
            is_cut = anchor == "start" and x + room_for(name) > columns.width
            shift = -4 if anchor == "end" or is_cut else 4
            yield line(x, y - 10, x, base, "threshold")
            yield text(x + shift, y, name, "muted", "end" if is_cut else anchor)


def _axis(columns: _Columns, trial: Trial, y: float) -> Iterator[Markup]:
    octaves = columns.high - columns.low
    # The labels at the ends lean inwards, so that one and a half must fit between two marks.
    widest = max(room_for(figure(2.0**octave)) for octave in (columns.low, columns.high))
    room = 1.5 * widest + 4
    step = math.ceil(octaves * room / (columns.right - columns.left))
    for octave in range(columns.low, columns.high + 1):
        if octave % step == 0:
            x = columns.x(octave)
            anchor = "start" if octave == columns.low else "middle"
            anchor = "end" if octave == columns.high else anchor
            yield line(x, y - 18, x, y - 13, "axis")
            yield text(x, y, figure(2.0**octave), "tick", anchor)
    names = {_ZERO: "0 or less", _OUTSIDE: "not told", _UNSCORED: "no margin"}
    for number in columns.shown:
        yield text(columns.specials[number] + _SPECIAL / 2 - 3, y, names[number], "tick", "middle")
    word = "units" if trial.precision else "nats"
    yield text(4, y + 20, f"margin in {word}, on a logarithmic scale", "muted")


def _table(measured: Sequence[Divergence]) -> Markup:
    """By class and explanation: how many, and the range of their margins."""
    groups: dict[tuple[str, str], list[Divergence]] = {}
    for kind in kinds(measured):
        for d in measured:
            if d.kind == kind:
                groups.setdefault((kind, explanation(d)), []).append(d)
    head = ("class", "explained by", "number", "least, nats", "greatest, nats")
    lines = (_line(*key, found) for key, found in groups.items())
    return table((*head, "not told", "no margin"), lines, 5)


def _line(kind: str, explained: str, found: Sequence[Divergence]) -> Sequence[str]:
    told = [d.margin for d in found if d.margin is not None and math.isfinite(d.margin)]
    outside = sum(1 for d in found if is_outside(d))
    least, greatest = (figure(min(told)), figure(max(told))) if told else ("–", "–")
    unscored = len(found) - len(told) - outside
    return kind, explained, f"{len(found):,}", least, greatest, f"{outside:,}", f"{unscored:,}"
