"""The canonical form is the one of RFC 8785, so that any of its readers can check a digest."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.gate.canonical import canonical, digest, finite, parse


@pytest.mark.parametrize(
    ("value", "text"),
    [  # RFC 8785, appendix B, and the limits between the forms
        (0.0, "0"),
        (-0.0, "0"),
        (5e-324, "5e-324"),
        (-5e-324, "-5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (9007199254740992.0, "9007199254740992"),
        (295147905179352830000.0, "295147905179352830000"),
        (9.999999999999997e22, "9.999999999999997e+22"),
        (1e23, "1e+23"),
        (1.0000000000000001e23, "1.0000000000000001e+23"),
        (999999999999999700000.0, "999999999999999700000"),
        (1e21, "1e+21"),
        (1e20, "100000000000000000000"),
        (9.999999999999997e-7, "9.999999999999997e-7"),
        (0.000001, "0.000001"),
        (333333333.3333332, "333333333.3333332"),
        (-0.0000033333333333333333, "-0.0000033333333333333333"),
        (1424953923781206.2, "1424953923781206.2"),
        (4.5, "4.5"),
        (0.002, "0.002"),
        (2.0, "2"),
        (100.0, "100"),
        (-17, "-17"),
        (2**53 - 1, "9007199254740991"),
    ],
)
def test_numbers_are_written_as_ecmascript_writes_them(value: float, text: str) -> None:
    assert canonical(value) == text.encode()


def test_the_rfcs_own_example() -> None:
    data = {
        "numbers": [333333333.33333329, 1e30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": '€$\u000f\nA\'B"\\\\"/',
        "literals": [None, True, False],
    }
    assert canonical(data).decode() == (
        '{"literals":[null,true,false],'
        '"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )


def test_keys_are_sorted_by_their_utf_16_units() -> None:
    keys = ["€", "\r", "\ufb33", "1", "\U0001f600", "\u0080", "ö"]
    written = list(json.loads(canonical(dict.fromkeys(keys, 0))))
    assert written == ["\r", "1", "\u0080", "ö", "€", "\U0001f600", "\ufb33"]


@pytest.mark.parametrize(
    "data",
    [float("nan"), float("inf"), -float("inf"), 2**53, -(2**53), "\ud800", {1: 2}, {1, 2}, b"x"],
)
def test_what_json_cannot_say_is_refused(data: Any) -> None:
    with pytest.raises(ValueError, match=r".+"):
        canonical([data])


def test_endless_nesting_is_refused() -> None:
    data: list[Any] = []
    for _ in range(100_000):
        data = [data]
    with pytest.raises(ValueError, match="too deeply"):
        canonical(data)


TEXTS = st.text(st.sampled_from('aZ09"\\/\n\x00\x1f\x7fé€\ufb33\U0001f600'), max_size=6)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
)
DATA = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
    max_leaves=12,
)


@settings(max_examples=30)
@given(DATA)
def test_what_is_read_back_is_the_same_data_and_the_same_bytes(data: Any) -> None:
    text = canonical(data)
    assert parse(text.decode()) == data
    assert canonical(parse(text.decode())) == text
    assert digest(parse(json.dumps(data))) == digest(data)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "a": 1}',
        '[{"b": {"a": 1, "a": 2}}]',
        "[NaN]",
        "{",
        "9007199254740993",
        "1" * 400,
    ],
)
def test_text_with_two_meanings_is_not_read(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse(text)


def test_numbers_that_json_cannot_say_become_null() -> None:
    data = {"a": (1.5, float("inf")), "b": [float("nan"), "x"], "c": {"d": -float("inf")}}
    assert finite(data) == {"a": [1.5, None], "b": [None, "x"], "c": {"d": None}}
