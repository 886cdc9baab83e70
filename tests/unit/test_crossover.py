"""A pool is left at its limit and used again only well below it."""

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.crossover import Band, Crossover, is_left


def test_leaving_and_coming_back() -> None:
    band = Band(8, 4)
    seen = []
    left = False
    for in_flight in (7, 8, 7, 5, 4, 7, 8):
        left = is_left(left, in_flight, band)
        seen.append(left)
    assert seen == [False, True, True, True, False, False, True]


def test_where_it_comes_back_when_nothing_is_said() -> None:
    assert Band.of(8) == Band(8, 6)
    assert Band.of(1) == Band(1, 0)
    assert Band.of(8, 2) == Band(8, 2)


@given(st.integers(min_value=1, max_value=50), st.lists(st.sampled_from((-1, 1)), max_size=200))
def test_one_side_of_the_band_decides(leave_at: int, steps: list[int]) -> None:
    crossover = Crossover(Band.of(leave_at))
    in_flight = 0
    for step in steps:
        in_flight = max(0, in_flight + step)
        crossover.see(in_flight)
        assert crossover.is_left or in_flight < leave_at
        assert not crossover.is_left or in_flight > crossover.band.back_at
