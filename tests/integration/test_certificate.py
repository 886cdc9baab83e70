"""Certificates of the real gate: signed, verified, checked by openssl, told on the admin port."""

import base64
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from orchestrator.build import build_of
from orchestrator.deployment import read_deployment
from tests.harness import COMMAND, ROOT, TestFleet, fleet_of, free_port, until

pytestmark = pytest.mark.timeout(600)

PROMPTS = ROOT / "tests/data/repack_prompts.jsonl"
ARGS = '{threads: 1, parallel: 1, repack: false, flash-attn: "on"}'
GUESS = "profile: guess\nspeculation: {method: ngram, gamma: 6, lookup: {min: 2, max: 2}}\n"
HOOK = {"name": "chat", "namespace": "default", "phase": "Progressing", "metadata": {}}


def test_signing_is_not_imported_until_it_is_asked_for() -> None:
    names = "orchestrator.command.certificate, orchestrator.app, orchestrator.gate.trial"
    code = f"import sys, {names}; print('cryptography' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout == "False\n", done.stderr


def yaml(model: Path, admin: int, args: str = ARGS) -> str:
    return f"""
fleet: certified
models: {{small: {{target: {model}, context: 1024}}}}
engines: {{llama_cpp: {{command: embedded, args: {args}, start_timeout_s: 120}}}}
workers:
  - {{name: plain-0, engine: llama_cpp, model: small, profile: plain, port: {free_port()}}}
  - {{name: guess-0, engine: llama_cpp, model: small, profile: guess, port: {free_port()}}}
types: [{{type: chat}}]
routes: {{chat: [guess, plain]}}
router: {{listen: "127.0.0.1:{free_port()}", admin: "127.0.0.1:{admin}"}}
gate: {{prompts: {PROMPTS}, public_keys: [gate.pub], suites: [greedy], min_tokens: 50}}
"""


@pytest.fixture
def admin() -> int:
    return free_port()


@pytest.fixture
def fleet(tmp_path: Path, small_model: Path, admin: int) -> Iterator[TestFleet]:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "guess.yaml").write_text(GUESS)
    with fleet_of(TestFleet(tmp_path, yaml(small_model, admin))) as made:
        yield made


def verify(fleet: TestFleet, path: Path, *options: str) -> tuple[int, str]:
    done = fleet.run("certificate", "verify", str(path), *options)
    assert done.returncode != 1, done.stderr
    return done.returncode, done.stdout


@pytest.mark.engine
def test_a_certificate_from_the_gate_to_the_rollout(
    fleet: TestFleet, admin: int, small_model: Path
) -> None:
    """One run of the gate, and everything that is done with what it writes."""
    folder = fleet.folder
    assert fleet.run("certificate", "keygen", "--out", "gate").returncode == 0
    done = fleet.run("gate", str(fleet.file), "--sign-key", "gate", "--per-type", "2", timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    path = next((folder / "certificates").glob("*.json"))
    whole = json.loads(path.read_text())
    secret = "".join((folder / "gate").read_text().splitlines()[1:-1])
    assert secret not in done.stdout + done.stderr + path.read_text()

    about = whole["certificate"]["subject"]
    worker = read_deployment(fleet.file).member("guess-0")
    assert about["engine"]["build"] == build_of(worker).digest
    assert str(about["engine"]["build"]).startswith("sha256:")
    assert about["unknown"] == {}
    arms = {arm["name"]: arm for arm in whole["certificate"]["arms"]}
    assert arms["S1"]["drafted"] > 0
    assert whole["certificate"]["suites"]["greedy"] == "ran"

    assert verify(fleet, path, "--fleet", "fleet.yaml")[0] == 0
    assert verify(fleet, path, "--public-key", "gate.pub")[0] == 0
    assert fleet.run("certificate", "show", str(path)).stdout.startswith("pass  policy strict")
    openssl_agrees(folder, whole)

    on_the_admin_port(fleet, admin, path)

    fleet.file.write_text(yaml(small_model, admin, ARGS.replace("threads: 1", "threads: 2")))
    code, out = verify(fleet, path, "--fleet", "fleet.yaml")
    assert code == 3
    assert "guess-0    the certificate is for another launch" in out


def openssl_agrees(folder: Path, whole: dict[str, Any]) -> None:
    """What docs/certificate.md says to type, without draftgate."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl here")
    (folder / "c.sig").write_bytes(base64.b64decode(whole["signature"]["value"]))
    check = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", "gate.pub", "-rawin"]
    check += ["-in", "c.txt", "-sigfile", "c.sig"]
    for digest, code in ((whole["digest"], 0), ("sha256:other", 1)):
        (folder / "c.txt").write_text(f"draftgate certificate {digest}")
        done = subprocess.run(check, cwd=folder, capture_output=True, text=True)
        assert done.returncode == code, done.stderr


def on_the_admin_port(fleet: TestFleet, admin: int, path: Path) -> None:
    """A router without workers: what it tells of certificates needs none."""
    router = fleet.start("serve", str(fleet.file))
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{admin}", timeout=20) as client:
            until(lambda: answers(client), "the admin port", 60)
            told = client.get("/gate/guess").json()
            assert told["verdict"] == "pass"
            assert told["workers"]["guess-0"]["certificate"] == path.name
            status = client.get("/status").json()
            assert {u["name"]: u["refused"] for u in status["upstreams"]}["guess-0"] is None
            hook = "/flagger/confirm-promotion"
            assert client.post(hook, json=HOOK).status_code == 200
            assert client.post("/flagger/rollback", json=HOOK).status_code == 403
            before = path.read_text()
            path.write_text(before.replace('"policy": "strict"', '"policy": "strict "'))
            assert client.get("/gate").json()["verdict"] == "missing"
            refused = client.post(hook, json=HOOK)
            assert refused.status_code == 403
            assert "was changed after it was written" in refused.json()["reasons"]["guess-0"]
            assert verify(fleet, path)[0] == 3
            path.write_text(before)
            assert client.get("/gate").json()["verdict"] == "pass"
            assert client.get("/gate/nonesuch").status_code == 404
            assert client.post(hook, content=b"{").status_code == 400
            slowest = max(client.get("/gate").elapsed.total_seconds() for _ in range(5))
            assert slowest < 2, "digests are remembered"
    finally:
        router.terminate()
        assert router.wait(30) == 0


def answers(client: httpx.Client) -> bool:
    try:
        return client.get("/health").status_code == 200
    except httpx.TransportError:
        return False


def test_keys_and_exit_codes_without_an_engine(tmp_path: Path) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*COMMAND, "certificate", *arguments]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)

    assert run("keygen", "--out", "k").stdout.startswith("sha256:")
    assert oct((tmp_path / "k").stat().st_mode)[-3:] == "600"
    (tmp_path / "c.json").write_text("{}")
    assert run("verify", "c.json").returncode == 2
    assert run("show", "c.json").returncode == 2
