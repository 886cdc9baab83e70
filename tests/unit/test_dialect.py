"""Which words a version is spoken to in, and what is said of a version that nobody looked at."""

import pytest

from adapters.dialect import Dialect, choose_dialect, release, version_problems

SUPPORTED = (
    Dialect("1.0", (1, 0), (1, 1)),
    Dialect("1.2", (1, 2), (1, 3)),
    Dialect("1.3", (1, 3), (1, 4)),
)


@pytest.mark.parametrize(
    ("version", "number"),
    [
        ("0.32.0", (0, 32, 0)),
        ("0.32.0+cpu", (0, 32, 0)),
        ("v0.32", (0, 32)),
        ("0.33.0rc1", (0, 33, 0)),
        ("b11434", (11434,)),
        ("11549", (11549,)),
        (" 1.2 ", (1, 2)),
        ("0", (0,)),
        ("", None),
        ("unknown", None),
        ("main-3f2a", None),
    ],
)
def test_the_numbers_of_a_version(version: str, number: tuple[int, ...] | None) -> None:
    assert release(version) == number


@pytest.mark.parametrize(
    ("version", "name", "is_known"),
    [
        ("1.0", "1.0", True),
        ("1.0.9", "1.0", True),
        ("1.2.0+cpu", "1.2", True),
        ("1.3.7", "1.3", True),
        ("1.1", "1.0", False),
        ("1.1.5", "1.0", False),
        ("0.9", "1.0", False),
        ("1.4", "1.3", False),
        ("2", "1.3", False),
        ("1.10", "1.3", False),
        ("nightly", "1.3", False),
    ],
)
def test_the_nearest_dialect(version: str, name: str, is_known: bool) -> None:
    dialect, known = choose_dialect(SUPPORTED, version)
    assert (dialect.name, known) == (name, is_known)


def test_a_known_version_is_no_problem() -> None:
    assert version_problems("Engine", SUPPORTED, "1.2.3") == []


def test_an_unknown_version_is_a_warning_that_names_the_dialect_used() -> None:
    (problem,) = version_problems("Engine", SUPPORTED, "1.9")
    assert problem.severity == "warning"
    assert problem.message == "Engine 1.9 is not a version known here; it is spoken to as 1.3"
    assert problem.hint == "known: 1.0, 1.2, 1.3; run the gate before you trust it"
