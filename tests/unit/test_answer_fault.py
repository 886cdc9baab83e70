"""Answers made wrong: what is dropped, repeated, swapped, changed or taken away, and where."""

from typing import Any

import pytest

from tests.answer_fault import Edit, Kind, parts

IDS = list(range(10, 20))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("drop", [10, 11, 12, 13, 14, 16, 17, 18, 19]),
        ("repeat", [10, 11, 12, 13, 14, 15, 15, 16, 17, 18, 19]),
        ("swap", [10, 11, 12, 13, 14, 16, 15, 17, 18, 19]),
        ("empty", []),
    ],
)
def test_each_change_is_the_same_in_parts(kind: Kind, expected: list[int]) -> None:
    """A streamed answer comes in pieces of one token or several."""
    assert Edit(kind).feed(IDS, is_last=True) == expected
    for size in (1, 2, 3):
        edit = Edit(kind)
        pieces = [IDS[i : i + size] for i in range(0, len(IDS), size)]
        out = [t for piece in pieces for t in edit.feed(piece, is_last=piece is pieces[-1])]
        assert out == expected


def test_a_held_token_is_not_lost_at_the_end() -> None:
    assert Edit("swap").feed(IDS[:6], is_last=True) == IDS[:6]
    edit = Edit("swap")
    assert edit.feed(IDS[:6], is_last=False) == IDS[:5]
    assert edit.feed([], is_last=True) == [15]


@pytest.mark.parametrize("kind", ["drop", "repeat", "swap"])
def test_short_answers_stay(kind: Kind) -> None:
    assert Edit(kind).feed(IDS[:5], is_last=True) == IDS[:5]


def test_tokens_are_changed_at_a_rate() -> None:
    ids = list(range(4000))
    out = Edit("token", 0.01).feed(ids, is_last=True)
    differing = [(a, b) for a, b in zip(ids, out, strict=True) if a != b]
    assert 20 < len(differing) < 60
    assert Edit("token", 0.01).feed(ids, is_last=True) == out, "seeded"


def choice(**fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "finish_reason": "length", **fields}]}


@pytest.mark.parametrize(
    "answer",
    [
        choice(text="ab", token_ids=[1, 2]),
        choice(message={"content": "ab"}, token_ids=[1, 2]),
        choice(delta={"content": "ab"}, token_ids=[1, 2]),
        {"content": "ab", "tokens": [1, 2], "stop": True},
        {"content": "ab", "tokens": [1, 2]},
    ],
)
def test_where_answers_hold_ids_and_text(answer: dict[str, Any]) -> None:
    (part,) = parts(answer)
    assert (part.ids, part.text, part.is_last) == ([1, 2], "ab", True)
    part.write([3], "c")
    (again,) = parts(answer)
    assert (again.ids, again.text) == ([3], "c")


def test_pieces_of_a_stream_are_not_the_last() -> None:
    (part,) = parts({"content": "a", "tokens": [1], "stop": False})
    assert not part.is_last
    (part,) = parts(choice(delta={"content": "a"}, token_ids=[1], finish_reason=None))
    assert not part.is_last


def test_answers_without_ids_have_no_parts() -> None:
    assert not list(parts(choice(text="ab")))
    assert not list(parts({"error": {"message": "no"}}))
    assert not list(parts({"choices": []}))
