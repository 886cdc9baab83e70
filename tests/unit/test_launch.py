"""A launch as text, as a shell line, and as the digest that a certificate is about."""

import json
import shlex
from dataclasses import replace
from typing import Any

import pytest

from adapters.launch import GPU_VARIABLE, Launch, Model, WorkerSpec

LAUNCH = Launch(
    command=("/opt/engine", "serve", "/models/it's.gguf"),
    arguments=("--name", "small", "--config", '{"model":"/models/draft","k":4}'),
    address=("--host", "127.0.0.1", "--port", "8000"),
    port=8000,
    env={GPU_VARIABLE: "0,1", "MODE": "a b"},
    files={"extra.yaml": "a: 1\nb: 2\n"},
    batch_limit=4,
)


def test_argv_is_command_arguments_address() -> None:
    assert LAUNCH.argv == (*LAUNCH.command, *LAUNCH.arguments, *LAUNCH.address)


def test_text_is_one_argument_a_line_then_env_and_files() -> None:
    assert LAUNCH.text().splitlines() == [
        "/opt/engine",
        "serve",
        "'/models/it'\"'\"'s.gguf'",
        "--name",
        "small",
        "--config",
        '\'{"model":"/models/draft","k":4}\'',
        "--host",
        "127.0.0.1",
        "--port",
        "8000",
        "env CUDA_VISIBLE_DEVICES=0,1",
        "env MODE='a b'",
        "file extra.yaml",
        "  a: 1",
        "  b: 2",
        "batch-limit 4",
    ]


def test_the_shell_line_is_the_same_words_again() -> None:
    words = shlex.split(LAUNCH.shell())
    assert words[:2] == [f"{GPU_VARIABLE}=0,1", "MODE=a b"]
    assert tuple(words[2:]) == LAUNCH.argv


def test_a_launch_without_extras_is_its_argv() -> None:
    launch = Launch(("a",), ("b c",), (), 1)
    assert launch.text() == "a\n'b c'\n"
    assert launch.shell() == "a 'b c'"


@pytest.mark.parametrize(
    "change",
    [
        {"command": ("/elsewhere/python", "-m", "engine", "/models/it's.gguf")},
        {"port": 9000, "address": ("--host", "127.0.0.1", "--port", "9000")},
        {"host": "0.0.0.0", "address": ("--host", "0.0.0.0", "--port", "8000")},
        {"env": {**LAUNCH.env, GPU_VARIABLE: "7"}},
        {"env": {"MODE": "a b"}},
        {"env": dict(reversed(list(LAUNCH.env.items())))},
    ],
    ids=["command", "port", "host", "gpus", "no gpus", "order of env"],
)
def test_the_digest_is_the_same_wherever_it_runs(change: dict[str, Any]) -> None:
    assert replace(LAUNCH, **change).digest() == LAUNCH.digest()


@pytest.mark.parametrize(
    "change",
    [
        {"arguments": (*LAUNCH.arguments, "--more")},
        {"arguments": LAUNCH.arguments[:-1]},
        {"arguments": ("--name", "other", *LAUNCH.arguments[2:])},
        {"arguments": ("--name small", *LAUNCH.arguments[2:])},
        {"arguments": (*LAUNCH.arguments[2:], *LAUNCH.arguments[:2])},
        {"arguments": (*LAUNCH.arguments[:-1], '{"model":"/models/draft","k":5}')},
        {"env": {**LAUNCH.env, "MODE": "c"}},
        {"env": {**LAUNCH.env, "OTHER": ""}},
        {"env": {GPU_VARIABLE: "0,1"}},
        {"files": {}},
        {"files": {"extra.yaml": "a: 2\n"}},
        {"files": {"other.yaml": "a: 1\nb: 2\n"}},
    ],
)
def test_the_digest_changes_with_everything_else(change: dict[str, Any]) -> None:
    assert replace(LAUNCH, **change).digest() != LAUNCH.digest()


def with_draft(path: str) -> Launch:
    config = json.dumps({"method": "eagle3", "model": path})
    return replace(LAUNCH, arguments=("--draft", path, "--config", config))


@pytest.mark.parametrize(
    ("here", "there"),
    [
        ("/models/draft", "/home/user/cache/draft"),
        ("/a", "/a/b"),
        ("/modèles/draft", "/models/draft"),
        ('/my "best" models/draft', "/models/draft"),
        ("/models\\draft", "/models/draft"),
    ],
)
def test_a_stand_in_makes_the_digest_the_same_on_another_machine(here: str, there: str) -> None:
    one, other = with_draft(here), with_draft(there)
    assert one.digest() != other.digest()
    assert one.digest({here: "draft"}) == other.digest({there: "draft"})


def test_a_stand_in_does_not_hide_another_value() -> None:
    stand_ins = {"/models/draft": "draft"}
    other = replace(LAUNCH, arguments=(*LAUNCH.arguments[:-1], '{"model":"/models/other","k":4}'))
    assert other.digest(stand_ins) != LAUNCH.digest(stand_ins)


def test_stand_ins_do_not_depend_on_their_order() -> None:
    launch = with_draft("/models/draft/v2")
    one = {"/models/draft": "target", "/models/draft/v2": "draft"}
    assert launch.digest(one) == launch.digest(dict(reversed(list(one.items()))))


@pytest.mark.parametrize(
    ("gpus", "variable"), [(None, None), ((), ""), ((0,), "0"), ((2, 3), "2,3")]
)
def test_gpus_become_the_variable(gpus: tuple[int, ...] | None, variable: str | None) -> None:
    env = {"MODE": "a"}
    spec = WorkerSpec("w", "1", ("e",), Model("m", "t"), 1, gpus=gpus, env=env)
    assert spec.environment().get(GPU_VARIABLE) == variable
    assert spec.environment()["MODE"] == "a"
    assert env == {"MODE": "a"}


def test_only_our_own_files_are_placed() -> None:
    launch = Launch(
        ("e",),
        ("--config", "@files/a.yaml", "org@files/tok", "@files/x"),
        (),
        1,
        files={"a.yaml": ""},
    )
    assert launch.placed("/run").arguments == (
        "--config",
        "/run/a.yaml",
        "org@files/tok",
        "@files/x",
    )
