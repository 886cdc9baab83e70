"""A picture with its caption, its legend, and the same as a table."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from orchestrator.gate.evidence import Kind
from orchestrator.gate.report.markup import Markup, join, tag
from orchestrator.gate.report.svg import NARROW, WIDE

Draw: TypeAlias = Callable[[float], Markup]


@dataclass(frozen=True)
class Figure:
    """`draw` makes the picture for a width in pixels; without data, `instead` stands there."""

    key: str
    heading: str
    caption: str
    draw: Draw | None
    table: Markup
    legend: Markup
    instead: str


def render(figure: Figure) -> Markup:
    """Drawn twice, for wide and for narrow screens: the style sheet shows one of them."""
    heading = tag("h3", figure.heading, id=figure.key)
    caption = tag("figcaption", figure.caption)
    if figure.draw is None:
        nothing = tag("p", figure.instead, class_="nothing")
        return tag("figure", heading, nothing, aria_labelledby=figure.key)
    drawings = join((figure.draw(WIDE), figure.draw(NARROW)))
    numbers = tag("details", tag("summary", "The same as a table"), figure.table)
    parts = (heading, caption, figure.legend, drawings, numbers)
    return tag("figure", *parts, aria_labelledby=figure.key)


def legend(entries: Iterable[tuple[str, str]]) -> Markup:
    """Names of what is drawn, each with the class that gives its colour."""
    items = (tag("li", tag("i", class_=class_), name) for class_, name in entries)
    return tag("ul", *items, class_="legend")


def kind_legend(kinds: Iterable[Kind]) -> Markup:
    """A legend of classes of divergences."""
    return legend((f"k {kind}", kind) for kind in kinds)
