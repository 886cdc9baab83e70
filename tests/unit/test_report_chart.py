"""The pictures: what is drawn is where the figures say, inside the frame, on every scale."""

import math
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from adapters.exchange import Generation
from orchestrator.gate.evidence import Divergence, Precision, Rate, Trial
from orchestrator.gate.margin import kind_of
from orchestrator.gate.report.figure import Figure
from orchestrator.gate.report.forks import forks
from orchestrator.gate.report.guesses import guesses
from orchestrator.gate.report.margins import margins
from orchestrator.gate.report.positions import positions
from orchestrator.gate.report.svg import NARROW, WIDE, Scale, stack, ticks
from orchestrator.gate.statistics import rate
from tests.unit.report_samples import (
    BFLOAT16,
    failing,
    huge,
    numerics,
    passing,
    without_positions,
)

KINDS = ("wrong", "suspicious", "unscored", "near-tie", "tie")
FLOAT32 = Precision(2.0**-19, "a step of float32 between 16 and 32")


def drawn(figure: Figure, width: float = WIDE) -> ElementTree.Element:
    assert figure.draw is not None
    return ElementTree.fromstring(figure.draw(width))


def boxes(picture: ElementTree.Element, class_: str) -> list[tuple[float, float, float, float]]:
    """x, y, width and height of the boxes of a class."""
    return [
        (
            float(box.get("x", "nan")),
            float(box.get("y", "nan")),
            float(box.get("width", "nan")),
            float(box.get("height", "nan")),
        )
        for box in picture.iter("rect")
        if box.get("class") == class_
    ]


def words(picture: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in picture.iter("text")]


@pytest.mark.parametrize("make", [failing, numerics, huge, passing, without_positions])
@pytest.mark.parametrize("figure", [forks, positions, margins, guesses])
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_everything_stands_inside_the_frame(
    make: Callable[[], Trial], figure: Callable[[Trial], Figure], width: float
) -> None:
    made = figure(make())
    if made.draw is None:
        assert made.instead
        return
    picture = drawn(made, width)
    _, _, right, bottom = map(float, picture.get("viewBox", "").split())
    assert right == width
    for element in picture.iter():
        for key, most in (("x", right), ("x1", right), ("x2", right), ("cx", right)):
            assert -0.1 <= float(element.get(key, "0")) <= most
        for key in ("y", "y1", "y2", "cy"):
            assert -0.1 <= float(element.get(key, "0")) <= bottom
        width_of = float(element.get("width", "0"))
        assert float(element.get("x", "0")) + width_of <= right + 0.2
    assert "nan" not in ElementTree.tostring(picture, encoding="unicode")


def test_each_block_is_one_divergence_where_there_is_room() -> None:
    picture = drawn(positions(failing()))
    total = sum(len(boxes(picture, f"k {kind}")) for kind in KINDS)
    assert total == 200


def _many(number: int, position: int = 3) -> Trial:
    one = Divergence("q", "p", "chat", "greedy", 1, ("S1",), position, 1, 2, kind="wrong")
    return replace(failing(), divergences=(one,) * number, noise=())


def test_many_in_one_place_are_one_bar_with_its_number() -> None:
    picture = drawn(positions(_many(5000)))
    (bar,) = boxes(picture, "k wrong")
    assert bar[3] == pytest.approx(54)
    assert "5,000, at most 5,000 in 2 tokens" in words(picture)


def test_positions_are_where_they_are_in_the_longest_answer() -> None:
    trial = _many(1, position=96)
    base = trial.arms[0]
    long = replace(base, answers={"q": Generation((1,), tuple(range(192)), "", "length")})
    picture = drawn(positions(replace(trial, arms=(long,))))
    (box,) = boxes(picture, "k wrong")
    assert box[0] == pytest.approx(4 + (WIDE - 10) / 2, abs=8)


def test_another_prompt_has_a_place_of_its_own() -> None:
    picture = drawn(positions(_many(1, position=-1)))
    (box,) = boxes(picture, "k wrong")
    assert box[0] < 56
    assert "prompt" in words(picture)
    assert "prompt" not in words(drawn(positions(_many(1, position=0))))


def _at(margin: float | None, unit: Precision | None) -> Trial:
    known = unit or BFLOAT16
    one = Divergence("q", "p", "chat", "greedy", 1, ("S1",), 3, 1, 2, margin=margin)
    units = None if margin is None else margin / known.unit
    kind = "unscored" if margin is None else kind_of(margin, known)
    judged = replace(one, units=units, kind=kind)
    return replace(failing(), divergences=(judged,), noise=(), precision=unit)


def _threshold(picture: ElementTree.Element, name: str) -> float:
    lines = [e for e in picture.iter("line") if e.get("class") == "threshold"]
    labels = [t for t in words(picture) if t in ("1 unit", "2 units", "1 nat")]
    return float(lines[labels.index(name)].get("x1", "nan"))


@pytest.mark.parametrize("unit", [BFLOAT16, FLOAT32, Precision(0.25, "wobble")])
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_no_column_crosses_the_line_of_its_class(unit: Precision, width: float) -> None:
    for factor in (0.3, 0.5, 0.99, 1.0):
        picture = drawn(margins(_at(factor * unit.unit, unit)), width)
        ((x, _, wide, _),) = boxes(picture, "k tie")
        assert x + wide <= _threshold(picture, "1 unit") + 0.2
    for factor in (1.01, 1.5, 2.0):
        picture = drawn(margins(_at(factor * unit.unit, unit)), width)
        ((x, _, wide, _),) = boxes(picture, "k near-tie")
        assert _threshold(picture, "1 unit") - 0.2 <= x
        assert x + wide <= _threshold(picture, "2 units") + 0.2
    picture = drawn(margins(_at(3.0, unit)), width)
    ((x, _, _, _),) = boxes(picture, "k wrong")
    assert x >= _threshold(picture, "1 nat") - 0.2


def test_margins_beside_the_scale_have_bins_of_their_own() -> None:
    assert "0 or less" in words(drawn(margins(_at(0.0, BFLOAT16))))
    outside = _at(math.inf, BFLOAT16)
    assert "not told" in words(drawn(margins(outside)))
    assert "no margin" in words(drawn(margins(failing())))


def test_without_a_precision_margins_are_in_nats() -> None:
    figure = margins(_at(0.5, None))
    assert "margins are in nats" in figure.caption
    shown = words(drawn(figure))
    assert "1 nat" in shown
    assert "1 unit" not in shown


def test_what_was_not_scored_is_said_instead_of_drawn() -> None:
    figure = margins(_at(None, BFLOAT16))
    assert figure.draw is None
    assert figure.instead == "1 divergence, none scored: plain was not asked."


def test_rates_are_dots_within_their_bounds() -> None:
    picture = drawn(forks(failing()))
    dots = [float(c.get("cx", "nan")) for c in picture.iter("circle")]
    intervals = [
        (float(e.get("x1", "nan")), float(e.get("x2", "nan")))
        for e in picture.iter("line")
        if e.get("class") == "interval" and e.get("x1") != e.get("x2")
    ]
    assert len(dots) == len(intervals) == 9
    assert all(low < dot < high for dot, (low, high) in zip(dots, intervals, strict=True))


def test_a_rate_of_none_is_an_open_dot() -> None:
    circles = list(drawn(forks(passing())).iter("circle"))
    assert {c.get("class") for c in circles} == {"dot open"}
    assert {c.get("cx") for c in circles} == {"8"}


def test_references_are_drawn_and_named() -> None:
    text = ElementTree.tostring(drawn(forks(failing())), encoding="unicode")
    assert 'class="ref noise"' in text
    assert 'class="band wide-arm"' in text
    assert "plain at verify width: 3.43 (1.57 to 6.5, shaded)" in forks(failing()).legend
    alone = replace(failing(), noise_rate=None, wide_rate=None)
    assert "ref" not in forks(alone).legend


def test_a_references_bounds_are_shaded() -> None:
    ((_, _, noise, _),) = boxes(drawn(forks(failing())), "band noise")
    ((_, _, wide, _),) = boxes(drawn(forks(failing())), "band wide-arm")
    assert wide / noise == pytest.approx((6.5 - 1.57) / (1.38 - 0.0462), rel=0.02)


def test_a_reference_of_few_tokens_does_not_press_the_others_aside() -> None:
    trial = replace(passing(), wide_rate=rate(0, 8))
    intervals = [e for e in drawn(forks(trial)).iter("line") if e.get("class") == "interval"]
    assert max(float(e.get("x2", "nan")) for e in intervals) > WIDE * 0.9
    ((x, _, wide, _),) = boxes(drawn(forks(trial)), "band wide-arm")
    assert x + wide <= WIDE


def test_labels_of_a_long_scale_do_not_touch() -> None:
    for unit in (BFLOAT16, FLOAT32, Precision(0.000581, "wobble")):
        for width in (WIDE, NARROW):
            picture = drawn(margins(_at(0.5, unit)), width)
            ends = [
                _extent(float(e.get("x", "nan")), e.text or "", e.get("text-anchor", ""))
                for e in picture.iter("text")
                if e.get("class") == "tick"
            ]
            assert all(one[1] < other[0] for one, other in pairwise(ends))


def _extent(x: float, text: str, anchor: str) -> tuple[float, float]:
    room = 6.6 * len(text)
    left = {"start": x, "middle": x - room / 2, "end": x - room}[anchor]
    return left, left + room


def test_rates_of_no_tokens_are_not_drawn() -> None:
    trial = replace(passing(), rates={"all": Rate(0, 0, 0, 0, 1000)}, noise_rate=None)
    assert forks(trial).draw is None


def test_acceptance_is_drawn_by_position() -> None:
    picture = drawn(guesses(failing()))
    assert len(boxes(picture, "bar s0")) == len(boxes(picture, "bar s1")) == 4
    heights = [height for _, _, _, height in boxes(picture, "bar s0")]
    assert heights == pytest.approx([150 * p for p in (0.71, 0.38, 0.15, 0.07)], abs=0.5)


def test_acceptance_without_positions_is_a_bar_an_arm() -> None:
    figure = guesses(without_positions())
    picture = drawn(figure)
    bars = boxes(picture, "bar s0")
    assert [width / (WIDE - 4) for _, _, width, _ in bars] == pytest.approx(
        [0.3275, 0.3226], abs=3e-4
    )
    assert "does not tell positions" in figure.caption


def test_acceptance_of_many_positions_fits() -> None:
    base = passing()
    deep = tuple(
        replace(a, positions=tuple(100 / (n + 1) for n in range(40)), steps=120) if a.steps else a
        for a in base.arms
    )
    picture = drawn(guesses(replace(base, arms=deep)), NARROW)
    assert len(boxes(picture, "bar s0")) == 40
    assert words(picture).count("40") <= 1


@pytest.mark.parametrize("high", [0.003, 0.5, 1, 7, 41.2, 999, 1000, 123_456])
@pytest.mark.parametrize("most", [3, 6, 11])
def test_ticks_are_round_and_few(high: float, most: int) -> None:
    found = ticks(high, most)
    assert 2 <= len(found) <= most
    assert found[0] == 0
    assert found[-1] <= high * 1.001
    step = found[1]
    assert re.fullmatch(r"[125](\.0+)?e[+-]\d+", f"{step:.1e}")


def test_ticks_of_nothing() -> None:
    assert ticks(0, 5) == [0.0]


def test_scales_keep_values_within() -> None:
    scale = Scale(0, 10, 100, 200)
    assert (scale(-5), scale(0), scale(5), scale(99)) == (100, 100, 150, 200)


def test_the_worst_stands_at_the_foot_of_a_column() -> None:
    marks = [ElementTree.fromstring(m) for m in stack(0, 100, (10, 9), {"tie": 1, "wrong": 2}, "")]
    assert [m.get("class") for m in marks] == ["k wrong", "k wrong", "k tie"]
    assert [m.get("y") for m in marks] == ["91", "82", "73"]
