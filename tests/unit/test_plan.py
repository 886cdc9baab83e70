"""The plan of `up`, as the text that --dry-run prints."""

from collections.abc import Iterable

import pytest

from orchestrator.plan import Observed, Wanted, make_plan
from orchestrator.state import Record

PLAIN = Wanted("plain-0", "digest-a", 8501, "llama.cpp 11434")
EDIT = Wanted("edit-0", "digest-b", 8502, "llama.cpp 11434")
BOTH = (PLAIN, EDIT)


def record(name: str, launch: str, port: int, pid: int) -> Record:
    return Record(name, f"token-{name}", launch, port, pid, 1.0, f"{name}.log")


PLAIN_RUNS = record("plain-0", "digest-a", 8501, 11)
EDIT_RUNS = record("edit-0", "digest-b", 8502, 12)


def observed(
    running: Iterable[Record] = (),
    dead: Iterable[Record] = (),
    strays: tuple[int, ...] = (),
    holders: dict[int, str] | None = None,
) -> Observed:
    return Observed({r.name: r for r in running}, {r.name: r for r in dead}, strays, holders or {})


def text(now: Observed, wanted: Iterable[Wanted] = BOTH) -> list[str]:
    return [str(step) for step in make_plan(wanted, now)]


def test_nothing_runs() -> None:
    assert text(observed()) == [
        "start  plain-0         llama.cpp 11434 on port 8501: it is not running",
        "start  edit-0          llama.cpp 11434 on port 8502: it is not running",
    ]


def test_all_runs_unchanged() -> None:
    assert text(observed([PLAIN_RUNS, EDIT_RUNS])) == [
        "adopt  plain-0         process 11: it runs since before and its launch is unchanged",
        "adopt  edit-0          process 12: it runs since before and its launch is unchanged",
    ]


def test_a_dead_process_is_started_again() -> None:
    assert text(observed([PLAIN_RUNS], dead=[EDIT_RUNS])) == [
        "adopt  plain-0         process 11: it runs since before and its launch is unchanged",
        "start  edit-0          llama.cpp 11434 on port 8502: its process is gone",
    ]


def test_a_changed_launch_is_stopped_first() -> None:
    changed = record("edit-0", "digest-old", 8502, 12)
    assert text(observed([PLAIN_RUNS, changed])) == [
        "stop   edit-0          process 12: its launch changed",
        "adopt  plain-0         process 11: it runs since before and its launch is unchanged",
        "start  edit-0          llama.cpp 11434 on port 8502: it is not running",
    ]


def test_a_worker_that_left_the_fleet_is_stopped() -> None:
    assert text(observed([PLAIN_RUNS, EDIT_RUNS]), [PLAIN]) == [
        "stop   edit-0          process 12: it is not among the workers wanted",
        "adopt  plain-0         process 11: it runs since before and its launch is unchanged",
    ]


def test_a_process_without_a_record_is_stopped() -> None:
    assert text(observed(strays=(77,)), [PLAIN]) == [
        "stop   -               process 77: it belongs to this fleet, but no record explains it",
        "start  plain-0         llama.cpp 11434 on port 8501: it is not running",
    ]


def test_a_strangers_port_is_refused() -> None:
    assert text(observed(holders={8501: "nginx (pid 5)"}), [PLAIN]) == [
        "refuse plain-0         llama.cpp 11434 on port 8501: port 8501 is taken by nginx (pid 5)",
    ]


def test_a_strangers_port_is_refused_although_something_of_ours_strayed() -> None:
    steps = text(observed(strays=(77,), holders={8501: "nginx (pid 5)"}), [PLAIN])
    assert [step.split()[0] for step in steps] == ["stop", "refuse"]


def test_the_port_of_a_worker_that_is_stopped_is_free() -> None:
    gone = record("old-0", "digest-o", 8501, 13)
    steps = text(observed([gone], holders={8501: "engine (pid 13)"}), [PLAIN])
    assert [step.split()[0] for step in steps] == ["stop", "start"]


@pytest.mark.parametrize("wanted", [BOTH, tuple(reversed(BOTH))])
def test_two_workers_may_change_ports(wanted: tuple[Wanted, ...]) -> None:
    """In either order: what is stopped first is free for all that start after."""
    running = [record("plain-0", "old", 8502, 11), record("edit-0", "old", 8501, 12)]
    holders = {8501: "engine (pid 12)", 8502: "engine (pid 11)"}
    steps = text(observed(running, holders=holders), wanted)
    assert [step.split()[0] for step in steps] == ["stop", "stop", "start", "start"]


def test_long_names_stay_apart_from_what_follows() -> None:
    name = "a-worker-with-a-long-name-0"
    (step,) = text(observed(), [Wanted(name, "digest", 8501, "vLLM 0.32.0")])
    assert step == f"start  {name} vLLM 0.32.0 on port 8501: it is not running"


def test_an_empty_fleet_stops_everything() -> None:
    steps = text(observed([PLAIN_RUNS, EDIT_RUNS]), [])
    assert [step.split()[:2] for step in steps] == [["stop", "plain-0"], ["stop", "edit-0"]]
    assert make_plan([], observed()) == []
