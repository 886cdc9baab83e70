"""The waiting room: bounds, turns, and nobody left behind when something is free."""

from collections.abc import Callable
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.pick import Choice
from orchestrator.waiting import Place, WaitingRoom

FREE = cast("Choice", object())


class Workers:
    """So many places at workers, by group."""

    def __init__(self, **free: int) -> None:
        self.free = free


class Request:
    def __init__(self, name: str, group: str, workers: Workers, log: list[str]) -> None:
        self.name, self.group = name, group
        self._workers, self._log = workers, log
        self.then: Callable[[], Any] = lambda: None

    def look(self) -> Choice | None:
        return FREE if self._workers.free[self.group] else None

    def go(self, choice: Choice) -> None:
        self._workers.free[self.group] -= 1
        self._log.append(self.name)
        self.then()


def place(request: Request, caller: str = "a", size: int = 1) -> Place:
    return Place(request.group, caller, 1.0, size)


def test_number_and_size_are_bounded() -> None:
    room, workers, log = WaitingRoom(3, 100), Workers(g=0), list[str]()
    first, second, third, fourth = (Request(n, "g", workers, log) for n in "1234")
    assert room.join(first, place(first, size=60))
    assert not room.join(second, place(second, size=60))
    assert room.join(second, place(second, size=40))
    assert room.join(third, place(third, size=0))
    assert not room.join(fourth, place(fourth, size=0))
    room.leave(first)
    assert room.count == 2
    assert room.join(fourth, place(fourth, size=60))
    assert not WaitingRoom().join(first, place(first))


def test_one_group_does_not_wait_for_another() -> None:
    room, workers, log = WaitingRoom(10, 100), Workers(big=0, small=1), list[str]()
    for name, group in (("b1", "big"), ("s1", "small"), ("s2", "small")):
        request = Request(name, group, workers, log)
        assert room.join(request, place(request))
    room.wake()
    assert log == ["s1"]
    assert room.has("big")
    assert room.has("small")
    workers.free["big"] = 1
    room.wake()
    assert log == ["s1", "b1"]
    assert not room.has("big")


def test_one_that_ends_at_once_lets_the_next_go() -> None:
    """It wakes the room from within."""
    room, workers, log = WaitingRoom(10, 100), Workers(g=0), list[str]()

    def end() -> None:
        workers.free["g"] += 1
        room.wake()

    for name in "123":
        request = Request(name, "g", workers, log)
        request.then = end
        assert room.join(request, place(request))
    workers.free["g"] = 1
    room.wake()
    assert log == ["1", "2", "3"]
    assert (room.count, room.has("g")) == (0, False)


def test_a_fault_in_one_is_not_that_of_who_woke_the_room() -> None:
    room, workers, log = WaitingRoom(10, 100), Workers(g=2), list[str]()
    for name in "12":
        request = Request(name, "g", workers, log)
        assert room.join(request, place(request))
        if name == "1":
            request.then = lambda: 1 / 0
    room.wake()
    room.wake()
    assert log == ["1", "2"]
    assert room.count == 0


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("come"), st.sampled_from("gh"), st.sampled_from("abc")),
        st.tuples(st.just("free"), st.sampled_from("gh"), st.just("")),
        st.tuples(st.just("leave"), st.just(""), st.just("")),
    ),
    max_size=60,
)


@given(EVENTS)
def test_nobody_waits_while_something_is_free(events: list[tuple[str, str, str]]) -> None:
    room, workers, log = WaitingRoom(20, 1000), Workers(g=0, h=0), list[str]()
    come = left = 0
    for kind, group, caller in events:
        if kind == "come":
            request = Request(str(come), group, workers, log)
            come += room.join(request, place(request, caller))
        elif kind == "free":
            workers.free[group] += 1
        elif waiting := list(room):
            room.leave(waiting[0])
            left += 1
        room.wake()
        for request_group in "gh":
            assert not (room.has(request_group) and workers.free[request_group])
    assert room.count == len(list(room)) == come - left - len(log)
    assert len(set(log)) == len(log)
