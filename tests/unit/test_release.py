"""What the admin port tells the tools that roll a worker out."""

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

from orchestrator import release as module
from orchestrator.admin import View, admin_app
from orchestrator.counts import Counts
from orchestrator.deployment import Deployment
from orchestrator.dispatch import Dispatch
from orchestrator.fleet import Fleet
from orchestrator.gate.admission import Standing
from orchestrator.gate.certificate import certificate_folder, certificate_path
from orchestrator.pool import Pools
from orchestrator.release import CONFIRMING, LARGEST_BODY, Place, Release, release_of
from orchestrator.standing import Standing as Workers
from tests.unit.certified import certify, lay_out, member

T = TypeVar("T")
HOOK = {"name": "llm", "namespace": "prod", "phase": "Progressing", "checksum": "1"}
VERDICTS = ("pass", "fail", "inconclusive", "missing")


def release(verdicts: Mapping[str, str]) -> Release:
    """One routed worker for each profile, standing as said."""
    places = [
        Place(
            f"{profile}-0",
            profile,
            "small",
            False,
            True,
            True,
            partial(Standing, v, f"it is {v}"),
        )
        for profile, v in verdicts.items()
    ]
    return Release(tuple(places))


def run(scenario: Callable[[httpx.AsyncClient], Awaitable[T]], hooks: Release | None) -> T:
    async def inside() -> T:
        dispatch = Dispatch(None, {}, Workers(Pools((), ())))
        transport = httpx.ASGITransport(admin_app(View(lambda: dispatch, Counts, lambda: hooks)))
        async with httpx.AsyncClient(transport=transport, base_url="http://admin") as client:
            return await scenario(client)

    return asyncio.run(inside())


def get(hooks: Release | None, path: str) -> httpx.Response:
    return run(lambda client: client.get(path), hooks)


def post(hooks: Release | None, path: str, content: Any) -> httpx.Response:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    return run(lambda client: client.post(path, content=body), hooks)


def test_every_worker_is_told_and_the_worst_of_them() -> None:
    reply = get(release({"edit": "pass", "chat": "inconclusive"}), "/gate")
    told = reply.json()
    assert (reply.status_code, told["verdict"]) == (200, "inconclusive")
    assert told["required"] is True
    assert told["workers"]["chat-0"] == {
        "verdict": "inconclusive", "reason": "it is inconclusive", "profile": "chat",
        "model": "small", "is_plain": False, "is_routed": True, "is_admitted": True,
        "certificate": None, "created": None, "policy": None,
        "note": "this router sends requests to it, as it decided when it read its files: "
        "SIGHUP reads them again",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("verdicts", "worst"),
    [
        (("pass", "pass"), "pass"),
        (("pass", "inconclusive"), "inconclusive"),
        (("inconclusive", "missing"), "missing"),
        (("missing", "fail"), "fail"),
        ((), "pass"),
    ],
)
def test_the_worst_verdict_counts(verdicts: tuple[str, ...], worst: str) -> None:
    hooks = release({f"p{number}": verdict for number, verdict in enumerate(verdicts)})
    assert get(hooks, "/gate").json()["verdict"] == worst


def test_one_profile_is_told_alone() -> None:
    hooks = release({"edit": "pass", "chat": "fail"})
    told = get(hooks, "/gate/edit").json()
    assert (told["verdict"], list(told["workers"])) == ("pass", ["edit-0"])


def test_a_profile_that_is_not_there_is_named() -> None:
    reply = get(release({"edit": "pass", "chat": "fail"}), "/gate/edti")
    assert reply.status_code == 404
    assert reply.json() == {"error": "no worker has the profile 'edti'; there are: chat, edit"}


def test_without_hooks_there_is_nothing_there() -> None:
    assert get(None, "/gate").status_code == 404
    assert get(None, "/health").json() == {"status": "ok"}


@pytest.mark.parametrize("kind", CONFIRMING)
@pytest.mark.parametrize("verdict", VERDICTS)
def test_flagger_goes_on_with_a_pass_alone(kind: str, verdict: str) -> None:
    reply = post(release({"edit": verdict}), f"/flagger/{kind}", HOOK)
    assert reply.status_code == (200 if verdict == "pass" else 403)
    reasons = {} if verdict == "pass" else {"edit-0": f"it is {verdict}"}
    assert reply.json() == {"hook": kind, "verdict": verdict, "reasons": reasons}


@pytest.mark.parametrize("verdict", VERDICTS)
def test_flagger_rolls_back_after_a_fail_alone(verdict: str) -> None:
    """200 means roll back: a certificate that is missing halts, it does not throw back."""
    reply = post(release({"edit": verdict}), "/flagger/rollback", HOOK)
    assert reply.status_code == (200 if verdict == "fail" else 403)


def test_a_hook_may_name_the_profile() -> None:
    hooks = release({"edit": "pass", "chat": "fail"})
    path = "/flagger/confirm-rollout"
    assert post(hooks, path, HOOK).status_code == 403
    assert post(hooks, path, HOOK | {"metadata": {"profile": "edit"}}).status_code == 200
    assert post(hooks, path, HOOK | {"metadata": {"profile": "chat"}}).status_code == 403
    assert post(hooks, path, HOOK | {"metadata": {"profile": "nope"}}).status_code == 404
    assert post(hooks, path, HOOK | {"metadata": None}).status_code == 403


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "no JSON"),
        (b"{", "no JSON"),
        (b"\xff", "no JSON"),
        (b"[" * 30_000, "no JSON"),
        ([], "no JSON object"),
        ({}, "name is missing"),
        ({"name": 5, "namespace": "x"}, "name is missing"),
        ({"name": "x"}, "namespace is missing"),
        (HOOK | {"metadata": []}, "metadata is no mapping"),
        (HOOK | {"metadata": ["profile"]}, "metadata is no mapping"),
        (HOOK | {"metadata": {"profile": 5}}, "metadata is no mapping"),
        (HOOK | {"metadata": {"profil": "edit"}}, "metadata.profil is not known here"),
    ],
)
@pytest.mark.parametrize("kind", ["confirm-promotion", "rollback"])
def test_what_is_no_hook_is_refused(kind: str, body: Any, words: str) -> None:
    verdict = "fail" if kind == "rollback" else "pass"
    reply = post(release({"edit": verdict}), f"/flagger/{kind}", body)
    assert reply.status_code == 400
    assert words in reply.json()["error"]


def test_an_endless_hook_is_cut_off() -> None:
    reply = post(release({"edit": "pass"}), "/flagger/rollback", b" " * (LARGEST_BODY + 1))
    assert reply.status_code == 413


def test_hooks_are_posted_and_verdicts_are_fetched() -> None:
    hooks = release({"edit": "pass"})
    assert get(hooks, "/flagger/rollback").status_code == 405
    assert post(hooks, "/gate", HOOK).status_code == 405
    assert post(hooks, "/flagger/nonesuch", HOOK).status_code == 404


# Looking.


def test_many_askers_share_one_look() -> None:
    looks: list[int] = []
    is_open = threading.Event()

    def look() -> Standing:
        looks.append(1)
        is_open.wait(5)
        return Standing("pass", "")

    async def scenario(client: httpx.AsyncClient) -> list[httpx.Response]:
        asked = [asyncio.ensure_future(client.get("/gate")) for _ in range(5)]
        await asyncio.sleep(0.05)
        is_open.set()
        return await asyncio.gather(*asked)

    hooks = Release((Place("e", "edit", "m", False, True, True, look),))
    assert {reply.status_code for reply in run(scenario, hooks)} == {200}
    assert len(looks) == 1


def test_a_slow_look_is_told_and_serves_the_next_asker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ANSWER_S", 0.02)
    is_open = threading.Event()
    looks: list[int] = []

    def look() -> Standing:
        looks.append(1)
        is_open.wait(5)
        return Standing("pass", "")

    async def scenario(client: httpx.AsyncClient) -> list[int]:
        late = await client.get("/gate")
        hook = await client.post("/flagger/rollback", json=HOOK)
        is_open.set()
        monkeypatch.setattr(module, "ANSWER_S", 5)
        return [late.status_code, hook.status_code, (await client.get("/gate")).status_code]

    hooks = Release((Place("e", "edit", "m", False, True, True, look),))
    assert run(scenario, hooks) == [503, 503, 200]
    assert len(looks) == 1


# From a fleet.


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    """A routed profile, one that no route names, and a plain one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    lay_out(tmp_path)
    workers = [
        ("edit-0", member(tmp_path)),
        ("control-0", member(tmp_path, profile="control")),
        ("plain-0", member(tmp_path, {"method": "none"}, profile="plain")),
    ]
    members = [
        m.__class__(m.entry.model_copy(update={"name": name}), *_rest(m)) for name, m in workers
    ]
    data = {
        "fleet": "f",
        "models": {"small": {"target": "./m.gguf"}},
        "workers": [m.entry.model_dump(mode="json", exclude_none=True) for m in members],
        "types": [{"type": "chat"}],
        "routes": {"chat": ["edit", "plain"]},
    }
    made = Fleet.model_validate_json(json.dumps(data))
    return Deployment(tmp_path / "fleet.yaml", made, tuple(members), ())


def _rest(m: Any) -> tuple[Any, ...]:
    return (m.profile, m.engine, m.spec, m.launch, m.base, m.missing)


def test_certificates_are_read_when_they_are_asked_for(fleet: Deployment) -> None:
    hooks, folder, edit = release_of(fleet, {}), certificate_folder(fleet), fleet.members[0]
    assert get(hooks, "/gate").json()["verdict"] == "missing"
    certify(folder, edit)
    told = get(hooks, "/gate").json()
    assert told["verdict"] == "pass"
    assert told["workers"]["control-0"]["verdict"] == "missing"
    assert told["workers"]["control-0"]["is_routed"] is False
    assert told["workers"]["edit-0"]["certificate"] == certificate_path(folder, edit).name
    assert told["workers"]["edit-0"]["created"] == "2026-01-02T03:04:05Z"
    certify(folder, edit, verdict="fail")
    assert get(hooks, "/gate").json()["verdict"] == "fail"
    assert post(hooks, "/flagger/rollback", HOOK).status_code == 200
    certify(folder, edit)
    (fleet.file.parent / "d.gguf").write_text("another")
    told = get(hooks, "/gate/edit").json()
    assert (told["verdict"], "another draft" in told["workers"]["edit-0"]["reason"]) == (
        "missing",
        True,
    )


def test_a_plain_profile_has_nothing_to_prove(fleet: Deployment) -> None:
    told = get(release_of(fleet, {}), "/gate/plain").json()
    assert told["verdict"] == "pass"
    assert told["workers"]["plain-0"]["is_plain"] is True


def test_a_profile_that_no_route_names_counts_when_it_is_asked_for(fleet: Deployment) -> None:
    assert get(release_of(fleet, {}), "/gate/control").json()["verdict"] == "missing"


@pytest.mark.parametrize(
    ("refusal", "verdict", "note"),
    [
        (None, "pass", None),
        (None, "fail", "this router sends requests to it, as it decided when it read its files"),
        (
            "no certificate",
            "pass",
            "this router sends nothing to it, as it decided when it read its files",
        ),
        ("no certificate", "fail", None),
    ],
)
def test_a_router_that_acts_on_an_older_verdict_says_so(
    fleet: Deployment, refusal: str | None, verdict: str, note: str | None
) -> None:
    certify(certificate_folder(fleet), fleet.members[0], verdict=verdict)
    told = get(release_of(fleet, {"edit-0": refusal}), "/gate/edit").json()["workers"]["edit-0"]
    assert told["is_admitted"] is (refusal is None)
    assert (told["note"] or "").partition(":")[0] == (note or "")
