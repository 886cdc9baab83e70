"""The least loaded worker is found, and those with the same load take turns."""

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.ranks import Ranks

NAMES = ("a", "b", "c")
CHANGES = st.lists(
    st.tuples(st.sampled_from(NAMES), st.none() | st.integers(min_value=0, max_value=6))
)


@given(CHANGES)
def test_as_a_plain_search_finds_it(changes: list[tuple[str, int | None]]) -> None:
    """The reference: names in the order in which they were placed, the first with least load."""
    ranks, placed = Ranks(), dict[str, int]()
    for name, load in changes:
        placed.pop(name, None)
        if load is None:
            ranks.remove(name)
        else:
            ranks.place(name, load)
            placed[name] = load
        for besides in (None, *NAMES):
            rest = {n: x for n, x in placed.items() if n != besides}
            assert ranks.least(besides) == min(rest, key=lambda n: rest[n], default=None)
        assert len(ranks) == len(placed)
        assert {n: ranks.load(n) for n in placed} == placed


def test_a_name_far_above_is_still_found() -> None:
    ranks = Ranks()
    ranks.place("a", 5000)
    assert ranks.least() == "a"
    ranks.place("b", 0)
    assert ranks.least() == "b"
    ranks.remove("b")
    assert ranks.least() == "a"
