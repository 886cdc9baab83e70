"""HTML and SVG that cannot be left unescaped: text is escaped unless it was made here."""

import html
from collections.abc import Iterable, Sequence

from orchestrator.gate.report.words import printable

_VOID = frozenset({"br", "meta", "link"})


class Markup(str):
    """Text that is HTML already. Any other str is escaped where it becomes part of one."""

    __slots__ = ()


def tag(name: str, /, *children: str, **attributes: str | float | None) -> Markup:
    """One element. `class_` is class, `aria_label` aria-label; an attribute of None is absent."""
    told = "".join(_attribute(*pair) for pair in attributes.items() if pair[1] is not None)
    if name in _VOID:
        return Markup(f"<{name}{told}>")
    return Markup(f"<{name}{told}>{join(children)}</{name}>")


def join(parts: Iterable[str]) -> Markup:
    """The parts in a row, those escaped that are not HTML."""
    return Markup("".join(p if isinstance(p, Markup) else escape(p) for p in parts))


def escape(text: str) -> str:
    """For text and for quoted attributes."""
    return html.escape(printable(text))


def said(text: str) -> Markup:
    """What a model or an engine said; its direction of writing stays inside."""
    return tag("code", tag("bdi", text)) if text else Markup("")


def table(head: Sequence[str], lines: Iterable[Sequence[str]], numbers: int = 0) -> Markup:
    """A table, scrolling by itself where it is too wide; its last `numbers` columns are figures."""
    first = len(head) - numbers
    kinds = ["num" if index >= first else None for index in range(len(head))]
    top = join(tag("th", h, scope="col", class_=k) for h, k in zip(head, kinds, strict=True))
    body = join(_line(cells, kinds) for cells in lines)
    whole = tag("table", tag("thead", tag("tr", top)), tag("tbody", body))
    return tag("div", whole, class_="scroll", tabindex=0, role="region", aria_label="table")


def _line(cells: Sequence[str], kinds: Sequence[str | None]) -> Markup:
    first = tag("th", cells[0], scope="row")
    rest = (tag("td", c, class_=k) for c, k in zip(cells[1:], kinds[1:], strict=True))
    return tag("tr", first, *rest)


def _attribute(name: str, value: str | float | None) -> str:
    return f' {name.rstrip("_").replace("_", "-")}="{escape(_short(value))}"'


def _short(value: str | float | None) -> str:
    """Coordinates to a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)
