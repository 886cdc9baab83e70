"""The examples name commands, options, paths and exit codes that exist; their fleets are sound."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from starlette.routing import Route

from adapters import ADAPTERS
from orchestrator import deployment
from orchestrator.admin import release_routes
from orchestrator.cli import run
from orchestrator.deployment import read_deployment
from orchestrator.errors import (
    EngineError,
    GateFailedError,
    InconclusiveError,
    InputError,
    OrchestratorError,
)
from orchestrator.gate.signature import write_keys
from orchestrator.release import ANSWER_S, CONFIRMING, ROLLBACK, Release

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(p for p in (ROOT / "examples").rglob("*") if p.suffix in (".yaml", ".yml"))
COMMAND = re.compile(r"^\s*(?:\$ )?(draftgate [^|>#\n]*)", re.MULTILINE)
CALL = re.compile(r"(?:https?://[^\s\"'/]+|\{\{args\.admin\}\})(/[^\s\"']*)?")


def documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all((ROOT / "examples" / name).read_text()))


def one(name: str, kind: str) -> Any:
    return next(d for d in documents(name) if d["kind"] == kind)


def of(data: Any, key: str) -> Iterator[Any]:
    """Every value that stands under a key, however deep."""
    if isinstance(data, dict):
        yield from (value for name, value in data.items() if name == key)
        for value in data.values():
            yield from of(value, key)
    elif isinstance(data, list):
        for value in data:
            yield from of(value, key)


# Commands.


def container_commands() -> Iterator[tuple[str, list[str]]]:
    for path in EXAMPLES:
        for document in yaml.safe_load_all(path.read_text()):
            for containers in of(document, "containers"):
                for container in containers:
                    yield path.name, [*container["command"], *container["args"]]


def written_commands() -> Iterator[tuple[str, list[str]]]:
    texts = [ROOT / "examples/github/gate.yml", ROOT / "docs/ci.md", ROOT / "docs/certificate.md"]
    for path in texts:
        blocks = re.findall(r"^```\w*\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL)
        for text in blocks or [path.read_text().replace("run: draftgate", "\ndraftgate")]:
            for command in COMMAND.findall(text.replace("\\\n", " ")):
                yield path.name, shlex.split(command)


COMMANDS = [*container_commands(), *written_commands()]


def test_there_are_commands_to_look_at() -> None:
    assert {name for name, _ in COMMANDS} == {
        "gate-job.yaml", "analysis.yaml", "gate.yml", "ci.md", "certificate.md",
    }  # fmt: skip


@pytest.mark.parametrize(("name", "command"), COMMANDS, ids=lambda value: str(value)[:60])
def test_every_command_is_understood(name: str, command: list[str]) -> None:
    assert command[0] == "draftgate"
    group: click.Command = run
    context = click.Context(run)
    words = command[1:]
    while isinstance(group, click.Group) and words:
        found = group.get_command(context, words[0])
        assert found is not None, f"{name}: no command {words[0]}"
        group, words = found, words[1:]
    known = {option for p in group.params for option in p.opts + p.secondary_opts}
    used = [word.split("=")[0] for word in words if word.startswith("-")]
    assert [word for word in used if word not in known] == [], name


# Addresses.


def addresses() -> Iterator[tuple[str, str]]:
    for name in ("argo-rollouts/analysis.yaml", "flagger/canary.yaml"):
        for document in documents(name):
            yield from ((name, url) for url in of(document, "url"))


@pytest.mark.parametrize(("name", "url"), list(addresses()))
def test_every_address_is_one_of_the_admin_port(name: str, url: str) -> None:
    path = str(CALL.fullmatch(url)[1]).replace("{{args.profile}}", "edit")  # type: ignore[index]
    routes = [route for route in release_routes(lambda: Release(())) if isinstance(route, Route)]
    methods = [r.methods for r in routes if r.path_regex.fullmatch(path)]
    assert methods, f"{name}: nothing at {path}"
    assert ("GET" if path.startswith("/gate") else "POST") in (methods[0] or ())


def test_flagger_asks_each_hook_by_its_own_name() -> None:
    hooks = one("flagger/canary.yaml", "Canary")["spec"]["analysis"]["webhooks"]
    assert [hook["type"] for hook in hooks] == [*CONFIRMING, ROLLBACK]
    assert [hook["url"].rsplit("/", 1)[1] for hook in hooks] == [hook["type"] for hook in hooks]
    assert all(set(hook["metadata"]) == {"profile"} for hook in hooks)
    assert all(int(hook["timeout"].removesuffix("s")) > ANSWER_S for hook in hooks)


def test_argo_reads_the_verdict_of_one_profile() -> None:
    template = one("argo-rollouts/analysis.yaml", "AnalysisTemplate")
    metric = template["spec"]["metrics"][0]
    assert metric["provider"]["web"]["jsonPath"] == "{$.verdict}"
    assert metric["provider"]["web"]["timeoutSeconds"] > ANSWER_S
    assert (metric["successCondition"], metric["failureCondition"]) == (
        'result == "pass"',
        'result == "fail"',
    )
    arguments = {argument["name"] for argument in template["spec"]["args"]}
    assert set(re.findall(r"\{\{args\.(\w+)\}\}", str(metric))) == arguments


def test_the_admin_service_points_at_the_routers_port() -> None:
    fleet = yaml.safe_load(one("kubernetes/gate-job.yaml", "ConfigMap")["data"]["fleet.yaml"])
    port = int(fleet["router"]["admin"].rsplit(":")[-1])
    service = one("kubernetes/admin.yaml", "Service")
    assert service["spec"]["ports"][0]["port"] == port
    assert all(f"{service['metadata']['name']}." in url for _, url in addresses() if "://" in url)


# The Job.


def test_the_job_tries_again_what_may_go_away_and_nothing_else() -> None:
    job = one("kubernetes/gate-job.yaml", "Job")["spec"]
    rules = job["podFailurePolicy"]["rules"]
    final: set[type[OrchestratorError]] = {InputError, GateFailedError, InconclusiveError}
    assert rules[0]["action"] == "FailJob"
    assert set(rules[0]["onExitCodes"]["values"]) == {kind.exit_code for kind in final}
    again = {EngineError.exit_code, OrchestratorError.exit_code}
    assert not again & set(rules[0]["onExitCodes"]["values"])
    pod = job["template"]["spec"]
    assert pod["restartPolicy"] == "Never", "podFailurePolicy needs it"
    assert rules[0]["onExitCodes"]["containerName"] == pod["containers"][0]["name"]


def test_everything_the_job_writes_is_on_the_volume() -> None:
    fleet = yaml.safe_load(one("kubernetes/gate-job.yaml", "ConfigMap")["data"]["fleet.yaml"])
    pod = one("kubernetes/gate-job.yaml", "Job")["spec"]["template"]["spec"]
    mounts = {mount["name"]: mount for mount in pod["containers"][0]["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert set(mounts) == set(volumes)
    places = [fleet["gate"]["certificates"], fleet["gate"]["reports"]]
    places += [variable["value"] for variable in pod["containers"][0]["env"]]
    assert all(place.startswith(mounts["state"]["mountPath"]) for place in places)
    assert "persistentVolumeClaim" in volumes["state"]
    key = volumes["key"]["secret"]["defaultMode"]
    assert key & 0o007 == 0, "a key that everybody reads is refused"


def test_the_fleet_in_the_config_map_is_sound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deployment, "find_command", lambda *_: ("/bin/engine",))
    monkeypatch.setattr(deployment, "ask_version", lambda *_: ADAPTERS["vllm"].SUPPORTED[-1].name)
    for name, text in one("kubernetes/gate-job.yaml", "ConfigMap")["data"].items():
        (tmp_path / name).write_text(text.replace("/etc/draftgate", str(tmp_path)))
    (tmp_path / "gate.pub").unlink()
    write_keys(tmp_path / "gate")
    found = read_deployment(tmp_path / "fleet.yaml")
    assert [str(p) for p in found.problems if p.is_fatal] == []
    assert [member.name for member in found.members] == ["plain-0", "edit-0"]


def test_the_images_engine_is_one_that_is_known() -> None:
    pod = one("kubernetes/gate-job.yaml", "Job")["spec"]["template"]["spec"]
    version = pod["containers"][0]["image"].rsplit(":", 1)[1]
    assert any(version.startswith(d.name.rsplit(".", 1)[0]) for d in ADAPTERS["vllm"].SUPPORTED)


def test_actions_are_pinned_by_their_hash() -> None:
    used = re.findall(r"uses: (\S+)", (ROOT / "examples/github/gate.yml").read_text())
    assert len(used) == 2
    assert all(re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}", action) for action in used)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_example_is_explained(path: Path) -> None:
    assert path.relative_to(ROOT).as_posix() in (ROOT / "docs" / "ci.md").read_text()
