"""Which worker a request gets, and what is said about it."""

from collections.abc import Mapping

from orchestrator.fleet import Hop, Until
from orchestrator.pick import Choice, Facts, Pools, Snapshot, Upstream, pick
from orchestrator.refusal import Refusal

MIN_P = "the engine answers 400 to min_p while speculating"


def upstream(
    name: str,
    profile: str,
    *,
    model: str = "small",
    batch_limit: int | None = None,
    refused: str | None = None,
) -> Upstream:
    return Upstream(
        name=name,
        profile=profile,
        model=model,
        engine="fake",
        host="127.0.0.1",
        port=1,
        is_plain=profile == "plain",
        limits={"min_p": MIN_P, "logit_bias": "not while speculating"},
        health="/health",
        batch_limit=batch_limit,
        refused=refused,
    )


EDIT = (upstream("edit-0", "code-edit"), upstream("edit-1", "code-edit"))
PLAIN = (upstream("plain-0", "plain"),)
ROUTE = (Hop(profile="code-edit"), Hop(profile="plain"))


def choose(
    upstreams: tuple[Upstream, ...] = (*EDIT, *PLAIN),
    hops: tuple[Hop, ...] = ROUTE,
    facts: Facts | None = None,
    now: Snapshot | None = None,
) -> Choice | Refusal:
    models = tuple(dict.fromkeys(u.model for u in upstreams))
    facts = facts or Facts("code_edit", "small")
    return pick(Pools.of(upstreams, models), hops, facts, now or moment(upstreams))


def moment(
    upstreams: tuple[Upstream, ...] = (*EDIT, *PLAIN),
    in_flight: Mapping[str, int] | None = None,
    states: Mapping[str, str] | None = None,
    turn: int = 0,
) -> Snapshot:
    ready = {u.name: "ready" for u in upstreams}
    return Snapshot({**ready, **(states or {})}, in_flight or {}, turn)


def chosen(found: Choice | Refusal) -> Choice:
    assert isinstance(found, Choice), found
    return found


def refused(found: Choice | Refusal) -> Refusal:
    assert isinstance(found, Refusal), found
    return found


def test_least_loaded_worker_of_the_first_hop_wins() -> None:
    found = chosen(choose(now=moment(in_flight={"edit-0": 2, "edit-1": 1})))
    assert found.upstream.name == "edit-1"
    assert found.reason == "route code_edit[0]: least in flight (1 of 3)"
    assert found.kind == "preferred"


def test_ties_go_round() -> None:
    names = [chosen(choose(now=moment(turn=turn))).upstream.name for turn in range(4)]
    assert names == ["edit-0", "edit-1", "edit-0", "edit-1"]


def test_a_field_the_engine_cannot_serve_while_speculating_goes_to_plain() -> None:
    found = chosen(choose(facts=Facts("code_edit", "small", {"min_p"})))
    assert found.upstream.name == "plain-0"
    assert found.kind == "limits"
    assert found.reason == (
        f"route code_edit[1]: least in flight (0 of 0); left code-edit: min_p: {MIN_P}"
    )


def test_a_hop_is_left_at_its_until() -> None:
    hops = (Hop(profile="code-edit", until=Until(in_flight=2)), Hop(profile="plain"))
    before = chosen(choose(hops=hops, now=moment(in_flight={"edit-0": 1})))
    after = chosen(choose(hops=hops, now=moment(in_flight={"edit-0": 1, "edit-1": 1})))
    assert before.upstream.name == "edit-1"
    assert (after.upstream.name, after.kind) == ("plain-0", "until")
    assert "code-edit: 2 in flight, until 2" in after.reason


def test_a_schedule_the_engine_cannot_follow_limits_the_pool() -> None:
    workers = (upstream("edit-0", "code-edit", batch_limit=4), *PLAIN)
    inside = chosen(choose(workers, now=moment(workers, {"edit-0": 3})))
    beyond = chosen(choose(workers, now=moment(workers, {"edit-0": 4})))
    assert inside.upstream.name == "edit-0"
    assert (beyond.upstream.name, beyond.kind) == ("plain-0", "batch_limit")


def test_a_worker_that_is_not_admitted_gets_nothing() -> None:
    workers = (upstream("edit-0", "code-edit", refused="no certificate"), *PLAIN)
    found = chosen(choose(workers))
    assert (found.upstream.name, found.kind) == ("plain-0", "refused")
    assert "edit-0 is not admitted: no certificate" in found.reason


def test_a_draining_worker_gets_nothing_new() -> None:
    found = chosen(choose(now=moment(states={"edit-0": "stopping"}, in_flight={"edit-1": 9})))
    assert found.upstream.name == "edit-1"


def test_a_worker_just_tried_is_passed_over() -> None:
    now = moment()
    found = chosen(choose(now=Snapshot(now.states, now.in_flight, 0, failed="edit-0")))
    assert found.upstream.name == "edit-1"


def test_plain_is_the_refuge_even_where_no_route_names_it() -> None:
    found = chosen(choose(hops=()))
    assert found.reason == "plain refuge: least in flight (0 of 0)"
    assert found.kind == "refuge"


def test_a_plain_hop_that_is_full_still_is_the_refuge() -> None:
    hops = (Hop(profile="plain", until=Until(in_flight=1)), Hop(profile="code-edit"))
    states = {"edit-0": "starting", "edit-1": "starting"}
    found = chosen(choose(hops=hops, now=moment(in_flight={"plain-0": 1}, states=states)))
    assert found.upstream.name == "plain-0"
    assert found.reason.startswith("plain refuge: ")


def test_nothing_left_says_why_for_each() -> None:
    states = {"edit-0": "starting", "edit-1": "failed", "plain-0": "unreachable"}
    found = refused(choose(now=moment(states=states)))
    assert (found.status, found.code) == (503, "no_worker")
    assert found.message == (
        "no worker can take a code_edit request for small now: "
        "code-edit: edit-0 is starting, edit-1 is failed; plain: plain-0 is unreachable"
    )


def test_a_profile_without_workers_is_named() -> None:
    found = refused(choose(EDIT, hops=(Hop(profile="chat-draft"),)))
    assert "chat-draft: no worker of this profile serves the model" in found.message
    assert "plain refuge: no worker" in found.message


def test_an_unknown_model_is_404_and_lists_the_models() -> None:
    found = refused(choose(facts=Facts("chat", "large")))
    assert (found.status, found.code, found.parameter) == (404, "model_not_found", "model")
    assert found.message == "the model 'large' does not exist; served are: small"


def test_a_request_without_a_model_takes_the_only_one() -> None:
    assert chosen(choose(facts=Facts("chat", None))).upstream.model == "small"
    both = (*PLAIN, upstream("big-0", "plain", model="big"))
    assert refused(choose(both, facts=Facts("chat", None))).status == 400


def test_workers_of_another_model_are_never_used() -> None:
    workers = (upstream("big-0", "code-edit", model="big"), *PLAIN)
    assert chosen(choose(workers)).upstream.name == "plain-0"
