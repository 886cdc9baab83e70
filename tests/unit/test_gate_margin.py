"""Margins against the precision of the logits."""

import pytest

from adapters.exchange import Candidate
from orchestrator.gate.evidence import Precision
from orchestrator.gate.margin import judged, kind_of, precision
from tests.unit.gate_arms import examine


@pytest.mark.parametrize(
    ("logit_type", "unit"),
    [("bfloat16", 0.125), ("float16", 2**-6), ("float32", 2**-19), (None, 0.125), ("int4", 0.125)],
)
def test_a_unit_is_a_step_of_the_type_between_16_and_32(
    logit_type: str | None, unit: float
) -> None:
    found = precision(logit_type)
    assert found.unit == unit
    assert ("assumed" in found.source) == (logit_type not in ("bfloat16", "float16", "float32"))


def test_an_engine_that_wobbles_by_more_than_a_step_has_that_for_a_unit() -> None:
    wobbles = [0.001] * 99 + [0.01]
    assert precision("float32", wobbles).unit == pytest.approx(0.01, rel=0.1)
    assert "wobble" in precision("float32", wobbles).source
    assert precision("bfloat16", wobbles).unit == 0.125
    assert precision("float32", wobbles[:3]).unit == 2**-19, "too few to tell"
    assert precision("float32", [5.0] * 100).unit == 0.25, "no wobble makes a bug a tie"


@pytest.mark.parametrize(
    ("margin", "kind"),
    [
        (0.0, "tie"),
        (0.125, "tie"),
        (0.25, "near-tie"),
        (0.26, "suspicious"),
        (0.99, "suspicious"),
        (1.0, "wrong"),
        (None, "wrong"),
    ],
)
def test_classes(margin: float | None, kind: str) -> None:
    assert kind_of(margin, Precision(0.125, "")) == kind


def test_a_divergence_is_told_by_what_plain_says_of_its_place() -> None:
    first = examine(S1={"greedy/p1": (1, 9, 3)}).compared.divergences[0]
    unit = Precision(0.125, "")
    told = judged(first, (Candidate(2, -0.5), Candidate(9, -0.6), Candidate(7, -3.0)), unit)
    assert told.kind == "tie"
    assert told.margin == told.gap == pytest.approx(0.1)
    assert told.units == pytest.approx(0.8)
    outside = judged(first, (Candidate(2, -0.5), Candidate(7, -3.0)), unit)
    assert (outside.kind, outside.margin, outside.gap) == ("wrong", None, 2.5)
    assert judged(first, (), unit).kind == "unscored"
    ended = examine(S1={"greedy/p1": (1,)}).compared.divergences[0]
    assert judged(ended, (Candidate(2, -0.5),), unit).kind == "unscored"


def test_decimals_do_not_make_two_steps_more_than_two() -> None:
    told = 0.56 - 0.31
    assert told > 2 * 0.125
    assert kind_of(told, Precision(0.125, "")) == "near-tie"
