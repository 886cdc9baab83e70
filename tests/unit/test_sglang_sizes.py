"""SGLang: graph sizes and numbers of requests as a user may write them, beside a schedule."""

import json
import time
from typing import Any

import pytest

from adapters import sglang
from adapters.problem import Problem
from adapters.profile import Profile
from tests.unit.scripted import codes
from tests.unit.test_sglang_schedule import numbers, profile, steps, tiers, worker

HALVES = tiers([1, 12], [4, 2])
DECODE = "cuda-graph-bs-decode"


def native(options: dict[str, Any]) -> Profile:
    data = {"method": "eagle3", "gamma": 4, "schedule": HALVES}
    made = {"profile": "p", "speculation": data, "engine": {"sglang": options}}
    return Profile.model_validate_json(json.dumps(made))


def check(options: dict[str, Any], version: str = "0.5.23") -> list[Problem]:
    """Of a profile's own options."""
    return sglang.check(native(options), worker(version))


# A JSON object that wins over every other option for graphs.


@pytest.mark.parametrize("version", ["0.5.14", "0.5.23"])
@pytest.mark.parametrize("is_text", [True, False])
@pytest.mark.parametrize(
    ("config", "found"),
    [
        ({"decode": {"bs": [1, 8, 16]}}, ["schedule-graphs"]),
        ({"decode": {"backend": "full"}, "prefill": {}}, ["schedule-graphs"]),
        ({"prefill": {"backend": "disabled"}}, []),
        ({"decode": {}}, []),
    ],
)
def test_a_graph_config_would_overrule_the_list(
    config: dict[str, Any], found: list[str], is_text: bool, version: str
) -> None:
    value = json.dumps(config) if is_text else config
    problems = check({"cuda-graph-config": value}, version)
    assert codes(problems) == found
    assert all(p.severity == "error" and p.path[0] == "engine" for p in problems)


def test_a_fleets_graph_config_is_in_the_schedules_way() -> None:
    spec = worker(args={"cuda-graph-config": {"decode": {"bs": [8]}}})
    (problem,) = sglang.check(profile(HALVES), spec)
    assert (problem.code, problem.path) == ("schedule-graphs", ("speculation", "schedule"))
    assert sglang.check(profile([{"batch": "1+", "gamma": 4}]), spec) == []


@pytest.mark.parametrize("switch", ["disable-cuda-graph", "disable-decode-cuda-graph"])
@pytest.mark.parametrize(("backend", "has_list"), [("full", True), ("disabled", False)])
def test_a_backends_name_wins_over_the_switches(switch: str, backend: str, has_list: bool) -> None:
    spec = worker(args={switch: True, "cuda-graph-backend-decode": backend})
    launch = sglang.render(profile(HALVES), spec)
    assert bool(numbers(launch, f"--{DECODE}")) is has_list
    assert [steps(launch, batch) for batch in (11, 12)] == [4, 2]


# Old names of the same variables.


@pytest.mark.parametrize("version", ["0.5.14", "0.5.19"])
@pytest.mark.parametrize("name", ["cuda-graph-bs", "cuda_graph_bs", DECODE])
def test_a_list_by_its_old_name_is_the_list(name: str, version: str) -> None:
    launch = sglang.render(native({name: [1, 11, 16]}), worker(version))
    assert check({name: [1, 11, 16]}, version) == []
    assert numbers(launch, f"--{DECODE}") == [1, 11, 16]
    assert "--cuda-graph-bs" not in launch.arguments
    (problem,) = check({name: [1, 8, 16]}, version)
    assert (problem.code, problem.path[-1]) == ("schedule-graphs", name)


@pytest.mark.parametrize("version", ["0.5.14", "0.5.19"])
def test_the_largest_graph_by_its_old_name_ends_the_list(version: str) -> None:
    launch = sglang.render(native({"cuda-graph-max-bs": 8}), worker(version))
    assert numbers(launch, f"--{DECODE}") == [*range(1, 9)]
    assert numbers(launch, "--cuda-graph-max-bs-decode") == [8]


def test_both_names_are_one_option_twice() -> None:
    both: dict[str, Any] = {"cuda-graph-bs": [1, 11], DECODE: [1, 11]}
    assert codes(check(both, "0.5.18")) == ["option-twice"]
    assert codes(sglang.check_arguments(both, "0.5.18")) == ["option-twice"]
    assert sglang.check_arguments({"cuda-graph-bs": [1, 11]}, "0.5.13") == []


# Numbers that nothing can serve.


@pytest.mark.parametrize("name", ["max-running-requests", "cuda-graph-max-bs-decode", DECODE])
@pytest.mark.parametrize("value", [0, -1, "0", 65_537, 100_000_000, 10**30, "9" * 5000])
def test_no_request_and_too_many(name: str, value: Any) -> None:
    problems = sglang.check_arguments({name: value}, "0.5.23")
    assert codes(problems) == ["option-value"]
    assert codes(sglang.check_arguments({name: [value]}, "0.5.23"))[:1] == ["option-value"]
    assert "option-value" in codes(check({name: value}))


@pytest.mark.parametrize("version", ["0.5.13", "0.5.18", "0.5.23"])
def test_an_empty_list_of_graphs(version: str) -> None:
    name = "cuda-graph-bs" if version == "0.5.13" else DECODE
    assert codes(check({name: []}, version)) == ["option-value"]


@pytest.mark.parametrize("most", [10**9, 65_536, "9" * 5000, 0])
def test_a_list_is_made_quickly_whatever_the_number(most: Any) -> None:
    start = time.monotonic()
    sizes = numbers(sglang.render(native({"max-running-requests": most}), worker()), f"--{DECODE}")
    assert time.monotonic() - start < 1
    assert len(sizes) < 100


def test_the_list_ends_at_the_largest_graph_that_sglang_would_make() -> None:
    launch = sglang.render(native({"max-running-requests": 4000}), worker())
    assert max(numbers(launch, f"--{DECODE}")) == 512
    wide = {"max-running-requests": 4000, "cuda-graph-max-bs-decode": 1024}
    assert max(numbers(sglang.render(native(wide), worker()), f"--{DECODE}")) == 1024
    assert [steps(launch, batch) for batch in (11, 12, 600, 4000)] == [4, 2, 2, 2]


# Weights that are no model's, and workers that nobody can talk to.


@pytest.mark.parametrize("name", ["load-format", "speculative-draft-load-format"])
@pytest.mark.parametrize("word", ["dummy", "DUMMY"])
def test_random_weights_are_lossy(name: str, word: str) -> None:
    assert "lossy" in codes(sglang.check_arguments({name: word}, "0.5.23"))
    assert "lossy" in codes(check({name: word}))
    assert sglang.check_arguments({name: "auto"}, "0.5.23") == []


@pytest.mark.parametrize("name", ["ssl-certfile", "ssl-keyfile"])
@pytest.mark.parametrize("version", ["0.5.10", "0.5.23"])
def test_a_worker_speaks_plain_http(name: str, version: str) -> None:
    (problem,) = sglang.check_arguments({name: "x.pem"}, version)
    assert (problem.code, "plain HTTP" in problem.hint) == ("option-is-ours", True)


def test_another_vocabulary_is_an_error_whatever_a_fleet_allows() -> None:
    made = Profile.model_validate_json(
        '{"profile": "p", "speculation": {"method": "draft_model", "gamma": 4,'
        ' "other_vocabulary": true}}'
    )
    found = [(p.code, p.severity) for p in sglang.check(made, worker())]
    assert found == [("other-vocabulary", "error")]
