"""A worker's life with an engine that fails on demand: up, status, down, crashes, adoption."""

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.harness import COMMAND, TestFleet, fake_engine_command, fleet_of, free_port, until


def fleet_yaml(folder: Path, ports: tuple[int, int], timeout_s: float = 30) -> str:
    (folder / "model.gguf").touch()
    return f"""
fleet: test
models: {{small: {{target: ./model.gguf, context: 512}}}}
engines:
  llama_cpp: {{command: {fake_engine_command(folder)}, start_timeout_s: {timeout_s}}}
workers:
  - {{name: plain-0, engine: llama_cpp, model: small, profile: plain, port: {ports[0]}}}
  - {{name: edit-0, engine: llama_cpp, model: small, profile: code-edit, port: {ports[1]}}}
"""


@pytest.fixture
def ports() -> tuple[int, int]:
    return free_port(), free_port()


@pytest.fixture
def fleet(tmp_path: Path, ports: tuple[int, int]) -> Iterator[TestFleet]:
    with fleet_of(TestFleet(tmp_path, fleet_yaml(tmp_path, ports))) as made:
        yield made


def test_up_status_down(fleet: TestFleet) -> None:
    fleet.up()
    status = fleet.status()
    assert status["supervised"]
    assert {w["state"] for w in status["workers"].values()} == {"ready"}
    assert status["workers"]["edit-0"]["drafted"] > 0
    assert status["workers"]["plain-0"]["drafted"] in (None, 0)
    done = fleet.run("down", str(fleet.file))
    assert done.returncode == 0
    assert "no process of this fleet is left" in done.stdout
    assert not fleet.processes()
    assert {w["state"] for w in fleet.status()["workers"].values()} == {"stopped"}


def test_dry_run_starts_nothing(fleet: TestFleet, ports: tuple[int, int]) -> None:
    done = fleet.run("up", "--dry-run", str(fleet.file))
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    cause = "it is not running"
    assert lines[0] == f"start  plain-0         llama.cpp 11434 on port {ports[0]}: {cause}"
    assert lines[1] == f"start  edit-0          llama.cpp 11434 on port {ports[1]}: {cause}"
    assert f"--port {ports[1]}" in done.stdout
    assert not fleet.processes()


def test_second_up_is_refused(fleet: TestFleet) -> None:
    fleet.up()
    done = fleet.run("up", str(fleet.file))
    assert done.returncode == 1
    assert "this fleet is up already" in done.stderr


def test_port_taken_is_refused_before_anything_starts(
    fleet: TestFleet, ports: tuple[int, int]
) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", ports[1]))
        holder.listen()
        done = fleet.run("up", str(fleet.file))
    assert done.returncode == 5
    assert f"port {ports[1]} is taken by process {os.getpid()}" in done.stderr
    assert not fleet.processes()


def test_engine_that_never_drafts_is_a_failure_with_a_name(fleet: TestFleet) -> None:
    fleet.env["FAKE_ENGINE"] = "--gamma 0"
    done = fleet.run("up", str(fleet.file))
    assert done.returncode == 5
    message = "llama.cpp is not speculating although the profile 'code-edit' says method ngram"
    assert f"edit-0: {message}" in done.stderr
    assert "lines of" in done.stderr
    assert not fleet.processes()


def test_plain_engine_that_drafts_is_refused(fleet: TestFleet) -> None:
    fleet.env["FAKE_ENGINE"] = "--gamma 4"
    done = fleet.run("up", str(fleet.file))
    assert done.returncode == 5
    assert "plain-0: llama.cpp drafted" in done.stderr


def test_other_model_on_the_port_is_not_this_worker(fleet: TestFleet) -> None:
    fleet.env["FAKE_ENGINE"] = "--model other"
    done = fleet.run("up", str(fleet.file))
    assert done.returncode == 5
    assert "serves other, not 'small': it is not this worker" in done.stderr


def test_start_that_takes_too_long(tmp_path: Path, ports: tuple[int, int]) -> None:
    env = {"FAKE_ENGINE": "--load-held"}
    yaml = fleet_yaml(tmp_path, ports, timeout_s=1)
    with fleet_of(TestFleet(tmp_path, yaml, env)) as fleet:
        done = fleet.run("up", str(fleet.file))
        assert done.returncode == 5
        assert "was not ready within 1 s" in done.stderr


def test_engine_that_dies_at_start_shows_its_last_lines(fleet: TestFleet) -> None:
    fleet.env["FAKE_ENGINE"] = "--no-such-option"
    done = fleet.run("up", str(fleet.file))
    assert done.returncode == 5
    assert "ended before it was ready: exit code 2" in done.stderr
    assert "unrecognized arguments: --no-such-option" in done.stderr


def test_death_with_exit_code_0_is_seen_and_mended(
    fleet: TestFleet, ports: tuple[int, int]
) -> None:
    fleet.up()
    before = fleet.worker("edit-0")["pid"]
    with contextlib.suppress(httpx.HTTPError):
        httpx.post(f"http://127.0.0.1:{ports[1]}/control", json={"exit": 0})
    until(lambda: fleet.worker("edit-0")["restarts"] == 1, "a restart")
    until(lambda: fleet.worker("edit-0")["state"] == "ready", "ready again")
    assert fleet.worker("edit-0")["pid"] != before
    log = next((fleet.folder / "state").rglob("supervisor.log")).read_text()
    assert "ended: exit code 0; next start in 1 s" in log


def test_killed_worker_is_started_again(fleet: TestFleet) -> None:
    fleet.up()
    os.kill(fleet.worker("plain-0")["pid"], signal.SIGKILL)
    until(lambda: fleet.worker("plain-0")["restarts"] == 1, "a restart")
    until(lambda: fleet.worker("plain-0")["state"] == "ready", "ready again")


def test_engine_that_lives_but_is_unhealthy_is_started_again(
    fleet: TestFleet, ports: tuple[int, int]
) -> None:
    fleet.up()
    httpx.post(f"http://127.0.0.1:{ports[0]}/control", json={"fail": "unhealthy"})
    until(lambda: fleet.worker("plain-0")["restarts"] == 1, "a restart")
    log = next((fleet.folder / "state").rglob("supervisor.log")).read_text()
    assert "lives but no longer answers as healthy" in log


def test_killed_supervisor_then_up_adopts(fleet: TestFleet) -> None:
    fleet.up()
    pids = {name: w["pid"] for name, w in fleet.status()["workers"].items()}
    os.kill(fleet.supervisor_pid(), signal.SIGKILL)
    until(lambda: not fleet.status()["supervised"], "the lock is free")
    status = fleet.status()
    assert {w["state"] for w in status["workers"].values()} == {"orphaned"}
    assert "`draftgate up` adopts it" in status["workers"]["edit-0"]["detail"]
    fleet.up()
    after = fleet.status()["workers"]
    assert {name: w["pid"] for name, w in after.items()} == pids
    assert {w["state"] for w in after.values()} == {"ready"}


def test_adopted_worker_is_watched_too(fleet: TestFleet) -> None:
    fleet.up()
    os.kill(fleet.supervisor_pid(), signal.SIGKILL)
    until(lambda: not fleet.status()["supervised"], "the lock is free")
    fleet.up()
    os.kill(fleet.worker("edit-0")["pid"], signal.SIGKILL)
    until(lambda: fleet.worker("edit-0")["restarts"] == 1, "a restart")


def test_killed_supervisor_then_down_leaves_nothing(fleet: TestFleet) -> None:
    fleet.up()
    os.kill(fleet.supervisor_pid(), signal.SIGKILL)
    until(lambda: not fleet.status()["supervised"], "the lock is free")
    done = fleet.run("down", str(fleet.file))
    assert done.returncode == 0
    assert "ended what had no supervisor" in done.stdout
    assert not fleet.processes()


def test_changed_launch_is_replaced_after_a_crash(fleet: TestFleet) -> None:
    fleet.up()
    pids = {name: w["pid"] for name, w in fleet.status()["workers"].items()}
    os.kill(fleet.supervisor_pid(), signal.SIGKILL)
    until(lambda: not fleet.status()["supervised"], "the lock is free")
    fleet.file.write_text(fleet.file.read_text().replace("profile: code-edit", "profile: rag"))
    dry = fleet.run("up", "--dry-run", str(fleet.file)).stdout
    assert f"stop   edit-0          process {pids['edit-0']}: its launch changed" in dry
    assert f"adopt  plain-0         process {pids['plain-0']}" in dry
    fleet.up()
    after = fleet.status()["workers"]
    assert after["plain-0"]["pid"] == pids["plain-0"]
    assert after["edit-0"]["pid"] != pids["edit-0"]


def test_lost_record_is_found_by_the_processes_environment(fleet: TestFleet) -> None:
    fleet.up()
    os.kill(fleet.supervisor_pid(), signal.SIGKILL)
    until(lambda: not fleet.status()["supervised"], "the lock is free")
    for record in (fleet.folder / "state").rglob("workers/*.json"):
        record.write_text("{torn")
    dry = fleet.run("up", "--dry-run", str(fleet.file))
    assert "it belongs to this fleet, but no record explains it" in dry.stdout
    done = fleet.run("down", str(fleet.file))
    assert done.returncode == 0
    assert not fleet.processes()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_ends_everything(fleet: TestFleet, number: signal.Signals) -> None:
    child = fleet.start("up", str(fleet.file))
    until(lambda: "up: every worker is ready" in fleet.output(), "up")
    child.send_signal(number)
    assert child.wait(30) == 0
    assert "all workers are down" in fleet.output()
    assert not fleet.processes()


def test_signal_during_the_start_ends_everything(fleet: TestFleet) -> None:
    fleet.env["FAKE_ENGINE"] = "--load-held"
    child = fleet.start("up", str(fleet.file))
    until(lambda: "starting edit-0" in fleet.output(), "a start")
    child.send_signal(signal.SIGINT)
    assert child.wait(30) == 0
    assert not fleet.processes()


def test_down_lets_running_requests_finish(fleet: TestFleet, ports: tuple[int, int]) -> None:
    fleet.env["FAKE_ENGINE"] = "--tokens 400 --pace-ms 10"
    fleet.up()
    url = f"http://127.0.0.1:{ports[0]}"
    body = {"model": "small", "prompt": "x", "max_tokens": 300, "stream": True}
    with httpx.stream("POST", f"{url}/v1/completions", json=body, timeout=30) as answer:
        lines = answer.iter_lines()
        next(lines)
        down = fleet.start("down", str(fleet.file))
        rest = [line for line in lines if line]
    assert down.wait(30) == 0
    assert rest[-1] == "data: [DONE]", "the answer ran to its end"
    assert not fleet.processes()


def test_an_edit_while_up_is_told_and_not_certified(fleet: TestFleet) -> None:
    fleet.up()
    fleet.file.write_text(fleet.file.read_text().replace("profile: code-edit", "profile: rag"))
    assert "runs another launch than the files say now" in fleet.worker("edit-0")["detail"]
    assert "another launch" not in fleet.worker("plain-0")["detail"]
    prompts = fleet.folder / "one.jsonl"
    prompts.write_text('{"type": "chat", "prompt": "x", "max_tokens": 8}')
    done = fleet.run("gate", str(fleet.file), "--prompts", str(prompts))
    assert done.returncode == 5
    assert "edit-0 runs another launch than the files say now" in done.stderr
    assert not list(fleet.folder.glob("certificates/*"))


def test_down_and_status_need_no_valid_file(fleet: TestFleet) -> None:
    fleet.up()
    text = fleet.file.read_text()
    fleet.file.write_text(text.replace("engine: llama_cpp", "engine: lama"))
    status = fleet.run("status", str(fleet.file))
    assert "have errors now" in status.stderr
    assert status.stdout.count("ready") == 2
    assert fleet.run("down", str(fleet.file)).returncode == 0
    assert not fleet.processes()


def test_the_gate_leaves_orphans_alone(fleet: TestFleet) -> None:
    fleet.up()
    os.kill(fleet.supervisor_pid(), signal.SIGKILL)
    until(lambda: not fleet.status()["supervised"], "the lock is free")
    prompts = fleet.folder / "one.jsonl"
    prompts.write_text('{"type": "chat", "prompt": "x", "max_tokens": 8}')
    done = fleet.run("gate", str(fleet.file), "--prompts", str(prompts))
    assert done.returncode == 5
    assert "running without a supervisor; `draftgate up` adopts them" in done.stderr
    assert {w["state"] for w in fleet.status()["workers"].values()} == {"orphaned"}


def test_weights_that_are_not_there_are_told_before_anything_starts(fleet: TestFleet) -> None:
    (fleet.folder / "model.gguf").unlink()
    done = fleet.run("up", str(fleet.file))
    assert done.returncode == 5
    assert f"{fleet.folder / 'model.gguf'} is not there (model 'small')" in done.stderr
    assert not fleet.processes()


def test_a_router_that_cannot_listen_says_so(fleet: TestFleet) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        address = f"127.0.0.1:{holder.getsockname()[1]}"
        done = fleet.run("serve", str(fleet.file), "--listen", address)
    assert done.returncode == 1
    assert f"error: cannot listen on {address}: Address already in use" in done.stderr


def test_only_leaves_other_workers_alone(fleet: TestFleet) -> None:
    fleet.up()
    pids = {name: w["pid"] for name, w in fleet.status()["workers"].items()}
    os.kill(fleet.supervisor_pid(), signal.SIGKILL)
    until(lambda: not fleet.status()["supervised"], "the lock is free")
    done = fleet.run("up", "-d", str(fleet.file), "--only", "edit-0")
    assert done.returncode == 0, done.stdout
    after = fleet.status()["workers"]
    assert {name: w["pid"] for name, w in after.items()} == pids
    assert (after["edit-0"]["state"], after["plain-0"]["state"]) == ("ready", "orphaned")


def test_closing_its_output_does_not_end_the_fleet(fleet: TestFleet) -> None:
    child = subprocess.Popen(
        [*COMMAND, "up", str(fleet.file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=fleet.env,
        cwd=fleet.folder,
    )
    assert child.stdout is not None
    child.stdout.readline()
    child.stdout.close()
    until(lambda: {w["state"] for w in fleet.status()["workers"].values()} == {"ready"}, "ready")
    assert child.poll() is None
    assert fleet.run("down", str(fleet.file)).returncode == 0
    assert child.wait(30) in (0, 1)


@pytest.mark.parametrize(
    ("failure", "told"),
    [("deep_json", "/slots answered no JSON"), ("endless", "/slots answers more than 64 MiB")],
)
def test_an_engines_odd_answer_is_that_workers_cause(
    fleet: TestFleet, failure: str, told: str
) -> None:
    fleet.env["FAKE_SPECULATING"] = f"--fail {failure}"
    done = fleet.run("up", str(fleet.file))
    assert done.returncode == 5
    assert "edit-0: " in done.stderr
    assert told in done.stderr
    assert "a bug" not in done.stderr
