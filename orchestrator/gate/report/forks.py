"""Picture: forks per 1,000 tokens with their exact bounds, against what plain does by itself."""

from collections.abc import Iterator, Sequence

from orchestrator.gate.evidence import Rate, Trial
from orchestrator.gate.report.figure import Draw, Figure, legend
from orchestrator.gate.report.markup import Markup, table, tag
from orchestrator.gate.report.svg import NARROW, Scale, line, picture, rect, room_for, text, ticks
from orchestrator.gate.report.words import (
    NOTHING,
    bounds,
    cells,
    figure,
    of_tokens,
    rate_in_words,
    references,
    rows,
    short,
)

_ROW = 40.0
_DOT = 5.0
_BOLD = 9.0  # pixels of a bold letter
_CLASSES = {"plain against itself": "noise", "plain at verify width": "wide-arm"}


def forks(trial: Trial) -> Figure:
    """A dot for each rate and a line over its 95 % bounds."""
    named = [row for row in rows(trial) if row[1].tokens]
    told = [row for row in references(trial) if row[1].tokens]
    entries = [("dot", "speculating, with exact 95 % bounds")]
    entries += [(f"ref {_CLASSES[name]}", _reference(name, rate)) for name, rate in told]
    return Figure(
        "forks",
        "Forks per 1,000 tokens",
        "A fork is a place where an answer leaves plain's. With none in n tokens the rate is "
        "below 3 in n: an open dot with the bound above it.",
        _drawing(named, told) if named else None,
        _table(trial),
        legend(entries),
        NOTHING,
    )


def _drawing(named: Sequence[tuple[str, Rate]], told: Sequence[tuple[str, Rate]]) -> Draw:
    # A reference of few tokens has bounds that would press all others to the left: they may be cut.
    highest = max(*(r.high for _, r in named), *(r.per_1000 for _, r in told), 1e-6)
    description = "; ".join(
        f"{name}: {figure(rate.per_1000)}, {bounds(rate)}" for name, rate in [*named, *told]
    )

    def draw(width: float) -> Markup:
        scale = Scale(0, highest * 1.04, 8, width - 12)
        bottom = len(named) * _ROW
        marks = [*_grid(scale, bottom), *_references(scale, told, bottom)]
        for number, row in enumerate(named):
            marks += _row(scale, row, number * _ROW, is_short=width <= NARROW)
        name = (f"forks-{width:.0f}", "Forks per 1,000 tokens", description)
        return picture(name, (width, bottom + 26), *marks)

    return draw


def _grid(scale: Scale, bottom: float) -> Iterator[Markup]:
    for value in ticks(scale.high, max(3, int((scale.right - scale.left) / 70))):
        x = scale(value)
        anchor = "start" if value == 0 else "end" if x > scale.right - 12 else "middle"
        yield line(x, 4, x, bottom + 6, "grid")
        yield text(x, bottom + 20, figure(value), "tick", anchor)


def _reference(name: str, rate: Rate) -> str:
    return f"{name}: {figure(rate.per_1000)} ({bounds(rate)}, shaded)"


def _references(scale: Scale, told: Sequence[tuple[str, Rate]], bottom: float) -> Iterator[Markup]:
    """A band over the bounds, and a line at the rate."""
    for name, rate in told:
        class_ = _CLASSES[name]
        low, high = scale(rate.low), scale(rate.high)
        yield rect((low, 4, high - low, bottom + 2), f"band {class_}", _reference(name, rate))
        x = scale(rate.per_1000)
        yield line(x, 4, x, bottom + 6, f"ref {class_}")


def _row(scale: Scale, row: tuple[str, Rate], top: float, is_short: bool) -> Iterator[Markup]:
    name, rate = row
    y = top + 29
    told = rate_in_words(rate) if is_short else f"{rate_in_words(rate)}, {of_tokens(rate)}"
    low, high, x = scale(rate.low), scale(rate.high), scale(rate.per_1000)
    fitting = int((scale.right - room_for(told) - 16) / _BOLD)
    yield text(8, top + 17, short(name, max(8, fitting)), "name halo")
    yield text(scale.right, top + 17, told, "muted halo", "end")
    yield line(low, y, high, y, "interval")
    for end in (low, high) if rate.forks else (high,):
        yield line(end, y - 4, end, y + 4, "interval")
    inside = tag("title", f"{name}: {told}")
    yield tag("circle", inside, cx=x, cy=y, r=_DOT, class_="dot" if rate.forks else "dot open")


def _table(trial: Trial) -> Markup:
    head = ("requests", "tokens", "forks", "per 1,000 tokens", "95 % bounds")
    lines = ((n, *cells(rate)) for n, rate in [*rows(trial), *references(trial)])
    return table(head, lines, 4)
