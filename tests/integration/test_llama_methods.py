"""Every kind of speculation that llama.cpp has, launched from a profile by the adapter: it drafts,
its proof holds, and its greedy answers are the plain server's, token by token."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from adapters import llama_cpp
from adapters.exchange import Conversation, Reply
from adapters.launch import Model, WorkerSpec
from adapters.llama_cpp import conversation
from adapters.profile import Profile
from tests.harness import TestFleet, fleet_of, free_port
from tests.integration.llama_drawn import write_block_drafter, write_mtp_target
from tests.integration.llama_server import COMMAND, Server, running, tiny_weights

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]

ARGS: Mapping[str, Any] = {
    "repack": False,
    "flash-attn": "on",
    "threads": 1,
    "threads-batch": 1,
    "parallel": 1,
    "warmup": False,
    "offline": True,
}
PROMPTS = (
    "The cat sat on the mat. The cat sat on the mat. The cat sat on",
    "def add(a, b):\n    return a + b\n\n\ndef sub(a, b):\n    return",
    "red green blue, red green blue, red green blue, red green blue, red",
)
LOOKUP = {"min": 3, "max": 3}
RANDOM = ("dflash", "dspark")  # drafters that were never trained: what they guess is wrong
SPECULATION: Mapping[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "ngram-simple": ({"method": "ngram", "gamma": 6, "lookup": LOOKUP}, {}),
    "ngram-map-k": (
        {"method": "ngram", "gamma": 6, "lookup": LOOKUP, "pool": "request"},
        {"spec-type": "ngram-map-k"},
    ),
    "ngram-map-k4v": (
        {"method": "ngram", "gamma": 6, "lookup": LOOKUP},
        {"spec-type": "ngram-map-k4v"},
    ),
    "ngram-mod": ({"method": "ngram", "gamma": 6, "lookup": LOOKUP, "pool": "shared"}, {}),
    "ngram-cache": (
        {"method": "ngram", "gamma": 8, "lookup": {"min": 1, "max": 4}},
        {"spec-type": "ngram-cache"},
    ),
    "two n-gram types": (
        {"method": "ngram", "gamma": 6, "lookup": LOOKUP},
        {"spec-type": "ngram-mod,ngram-map-k"},
    ),
    "draft-simple": ({"method": "draft_model", "gamma": 4}, {"spec-draft-threads": 1}),
    "draft-simple, 8-bit cache": (
        {"method": "draft_model", "gamma": 4, "kv_cache_dtype": "q8_0"},
        {"spec-draft-threads": 1},
    ),
    "draft-simple beside ngram-map-k": (
        {"method": "draft_model", "gamma": 4},
        {
            "spec-type": "ngram-map-k,draft-simple",
            "spec-ngram-map-k-size-n": 3,
            "spec-draft-threads": 1,
        },
    ),
    "draft-eagle3": ({"method": "eagle3", "gamma": 3}, {"spec-draft-threads": 1}),
    "draft-eagle3 beside ngram-simple": (
        {"method": "eagle3", "gamma": 3},
        {
            "spec-type": "ngram-simple,draft-eagle3",
            "spec-ngram-simple-size-n": 3,
            "spec-draft-threads": 1,
        },
    ),
    "draft-dflash": ({"method": "dflash", "gamma": 2}, {"spec-draft-threads": 1}),
    "draft-dspark": (
        {"method": "dspark", "gamma": 4, "draft": "dspark"},
        {"spec-draft-threads": 1},
    ),
}


def profile_of(speculation: Mapping[str, Any], native: Mapping[str, Any]) -> Profile:
    data = {"profile": "p", "speculation": speculation, "engine": {"llama_cpp": native}}
    return Profile.model_validate_json(json.dumps(data))


def argv_of(profile: Profile, weights: Mapping[str, Path]) -> tuple[str, ...]:
    names = {"draft_model": "draft", "eagle3": "eagle3", "dflash": "dflash", "dspark": "dspark"}
    drafts = {method: str(weights[name]) for method, name in names.items()}
    model = Model("small", str(weights["target"]), 512, drafts)
    worker = WorkerSpec("w", "b11434", COMMAND, model, 0, args=ARGS)
    assert not [p for p in llama_cpp.check(profile, worker) if p.is_fatal]
    return llama_cpp.render(profile, worker).argv


def hold(server: Server, talk: Conversation[Any]) -> Any:
    """The conversation, held with the server."""
    call = next(talk)
    while True:
        answer = (
            server.client.get(call.path)
            if call.body is None
            else server.client.post(call.path, json=dict(call.body))
        )
        try:
            call = talk.send(Reply(call, answer.status_code, answer.text))
        except StopIteration as stop:
            return stop.value


def answers(server: Server) -> list[Any]:
    found = []
    for prompt in PROMPTS:
        request: dict[str, JsonValue] = {"prompt": prompt, "max_tokens": 64, "ignore_eos": True}
        found.append(hold(server, conversation.generate("small", request)))
    return found


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    folder = tmp_path_factory.mktemp("weights")
    found = dict(tiny_weights(folder))
    for name in RANDOM:
        found[name] = folder / f"{name}.gguf"
        write_block_drafter(found[name], is_dspark=name == "dspark")
    return found


@pytest.fixture(scope="module")
def expected(
    weights: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Any]]:
    """The plain server's answers."""
    plain = profile_of({"method": "none"}, {})
    with running(argv_of(plain, weights), tmp_path_factory.mktemp("plain")) as server:
        assert server.speculates() == [False]
        yield answers(server)


@pytest.mark.parametrize("kind", SPECULATION)
def test_a_kind_drafts_and_changes_no_token(
    kind: str, expected: list[Any], weights: Mapping[str, Path], tmp_path: Path
) -> None:
    profile = profile_of(*SPECULATION[kind])
    with running(argv_of(profile, weights), tmp_path) as server:
        proof = hold(server, conversation.prove("small", profile))
        assert proof.drafted > 0
        assert proof.accepted > 0 or profile.speculation.method in RANDOM
        found = answers(server)
    assert [answer.ids for answer in found] == [answer.ids for answer in expected]
    assert sum(answer.drafted for answer in found) > 0
    assert all(answer.drafted == 0 for answer in expected)


@pytest.mark.parametrize("layers", [1, 2])
def test_mtp_layers_draft_and_change_no_token(layers: int, tmp_path: Path) -> None:
    """One layer is run again for each guess, two guess in turn."""
    target = tmp_path / "mtp.gguf"
    write_mtp_target(target, layers)
    found = []
    for speculation in ({"method": "none"}, {"method": "mtp", "gamma": 2}):
        profile = profile_of(speculation, {})
        worker = WorkerSpec("w", "b11434", COMMAND, Model("small", str(target), 512), 0, args=ARGS)
        with running(llama_cpp.render(profile, worker).argv, tmp_path) as server:
            assert server.speculates() == [profile.is_speculating]
            found.append(answers(server))
    plain, drafted = found
    assert [answer.ids for answer in drafted] == [answer.ids for answer in plain]
    assert all(answer.drafted > 0 for answer in drafted)


def write_fleet(folder: Path, weights: Mapping[str, Path]) -> TestFleet:
    """A plain worker and one of each kind, the last with a target and a plain worker of its own."""
    names = {"draft_model": "draft", "eagle3": "eagle3", "dflash": "dflash", "dspark": "dspark"}
    target = folder / "mtp.gguf"
    write_mtp_target(target, 1)
    models = {
        "small": {
            "target": str(weights["target"]),
            "context": 512,
            "drafts": {method: str(weights[name]) for method, name in names.items()},
        },
        "layered": {"target": str(target), "context": 512},
    }
    kinds = {f"kind-{n}": (*spoken, "small") for n, spoken in enumerate(SPECULATION.values())}
    kinds["mtp"] = ({"method": "mtp", "gamma": 2}, {}, "layered")
    workers = [("plain", "small"), ("plain", "layered")]
    (folder / "profiles").mkdir()
    for name, (speculation, native, model) in kinds.items():
        data = {"profile": name, "speculation": speculation, "engine": {"llama_cpp": native}}
        (folder / "profiles" / f"{name}.yaml").write_text(json.dumps(data))
        workers.append((name, model))
    engine = {"command": "embedded", "args": dict(ARGS), "start_timeout_s": 120}
    made = {
        "fleet": "every-kind",
        "models": models,
        "engines": {"llama_cpp": engine},
        "workers": [
            {
                "name": f"{profile}-{model}",
                "engine": "llama_cpp",
                "model": model,
                "profile": profile,
                "port": free_port(),
            }
            for profile, model in workers
        ],
        "gate": {"suites": ["greedy", "turns", "stream"], "min_tokens": 100},
    }
    return TestFleet(folder, json.dumps(made))


def test_every_kind_passes_the_gate(weights: Mapping[str, Path], tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.jsonl"
    lines = [{"type": "chat", "prompt": prompt, "max_tokens": 48} for prompt in PROMPTS]
    prompts.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    kinds = [(name, spoken["method"]) for name, (spoken, _) in SPECULATION.items()]
    never = (
        "ngram-cache",
        *RANDOM,
    )  # what was never trained; a cache that these prompts leave cold
    never_right = {
        f"kind-{n}-small" for n, both in enumerate(kinds) if not set(both).isdisjoint(never)
    }
    with fleet_of(write_fleet(tmp_path, weights)) as fleet:
        fleet.up(timeout=500)
        for candidates in ([f"kind-{n}-small" for n in range(len(SPECULATION))], ["mtp-layered"]):
            chosen = [word for name in candidates for word in ("--candidate", name)]
            arguments = ("gate", str(fleet.file), "--prompts", str(prompts), "--json", *chosen)
            done = fleet.run(*arguments, timeout=500)
            assert done.returncode in (0, 4), done.stdout + done.stderr
            trials = json.loads(done.stdout)
            assert [trial["candidate"] for trial in trials] == candidates, done.stderr
            assert all(trial["divergences"] == trial["findings"] == [] for trial in trials)
            # Where no guess was right, nothing is shown of acceptance.
            verdicts = {
                trial["candidate"]: (trial["verdict"], trial["reasons"]) for trial in trials
            }
            short = {name for name, (verdict, _) in verdicts.items() if verdict == "inconclusive"}
            passed = {name for name, (verdict, _) in verdicts.items() if verdict == "pass"}
            assert (short, passed) == (never_right & {*candidates}, {*candidates} - never_right), (
                verdicts
            )
