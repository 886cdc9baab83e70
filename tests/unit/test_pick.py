"""Which worker a request gets, and what is said about it."""

from collections.abc import Mapping

from orchestrator.fleet import Hop, Until
from orchestrator.pick import Choice, Facts, Routes, pick
from orchestrator.pool import Pools, Upstream
from orchestrator.refusal import Refusal
from orchestrator.ring import stable_hash

MIN_P = "the engine answers 400 to min_p while speculating"


def upstream(  # noqa: PLR0913  each test says what matters to it
    name: str,
    profile: str,
    *,
    model: str = "small",
    batch_limit: int | None = None,
    refused: str | None = None,
    in_flight_limit: int | None = None,
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
        in_flight_limit=in_flight_limit,
    )


EDIT = (upstream("edit-0", "code-edit"), upstream("edit-1", "code-edit"))
PLAIN = (upstream("plain-0", "plain"),)
ROUTE = (Hop(profile="code-edit"), Hop(profile="plain"))


class Now:
    """Workers as they stand: ready and idle, but for what is said."""

    def __init__(
        self,
        upstreams: tuple[Upstream, ...] = (*EDIT, *PLAIN),
        in_flight: Mapping[str, int] | None = None,
        states: Mapping[str, str] | None = None,
    ) -> None:
        self.pools = Pools(upstreams, tuple(dict.fromkeys(u.model for u in upstreams)))
        self.pool_of = {u.name: pool for pool in self.pools for u in pool.upstreams}
        for name, pool in self.pool_of.items():
            pool.set_state(name, (states or {}).get(name, "ready"))
        self.add(in_flight or {})

    def add(self, changes: Mapping[str, int]) -> None:
        for name, change in changes.items():
            for _ in range(abs(change)):
                self.pool_of[name].add(name, 1 if change > 0 else -1)

    def choose(
        self,
        hops: tuple[Hop, ...] = ROUTE,
        facts: Facts | None = None,
        failed: str | None = None,
    ) -> Choice | Refusal:
        facts = facts or Facts("code_edit", "small")
        return pick(Routes({facts.type: hops}, self.pools), facts, failed)


def choose(
    upstreams: tuple[Upstream, ...] = (*EDIT, *PLAIN),
    hops: tuple[Hop, ...] = ROUTE,
    facts: Facts | None = None,
    in_flight: Mapping[str, int] | None = None,
    states: Mapping[str, str] | None = None,
) -> Choice | Refusal:
    return Now(upstreams, in_flight, states).choose(hops, facts)


def chosen(found: Choice | Refusal) -> Choice:
    assert isinstance(found, Choice), found
    return found


def refused(found: Choice | Refusal) -> Refusal:
    assert isinstance(found, Refusal), found
    return found


def test_least_loaded_worker_of_the_first_hop_wins() -> None:
    found = chosen(choose(in_flight={"edit-0": 2, "edit-1": 1}))
    assert found.upstream.name == "edit-1"
    assert found.reason == "route code_edit[0]: least in flight (1 of 3)"
    assert found.kind == "preferred"


def test_ties_go_round() -> None:
    now = Now()
    names = []
    for _ in range(4):
        name = chosen(now.choose()).upstream.name
        names.append(name)
        now.add({name: 1})
        now.add({name: -1})
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
    now = Now()
    now.choose(hops)
    before = chosen(choose(hops=hops, in_flight={"edit-0": 1}))
    after = chosen(loaded(hops, {"edit-0": 1, "edit-1": 1}).choose(hops))
    assert before.upstream.name == "edit-1"
    assert (after.upstream.name, after.kind) == ("plain-0", "until")
    assert "code-edit: 2 in flight, until 2" in after.reason


def loaded(hops: tuple[Hop, ...], *changes: Mapping[str, int]) -> Now:
    """A load that came while the route was in use."""
    now = Now()
    Routes({"code_edit": hops}, now.pools).steps("code_edit", "small")
    for change in changes:
        now.add(change)
    return now


def test_a_hop_that_was_left_is_used_again_below() -> None:
    hops = (Hop(profile="code-edit", until=Until(in_flight=8, back_at=4)), Hop(profile="plain"))
    now = loaded(hops, {"edit-0": 4, "edit-1": 4}, {"edit-1": -3})
    still_left = chosen(now.choose(hops))
    assert still_left.upstream.name == "plain-0"
    assert "code-edit: 5 in flight, until 8, back at 4" in still_left.reason
    now.add({"edit-0": -1})
    assert chosen(now.choose(hops)).upstream.name == "edit-1"
    now.add({"edit-1": 3})
    assert chosen(now.choose(hops)).upstream.profile == "code-edit"


def test_a_schedule_the_engine_cannot_follow_limits_the_pool() -> None:
    workers = (upstream("edit-0", "code-edit", batch_limit=4), *PLAIN)
    inside = chosen(choose(workers, in_flight={"edit-0": 3}))
    beyond = chosen(choose(workers, in_flight={"edit-0": 4}))
    assert inside.upstream.name == "edit-0"
    assert (beyond.upstream.name, beyond.kind) == ("plain-0", "batch_limit")


def test_a_schedule_is_an_upper_limit_for_each_pool_of_its_own() -> None:
    workers = (upstream("edit-0", "code-edit", batch_limit=4), *PLAIN)
    now = Now(workers, {"edit-0": 4, "plain-0": 9})
    now.add({"edit-0": -1})
    assert chosen(now.choose()).upstream.name == "edit-0"


def test_a_worker_that_is_not_admitted_gets_nothing() -> None:
    workers = (upstream("edit-0", "code-edit", refused="no certificate"), *PLAIN)
    found = chosen(choose(workers))
    assert (found.upstream.name, found.kind) == ("plain-0", "refused")
    assert "edit-0 is not admitted: no certificate" in found.reason


def test_a_draining_worker_gets_nothing_new() -> None:
    found = chosen(choose(states={"edit-0": "stopping"}, in_flight={"edit-1": 9}))
    assert found.upstream.name == "edit-1"


def test_a_worker_just_tried_is_passed_over() -> None:
    found = chosen(Now().choose(failed="edit-0"))
    assert found.upstream.name == "edit-1"


def test_plain_is_the_refuge_even_where_no_route_names_it() -> None:
    found = chosen(choose(hops=()))
    assert found.reason == "plain refuge: least in flight (0 of 0)"
    assert found.kind == "refuge"


def test_a_plain_hop_that_is_full_still_is_the_refuge() -> None:
    hops = (Hop(profile="plain", until=Until(in_flight=1)), Hop(profile="code-edit"))
    states = {"edit-0": "starting", "edit-1": "starting"}
    found = chosen(choose(hops=hops, in_flight={"plain-0": 1}, states=states))
    assert found.upstream.name == "plain-0"
    assert found.reason.startswith("plain refuge: ")


def test_nothing_left_says_why_for_each() -> None:
    states = {"edit-0": "starting", "edit-1": "failed", "plain-0": "unreachable"}
    found = refused(choose(states=states))
    assert (found.status, found.code) == (503, "no_worker")
    assert found.message == (
        "no worker can take a request of type code_edit for small now: "
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


def test_a_canary_gets_its_share_of_the_clients_and_always_the_same() -> None:
    hops = (Hop(profile="code-edit", share=0.25), Hop(profile="plain"))
    now = Now()
    clients = [stable_hash(f"client {number}".encode()) for number in range(2000)]

    def profile(client: int) -> str:
        return chosen(now.choose(hops, Facts("chat", "small", client=client))).upstream.profile

    first = [profile(client) for client in clients]
    assert first == [profile(client) for client in clients]
    assert 0.2 < first.count("code-edit") / len(clients) < 0.3
    others = chosen(now.choose(hops, Facts("chat", "small", client=2**64 - 1)))
    assert (others.kind, others.upstream.name) == ("share", "plain-0")
    assert "left code-edit: not in its 0.25 of clients" in others.reason


MANY = tuple(upstream(f"edit-{number}", "code-edit") for number in range(8))
ALIKE = (Hop(profile="code-edit", affinity=True),)


def test_prompts_that_begin_alike_go_to_one_worker() -> None:
    now = Now(MANY)
    heads = [stable_hash(f"prompt {number}".encode()) for number in range(400)]

    def worker(head: int) -> str:
        found = chosen(now.choose(ALIKE, Facts("chat", "small", head=head)))
        assert found.how == "same prompt head"
        return found.upstream.name

    first = [worker(head) for head in heads]
    assert first == [worker(head) for head in heads]
    assert set(first) == {u.name for u in MANY}
    gone = first[0]
    now.pool_of[gone].set_state(gone, "unreachable")
    moved = [worker(head) for head in heads]
    assert gone not in moved
    assert all(now == before for now, before in zip(moved, first, strict=True) if before != gone)


def test_affinity_gives_way_to_a_load_that_is_not_fair() -> None:
    now = Now(MANY)
    facts = Facts("chat", "small", head=7)
    home = chosen(now.choose(ALIKE, facts)).upstream.name
    now.add({home: 4})
    assert chosen(now.choose(ALIKE, facts)).upstream.name != home


def test_workers_with_all_they_may_have_are_full() -> None:
    workers = (upstream("plain-0", "plain", in_flight_limit=2),)
    found = refused(choose(workers, hops=(), in_flight={"plain-0": 2}))
    assert (found.status, found.code, found.retry_after_s) == (503, "workers_full", 1)
    assert chosen(choose(workers, hops=(), in_flight={"plain-0": 1})).upstream.name == "plain-0"


def test_a_reason_names_the_first_few_workers_of_many() -> None:
    found = refused(choose(MANY, states={u.name: "starting" for u in MANY}))
    assert "edit-0 is starting, edit-1 is starting, edit-2 is starting, and 5 more" in found.message


def test_other_names_of_a_model_lead_to_its_workers() -> None:
    pools = Pools(PLAIN, ("small",), {"org/small-270m": "small", "sql-lora": "small"})
    for pool in pools:
        pool.set_state("plain-0", "ready")
    routes = Routes({}, pools)
    for name in ("small", "org/small-270m", "sql-lora"):
        assert chosen(pick(routes, Facts("chat", name))).upstream.name == "plain-0"
    message = refused(pick(routes, Facts("chat", "large"))).message
    assert message.endswith("served are: small, org/small-270m, sql-lora")
