"""Picture: how many guesses were accepted, by position where the engine tells it."""

from collections.abc import Iterator, Mapping, Sequence

from orchestrator.gate.evidence import Arm, Trial
from orchestrator.gate.report.figure import Draw, Figure, legend
from orchestrator.gate.report.markup import Markup, table
from orchestrator.gate.report.svg import Scale, line, picture, rect, text
from orchestrator.gate.report.words import acceptance, by_position, count, is_speculating, percent

_TALL = 150.0
_LEFT = 40.0
_TOP = 18.0


def guesses(trial: Trial) -> Figure:
    """Columns by position for each speculating arm, else one bar for each arm's total."""
    arms = [arm for arm in trial.arms if is_speculating(arm)]
    placed = {arm.name: shares for arm in arms if (shares := by_position(arm))}
    totals = {arm.name: share for arm in arms if (share := acceptance(arm)) is not None}
    classes = [(f"bar s{n % 2}", name) for n, name in enumerate(placed)]
    return Figure(
        "guesses",
        "Accepted guesses",
        _caption(bool(placed)),
        _columns(placed) if placed else _bars(arms, totals) if totals else None,
        _table(arms, placed),
        legend(classes) if placed else Markup(""),
        _instead(arms),
    )


def _caption(is_placed: bool) -> str:
    if is_placed:
        return "Share of verify steps that accepted the guess at each position."
    return "The engine does not tell positions: accepted tokens of all drafted ones."


def _instead(arms: Sequence[Arm]) -> str:
    if not arms:
        return "No arm speculated."
    names = " and ".join(arm.name for arm in arms)
    if all(arm.drafted == 0 for arm in arms):
        return f"{names} drafted nothing: no verification was tried."
    return f"The engine did not count what {names} drafted and accepted."


def _columns(placed: Mapping[str, tuple[float, ...]]) -> Draw:
    longest = max(map(len, placed.values()))
    description = "; ".join(
        f"{name}: {', '.join(percent(share) for share in shares)}"
        for name, shares in placed.items()
    )

    def draw(width: float) -> Markup:
        across = Scale(0, longest, _LEFT, min(width - 4, _LEFT + longest * 110))
        up = Scale(0, 1, _TOP + _TALL, _TOP)
        marks = list(_levels(up, across))
        for number, (name, shares) in enumerate(placed.items()):
            marks += _arm_columns((across, up), (number, len(placed)), name, shares)
        marks += _numbers(across, longest)
        title = (f"guesses-{width:.0f}", "Accepted guesses by position", description)
        return picture(title, (width, _TOP + _TALL + 40), *marks)

    return draw


def _levels(up: Scale, across: Scale) -> Iterator[Markup]:
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = up(share)
        yield line(across.left, y, across.right, y, "axis" if share == 0 else "grid")
        yield text(across.left - 6, y + 4, f"{100 * share:.0f} %", "tick", "end")


def _arm_columns(
    scales: tuple[Scale, Scale], of: tuple[int, int], name: str, shares: Sequence[float]
) -> Iterator[Markup]:
    across, up = scales
    number, arms = of
    room = across(1) - across(0)
    width = room * 0.76 / arms
    for position, share in enumerate(shares):
        x = across(position) + room * 0.12 + number * width
        y = up(share)
        title = f"{name}, position {position + 1}: {percent(share)}"
        yield rect((x, y, width - 1, up(0) - y), f"bar s{number % 2}", title)
        if width >= 30:
            yield text(x + width / 2, y - 4, f"{100 * share:.0f} %", "tick", "middle")


def _numbers(across: Scale, longest: int) -> Iterator[Markup]:
    every = max(1, round(24 / (across(1) - across(0))))
    y = _TOP + _TALL + 16
    for position in range(0, longest, every):
        middle = (across(position) + across(position + 1)) / 2
        yield text(middle, y, str(position + 1), "tick", "middle")
    yield text(across.left, y + 18, "position in the guess", "muted")


def _bars(arms: Sequence[Arm], totals: Mapping[str, float]) -> Draw:
    description = "; ".join(f"{name}: {percent(share)}" for name, share in totals.items())
    told = {
        arm.name: f"{percent(totals[arm.name])}, {count(arm.accepted)} of {count(arm.drafted)}"
        for arm in arms
        if arm.name in totals
    }

    def draw(width: float) -> Markup:
        across = Scale(0, 1, 0, width - 4)
        marks: list[Markup] = []
        for number, (name, share) in enumerate(totals.items()):
            top = number * 42.0
            marks += [
                text(0, top + 14, name, "name"),
                text(across.right, top + 14, told[name], "muted", "end"),
                rect((0, top + 20, across.right, 12), "track"),
                rect((0, top + 20, across(share), 12), "bar s0", f"{name}: {percent(share)}"),
            ]
        title = (f"guesses-{width:.0f}", "Accepted tokens of drafted ones", description)
        return picture(title, (width, 42 * len(totals)), *marks)

    return draw


def _table(arms: Sequence[Arm], placed: Mapping[str, tuple[float, ...]]) -> Markup:
    longest = max(map(len, placed.values()), default=0)
    head = ("arm", "drafted", "accepted", "of drafted", *(str(n + 1) for n in range(longest)))
    lines = (_line(arm, placed.get(arm.name, ()), longest) for arm in arms)
    return table(head, lines, 3 + longest)


def _line(arm: Arm, shares: Sequence[float], longest: int) -> Sequence[str]:
    cells = [*map(percent, shares), *["–"] * (longest - len(shares))]
    return arm.name, count(arm.drafted), count(arm.accepted), percent(acceptance(arm)), *cells
