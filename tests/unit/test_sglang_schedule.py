"""A rendered schedule, read as SGLang documents it, is the profile's at every batch size."""

import json
from bisect import bisect_left
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters import sglang
from adapters.launch import Launch, Model, WorkerSpec
from adapters.profile import Profile, Tier
from tests.unit.scripted import codes

DRAFTS = {"eagle": "/m/eagle", "eagle3": "/m/head", "draft_model": "/m/draft"}
BATCHES = range(1, 65)


def profile(schedule: list[dict[str, Any]], method: str = "eagle3", **fields: Any) -> Profile:
    gamma = max(1, *(tier["gamma"] for tier in schedule))
    spec = {"method": method, "gamma": gamma, "schedule": schedule, **fields}
    return Profile.model_validate_json(json.dumps({"profile": "p", "speculation": spec}))


def worker(version: str = "0.5.23", args: dict[str, Any] | None = None) -> WorkerSpec:
    return WorkerSpec(
        "w", version, ("sglang",), Model("m", "/m/t", 4096, DRAFTS), 8000, args=args or {}
    )


def numbers(launch: Launch, option: str) -> list[int]:
    """The values behind an option that takes several."""
    if option not in launch.arguments:
        return []
    found = []
    for word in launch.arguments[launch.arguments.index(option) + 1 :]:
        if not word.isdecimal():
            break
        found.append(int(word))
    return found


def steps(launch: Launch, batch: int, option: str = "--cuda-graph-bs-decode") -> int:
    """adaptive_spec_params.py: round up to a graph's size, then take the greatest key in it."""
    sizes = sorted(numbers(launch, option))
    at = bisect_left(sizes, batch)
    padded = sizes[at] if at < len(sizes) else batch
    slots = {int(key): slot for key, slot in json.loads(launch.files["adaptive.json"]).items()}
    keys = [key for key in slots if key <= padded]
    (candidate,) = slots[max(keys) if keys else min(slots)]["candidate_steps"]
    assert isinstance(candidate, int)
    return candidate


def wanted(tiers: tuple[Tier, ...], batch: int) -> int:
    return next(t.gamma for t in tiers if t.batch.last is None or batch <= t.batch.last)


def tiers(starts: list[int], gammas: list[int]) -> list[dict[str, Any]]:
    ends = [str(start - 1) for start in starts[1:]]
    batches = [f"{a}-{b}" for a, b in zip(starts, ends, strict=False)] + [f"{starts[-1]}+"]
    return [{"batch": b, "gamma": g} for b, g in zip(batches, gammas, strict=True)]


@st.composite
def schedules(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Of two ranges or more, the first drafting and the second of another gamma."""
    starts = sorted({1, *draw(st.lists(st.integers(2, 64), min_size=1, max_size=4))})
    first = draw(st.integers(1, 8))
    rest = draw(st.lists(st.integers(0, 8), min_size=len(starts) - 1, max_size=len(starts) - 1))
    rest[0] = rest[0] if rest[0] != first else 0
    return tiers(starts, [first, *rest])


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(schedules(), st.sampled_from([None, 1, 8, 16, 64, 300]))
def test_every_batch_gets_its_gamma(schedule: list[dict[str, Any]], most: int | None) -> None:
    made = profile(schedule)
    spec = worker(args={"max-running-requests": most} if most else {})
    assert not any(p.is_fatal for p in sglang.check(made, spec))
    launch = sglang.render(made, spec)
    asked = made.speculation.schedule  # type: ignore[union-attr]  # a drafted method
    assert asked is not None
    for batch in BATCHES:
        assert steps(launch, batch) == wanted(asked, batch), batch


@pytest.mark.parametrize(
    ("version", "option"), [("0.5.13", "--cuda-graph-bs"), ("0.5.14", "--cuda-graph-bs-decode")]
)
def test_the_graphs_option_is_the_versions(version: str, option: str) -> None:
    launch = sglang.render(profile(tiers([1, 12], [4, 2])), worker(version))
    assert 11 in numbers(launch, option)
    assert [steps(launch, batch, option) for batch in (1, 11, 12, 64)] == [4, 4, 2, 2]


def test_without_the_list_a_range_would_begin_too_early() -> None:
    """What the list is for: the usual sizes round 11 up to 12."""
    launch = sglang.render(profile(tiers([1, 12], [4, 2])), worker())
    words = [word for word in launch.arguments if word != "11"]
    usual = Launch(launch.command, tuple(words), launch.address, 8000, files=launch.files)
    assert steps(usual, 11) == 2


def test_the_largest_gamma_is_what_the_buffers_are_made_for() -> None:
    """--speculative-num-steps must be among the candidates, and sizes the first buffers."""
    launch = sglang.render(profile(tiers([1, 5, 9], [3, 5, 0])), worker())
    assert numbers(launch, "--speculative-num-steps") == [5]
    assert numbers(launch, "--speculative-num-draft-tokens") == [6]
    assert "--speculative-adaptive" in launch.arguments
    assert launch.batch_limit is None


@pytest.mark.parametrize("method", ["eagle", "eagle3", "mtp"])
def test_slots_are_for_the_eagle_family(method: str) -> None:
    assert sglang.render(profile(tiers([1, 9], [4, 0]), method), worker()).files


@pytest.mark.parametrize(
    ("method", "version", "args"),
    [
        ("draft_model", "0.5.23", {}),
        ("ngram", "0.5.23", {}),
        ("eagle3", "0.5.13", {}),  # the last range is 0
        ("eagle3", "0.5.12", {}),
        ("eagle3", "0.5.10", {}),
        ("mtp", "0.5.23", {"attn-dp-size": 2}),
        ("mtp", "0.5.23", {"enable-dp-attention": True}),
        ("eagle3", "0.5.23", {"enable-two-batch-overlap": True}),
        ("eagle3", "0.5.23", {"enable-multi-layer-eagle": True}),
        ("eagle3", "0.5.23", {"enable-pdmux": True}),
        ("eagle3", "0.5.23", {"enable-hisparse": True}),
        ("eagle3", "0.5.23", {"lora-paths": ["a=b"]}),
    ],
)
def test_else_the_router_keeps_the_pool_within_the_first_range(
    method: str, version: str, args: dict[str, Any]
) -> None:
    made, spec = profile(tiers([1, 9], [4, 0]), method), worker(version, args)
    found = [p for p in sglang.check(made, spec) if p.code == "schedule-by-router"]
    assert [p.severity for p in found] == ["warning"]
    launch = sglang.render(made, spec)
    assert (launch.batch_limit, dict(launch.files)) == (8, {})
    assert numbers(launch, "--speculative-num-draft-tokens") == [5]
    assert "--speculative-adaptive" not in launch.arguments


def test_steps_above_zero_are_slots_from_0_5_13_on() -> None:
    made = profile(tiers([1, 9], [4, 1]))
    assert sglang.render(made, worker("0.5.13")).files
    assert not sglang.render(made, worker("0.5.12")).files


def test_one_gamma_for_all_sizes_needs_no_slots() -> None:
    made = profile([{"batch": "1-8", "gamma": 3}, {"batch": "9+", "gamma": 3}])
    assert codes(sglang.check(made, worker())) == []
    launch = sglang.render(made, worker())
    assert (launch.batch_limit, dict(launch.files)) == (None, {})


def test_a_schedule_below_the_profiles_gamma_says_so() -> None:
    data = {"method": "eagle3", "gamma": 6, "schedule": tiers([1, 9], [4, 1])}
    made = Profile.model_validate_json(json.dumps({"profile": "p", "speculation": data}))
    found = [s for s in sglang.settings(made, worker()) if s.path == ("speculation", "gamma")]
    assert any("4 is the most" in setting.how for setting in found)
    assert numbers(sglang.render(made, worker()), "--speculative-num-steps") == [4]


@pytest.mark.parametrize("method", ["eagle3", "ngram"])
def test_a_schedule_that_starts_at_zero_is_an_error(method: str) -> None:
    problems = sglang.check(profile(tiers([1, 9], [0, 4]), method), worker())
    assert [(p.code, p.severity) for p in problems] == [("schedule-first", "error")]


@pytest.mark.parametrize(
    "args",
    [
        {"disable-cuda-graph": True},
        {"disable-decode-cuda-graph": True},
        {"cuda-graph-backend-decode": "disabled"},
    ],
)
def test_without_graphs_nothing_is_rounded(args: dict[str, Any]) -> None:
    made = profile(tiers([1, 12], [4, 2]))
    launch = sglang.render(made, worker(args=args))
    assert numbers(launch, "--cuda-graph-bs-decode") == []
    assert [steps(launch, batch) for batch in (11, 12)] == [4, 2]


@pytest.mark.parametrize(
    ("sizes", "code"),
    [([1, 8, 16], "schedule-graphs"), ([1, 11, 16], None), ([1, 8], None), (8, None)],
)
def test_graph_sizes_of_the_users_own(sizes: Any, code: str | None) -> None:
    """A size above the largest graph is not rounded."""
    made = profile(tiers([1, 12], [4, 2]))
    spec = worker(args={"cuda-graph-bs-decode": sizes})
    assert codes(sglang.check(made, spec)) == ([code] if code else [])
    if code is None:
        launch = sglang.render(made, spec)
        assert numbers(launch, "--cuda-graph-bs-decode") == (sizes if sizes != 8 else [8])
        assert [steps(launch, batch) for batch in (11, 12)] == [4, 2]


def test_the_users_largest_graph_ends_the_list() -> None:
    launch = sglang.render(
        profile(tiers([1, 12], [4, 2])), worker(args={"cuda-graph-max-bs-decode": 8})
    )
    assert max(numbers(launch, "--cuda-graph-bs-decode")) == 8
    assert [steps(launch, batch) for batch in (11, 12)] == [4, 2]
