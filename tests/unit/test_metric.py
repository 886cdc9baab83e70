"""Reading Prometheus text: a missing counter is None, and a rate needs both of its counters."""

import pytest

from adapters.metric import acceptance_length, acceptance_rate, read_metrics, read_positions

TEXT = """\
# HELP engine:drafted_total Tokens guessed.
# TYPE engine:drafted_total counter
engine:drafted_total{engine="0",model_name="a"} 10.0
engine:drafted_total{engine="1",model_name="a"} 2.0
engine:drafted_created{engine="0",model_name="a"} 1.7e+09
engine:drafts 3
engine:drafts_total 4 1700000000
engine:waiting{} 0
engine:pos_total{engine="0",position="0"} 5
engine:pos_total{engine="0",position="2"} 1
engine:pos_total{engine="1",position="0"} 2
engine:pos_total{engine="1",position="10"} 0
"""


@pytest.mark.parametrize(
    ("theirs", "value"),
    [
        ("engine:drafted_total", 12.0),
        ("engine:drafts", 3.0),
        ("engine:drafts_total", 4.0),
        ("engine:waiting", 0.0),
        ("engine:drafted", None),
        ("drafted_total", None),
        ("engine:nothing", None),
    ],
)
def test_series_are_added_up_and_absent_ones_are_none(theirs: str, value: float | None) -> None:
    assert read_metrics(TEXT, {"ours": theirs}) == {"ours": value}


def test_every_name_asked_for_is_answered() -> None:
    assert read_metrics("", {"drafted": "a", "accepted": "b"}) == {
        "drafted": None,
        "accepted": None,
    }


@pytest.mark.parametrize("model", ["a}b", 'a\\"b', "a b", "a,b={c", "模型"])
def test_label_values_may_hold_any_character(model: str) -> None:
    text = f'x_total{{model_name="{model}",engine="0"}} 7\n'
    assert read_metrics(text, {"x": "x_total"}) == {"x": 7.0}


def test_windows_line_ends_and_scientific_numbers() -> None:
    assert read_metrics("x 1.5e+03\r\ny 2\r\n", {"x": "x", "y": "y"}) == {"x": 1500.0, "y": 2.0}


def test_positions_are_summed_and_gaps_are_zero() -> None:
    found = read_positions(TEXT, "engine:pos_total")
    assert found == (7.0, 0.0, 1.0, *[0.0] * 8)


@pytest.mark.parametrize("name", ["engine:nothing", "engine:drafts", "engine:drafted_total"])
def test_a_counter_without_positions_is_none(name: str) -> None:
    assert read_positions(TEXT, name) is None


@pytest.mark.parametrize(
    ("accepted", "drafted", "rate"),
    [(83, 90, 83 / 90), (0, 90, 0.0), (None, 90, None), (83, None, None), (0, 0, None)],
)
def test_acceptance_rate(accepted: float | None, drafted: float | None, rate: float | None) -> None:
    assert acceptance_rate(accepted, drafted) == rate


@pytest.mark.parametrize(
    ("accepted", "drafts", "length"),
    [(489, 186, 1 + 489 / 186), (0, 10, 1.0), (None, 1, None), (1, None, None), (0, 0, None)],
)
def test_acceptance_length(
    accepted: float | None, drafts: float | None, length: float | None
) -> None:
    assert acceptance_length(accepted, drafts) == length
