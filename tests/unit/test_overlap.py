"""What the sample estimates, and how well."""

import random

import pytest

from orchestrator.overlap import exact_overlap, overlap

WORDS = (
    *("river", "stone", "quiet", "jazz", "morning", "explore", "question", "zebra", "market"),
    *("yellow", "kind", "voice", "box", "under", "together", "judge", "explain", "weather"),
    *("simple", "garden", "travel", "number", "window", "quick"),
)
HAN = "的一是不了人我在有他这为之大来以个中上们到说国和地也子时道出而要于就下得可你年生"


def blocks(dice: random.Random, size: int, copied: float) -> str:
    """Passages, some of which are copies of earlier ones."""
    made: list[str] = []
    while sum(map(len, made)) < size:
        if made and dice.random() < copied:
            made.append(dice.choice(made))
        else:
            made.append(" ".join(dice.choices(WORDS, k=dice.randrange(20, 120))) + ".\n")
    return "".join(made)[:size]


@pytest.mark.parametrize("size", [1000, 4000, 16_000, 48_000])
@pytest.mark.parametrize("copied", [0.0, 0.5])
def test_the_sample_is_near_the_exact_value(size: int, copied: float) -> None:
    errors = []
    for seed in range(3):
        text = blocks(random.Random(seed), size, copied).encode()
        errors.append(overlap(text, "a") - exact_overlap(text, "a"))
    assert abs(sum(errors) / len(errors)) < 0.12
    assert max(map(abs, errors)) < 0.25


def test_texts_without_spaces_and_without_letters() -> None:
    dice = random.Random(1)
    passage = "".join(dice.choices(HAN, k=400))
    other = "".join(dice.choices(HAN, k=400))
    for times in (1, 40):
        fresh = "".join(dice.choices(HAN, k=800 * times)).encode()
        assert overlap(fresh, passage, 3) < 0.05
        assert overlap(f"{passage}{other}{passage}".encode() * times, passage, 3) > 0.2
    assert overlap(("0123456789" * 50).encode(), "0") > 0.8


@pytest.mark.parametrize("text", [b"", b"a", b"short", b"\n" * 30, b"e" * 20_000, b"q" * 5000])
def test_odd_texts(text: bytes) -> None:
    found = overlap(text, text[:9].decode())
    assert 0 <= found <= 1
    assert found == pytest.approx(exact_overlap(text, "a"), abs=0.15)
