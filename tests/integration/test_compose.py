"""compose.yaml and the Dockerfile: what can be told without Docker, and what Compose says."""

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.fleet_check import read_fleet

ROOT = Path(__file__).resolve().parent.parent.parent
COMPOSE = ROOT / "compose.yaml"


@pytest.fixture(scope="module")
def service() -> dict[str, Any]:
    """The one service."""
    services: dict[str, dict[str, Any]] = yaml.safe_load(COMPOSE.read_text())["services"]
    assert len(services) == 1
    return services["draftgate"]


@pytest.fixture
def docker() -> str:
    """A docker command with Compose and a daemon behind it."""
    program = shutil.which("docker")
    if program is None:
        pytest.skip("no docker here")
    for arguments in (["compose", "version"], ["info"]):
        done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"docker {arguments[0]}: {done.stderr.strip()[:200]}")
    return program


def router_ports() -> dict[str, int]:
    """Ports of the example fleet's router: its requests and its admin."""
    fleet = read_fleet(ROOT / "fleet.yaml").value
    assert fleet is not None
    addresses = {"listen": fleet.router.listen, "admin": fleet.router.admin}
    return {name: int(address.rpartition(":")[2]) for name, address in addresses.items()}


def test_publishes_the_router_on_loopback_only(service: dict[str, Any]) -> None:
    ports = router_ports().values()
    assert service["ports"] == [f"127.0.0.1:{port}:{port}" for port in ports]
    assert "network_mode" not in service


def test_what_it_mounts_is_here(service: dict[str, Any]) -> None:
    sources = [volume.partition(":")[0] for volume in service["volumes"]]
    folders = [source for source in sources if source.startswith(".")]
    assert folders, "the fleet is mounted, so that an edit needs no new image"
    assert all((ROOT / folder).exists() for folder in folders)
    named = set(sources) - set(folders)
    assert named == set(yaml.safe_load(COMPOSE.read_text())["volumes"])


def test_the_router_listens_on_every_address_of_the_container(service: dict[str, Any]) -> None:
    """On the ports of the fleet, so that `ports:` and the health check find it."""
    words = service["command"][0].split()
    ports = router_ports()
    assert words[words.index("--listen") + 1] == f"0.0.0.0:{ports['listen']}"
    assert words[words.index("--admin") + 1] == f"0.0.0.0:{ports['admin']}"


def test_the_start_is_a_program_bash_can_read(service: dict[str, Any]) -> None:
    program = service["command"][0].replace("$$", "$")
    assert service["entrypoint"][0] == "bash"
    subprocess.run(["bash", "-n", "-c", program], check=True)


def test_health_is_asked_of_the_router(service: dict[str, Any]) -> None:
    command = service["healthcheck"]["test"]
    assert command[0] == "CMD"
    assert f"http://127.0.0.1:{router_ports()['listen']}/health" in command[-1]
    compile(command[-1], "healthcheck", "exec")


def test_the_image_holds_what_the_wheel_is_built_from() -> None:
    """.dockerignore lets in by name: a file that the build needs must be among the names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    readme, licences = project["project"]["readme"], project["project"]["license-files"]
    needed = {"pyproject.toml", readme, *licences, *wheel["packages"], *wheel["force-include"]}
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in lines
    assert {line[1:] for line in lines if line.startswith("!")} == needed
    dockerfile = (ROOT / "Dockerfile").read_text()
    extras = re.findall(r"\[(\w+)\]\"", dockerfile)
    assert extras == ["embedded"]
    assert set(extras) <= set(project["project"]["optional-dependencies"])


def test_compose_reads_it(docker: str) -> None:
    done = subprocess.run(
        [docker, "compose", "--file", str(COMPOSE), "config", "--format", "json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    ports = json.loads(done.stdout)["services"]["draftgate"]["ports"]
    assert {port["host_ip"] for port in ports} == {"127.0.0.1"}
