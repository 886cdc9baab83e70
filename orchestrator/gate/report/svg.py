"""Pictures as inline SVG: scales and marks. Colours come from the page's style sheet by class."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from orchestrator.gate.evidence import Divergence, Kind
from orchestrator.gate.report.divergence import WORST_FIRST
from orchestrator.gate.report.markup import Markup, join, tag

WIDE: Final = 760
NARROW: Final = 340
_LETTER = 6.6  # pixels, the mean width of a letter at 12 pixels
_GAP = 1.0  # pixels between blocks; without it they are one bar


@dataclass(frozen=True)
class Scale:
    """Maps values from `low` to `high` to pixels from `left` to `right`; outside, to the ends."""

    low: float
    high: float
    left: float
    right: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self.left + min(1.0, max(0.0, share)) * (self.right - self.left)


def ticks(high: float, most: int) -> list[float]:
    """Round values from 0 up to `high`, at most `most` of them."""
    if high <= 0:
        return [0.0]
    step = 10.0 ** math.floor(math.log10(high / most))
    while math.floor(high / step) > most - 1:
        step *= 2.5 if _leads_with_two(step) else 2
    return [index * step for index in range(math.floor(high / step + 1e-9) + 1)]


def _leads_with_two(step: float) -> bool:
    return round(step / 10.0 ** math.floor(math.log10(step) + 1e-9)) == 2


def room_for(text: str) -> float:
    """About how many pixels a text takes."""
    return _LETTER * len(text)


def text(x: float, y: float, content: str, class_: str = "", anchor: str = "start") -> Markup:
    """Words with their base line at `y`."""
    return tag("text", content, x=x, y=y, class_=class_ or None, text_anchor=anchor)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """A straight line."""
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def rect(box: tuple[float, float, float, float], class_: str, title: str = "") -> Markup:
    """A box: x, y, width, height."""
    x, y, width, height = box
    inside = (tag("title", title),) if title else ()
    return tag("rect", *inside, x=x, y=y, width=max(0.0, width), height=height, class_=class_)


def binned(
    found: Iterable[Divergence], bin_of: Callable[[Divergence], int]
) -> dict[int, Counter[Kind]]:
    """How many there are of each kind in each bin."""
    by_bin: dict[int, Counter[Kind]] = {}
    for divergence in found:
        by_bin.setdefault(bin_of(divergence), Counter())[divergence.kind] += 1
    return by_bin


def column_in_words(column: Counter[Kind]) -> str:
    """What stands in one bin."""
    return ", ".join(f"{number} {kind}" for kind, number in column.items())


def stack(
    x: float, base: float, size: tuple[float, float], counts: Mapping[Kind, int], title: str
) -> Iterator[Markup]:
    """A column that stands on `base`, the worst kind at its foot; `size` is that of one block.

    Blocks too low to be told apart become one bar for each kind.
    """
    width, unit = size
    y = base
    for kind in WORST_FIRST:
        number = counts.get(kind, 0)
        if unit >= 3:
            for _ in range(number):
                y -= unit
                yield rect((x, y, width - _GAP, unit - _GAP), f"k {kind}", title)
        elif number:
            y -= unit * number
            yield rect((x, y, width - _GAP, unit * number), f"k {kind}", title)


def picture(name: tuple[str, str, str], size: tuple[float, float], *marks: Markup) -> Markup:
    """One drawing. `name` is its id, its title and its description for those who cannot see it."""
    key, title, description = name
    width, height = size
    return tag(
        "svg",
        tag("title", title, id=f"{key}-title"),
        tag("desc", description, id=f"{key}-desc"),
        join(marks),
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        role="img",
        aria_labelledby=f"{key}-title {key}-desc",
        class_="narrow" if width <= NARROW else "wide",
    )
