"""The embedded engine is llama.cpp's real server, and obeys the argv of llama-server."""

import json
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import httpx
import pytest

from adapters import llama_cpp
from adapters.embedded.flag import FLAGS, parse
from adapters.embedded.kind import Flag
from adapters.embedded.server import configure, engine
from adapters.embedded.speculation import TYPES
from tests.harness import ROOT
from tests.integration.llama_server import COMMAND, EXACT, QUICK, Server, ended, running

pytestmark = pytest.mark.engine

SMALL = ("-c", "1024", "-np", "1", "--metrics", *QUICK)
NGRAM = (
    *("--spec-type", "ngram-simple"),
    *("--spec-ngram-simple-size-n", "2", "--spec-ngram-simple-size-m", "6"),
)
ECHO = "The cat sat on the mat. The cat sat on the mat. The cat sat on"
REPACK_PROMPTS = ROOT / "tests" / "data" / "repack_prompts.jsonl"


def serving(model: Path, folder: Path, *argv: str) -> AbstractContextManager[Server]:
    return running((*COMMAND, "-m", str(model), "--port", "0", *SMALL, *argv), folder)


@pytest.fixture(scope="module")
def ngram(small_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("ngram")
    with serving(small_model, folder, *EXACT, *NGRAM, "-a", "worker-7", "-lv", "5") as server:
        yield server


def test_it_is_healthy_and_says_who_it_is(ngram: Server, small_model: Path) -> None:
    props = ngram.get("/props")
    assert ngram.get("/health") == {"status": "ok"}
    assert [model["id"] for model in ngram.get("/v1/models")["data"]] == ["worker-7"]
    assert (props["model_alias"], props["model_path"]) == ("worker-7", str(small_model))
    assert props["total_slots"] == 1


def test_ngram_speculation_really_drafts(ngram: Server) -> None:
    assert [slot["speculative"] for slot in ngram.get("/slots")] == [True]
    timings = ngram.complete(ECHO)["timings"]
    assert timings["draft_n"] >= timings["draft_n_accepted"] > 0
    counters = dict(
        line.rsplit(" ", 1)
        for line in ngram.client.get("/metrics").text.splitlines()
        if not line.startswith("#")
    )
    assert float(counters["llamacpp:spec_decode_num_drafts_total"]) > 0
    assert float(counters["llamacpp:spec_decode_num_draft_tokens_total"]) >= timings["draft_n"]
    assert float(counters["llamacpp:spec_decode_num_accepted_tokens_total"]) > 0


def test_token_ids_come_with_logprobs_on_the_openai_routes(ngram: Server) -> None:
    tokens = ngram.complete(ECHO, 16)["tokens"]
    ids = ngram.client.post("/tokenize", json={"content": ECHO, "add_special": True}).json()
    for prompt in (ECHO, ids["tokens"]):
        body = {"prompt": prompt, "max_tokens": 16, "temperature": 0, "logprobs": 1}
        choice = ngram.client.post("/v1/completions", json=body).json()["choices"][0]
        assert [token["id"] for token in choice["logprobs"]["content"]] == tokens


def test_no_repack_and_flash_attention_take_effect(
    ngram: Server, small_model: Path, tmp_path: Path
) -> None:
    exact = ngram.log.read_text()
    assert "CPU_REPACK model buffer" not in exact
    assert "flash_attn            = enabled" in exact
    with serving(small_model, tmp_path, "-fa", "off", "-lv", "5") as server:
        usual = server.log.read_text()
        assert [slot["speculative"] for slot in server.get("/slots")] == [False]
    assert "CPU_REPACK model buffer" in usual
    assert "flash_attn            = disabled" in usual


def test_a_draft_model_really_drafts_and_changes_nothing(
    ngram: Server, small_model: Path, tmp_path: Path
) -> None:
    """The target drafts for itself, so with greedy decoding every guess is right."""
    argv = ("--spec-type", "draft-simple", "-md", str(small_model), "--spec-draft-n-max", "4")
    with serving(small_model, tmp_path, *EXACT, *argv, "-td", "1", "-tbd", "1") as server:
        drafted = server.complete(ECHO)
    assert drafted["timings"]["draft_n"] == drafted["timings"]["draft_n_accepted"] > 0
    assert drafted["tokens"] == ngram.complete(ECHO)["tokens"]


def test_without_repacking_speculation_is_exact(
    ngram: Server, small_model: Path, tmp_path: Path
) -> None:
    """On the very prompts that diverge when weights are repacked."""
    lines = [json.loads(line) for line in REPACK_PROMPTS.read_text().splitlines()]
    with serving(small_model, tmp_path, *EXACT) as plain:
        for line in lines:
            prompt, count = line["prompt"], line["max_tokens"]
            expected = plain.complete(prompt, count)["tokens"]
            assert ngram.complete(prompt, count)["tokens"] == expected, prompt


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_at_once_in_the_middle_of_an_answer(
    small_model: Path, tmp_path: Path, number: signal.Signals
) -> None:
    with serving(small_model, tmp_path) as server:
        body = {"prompt": "Once", "n_predict": 900, "ignore_eos": True, "stream": True}
        waiting = threading.Thread(target=swallow, args=(server, body | {"stream": False}))
        with server.client.stream("POST", "/completion", json=body) as answer:
            next(answer.iter_lines())
            waiting.start()
            server.process.send_signal(number)
            assert server.process.wait(timeout=5) == 0
        waiting.join()


def swallow(server: Server, body: dict[str, object]) -> None:
    """A client that waits for a whole answer, and will not get it."""
    with pytest.raises(httpx.TransportError):
        httpx.post(server.client.base_url.join("/completion"), json=body, timeout=60)


def test_a_busy_port_is_an_error(small_model: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = ended(*COMMAND, "-m", str(small_model), "--port", port, *SMALL)
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in done.stderr


def test_a_model_that_does_not_load_is_an_error(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF and nothing else")
    done = ended(*COMMAND, "-m", str(broken), "--port", "0", *SMALL)
    assert done.returncode == 1
    assert "error: the server did not start: the engine's log above says why" in done.stderr
    done = ended(*COMMAND, "-m", str(tmp_path / "none.gguf"), "--port", "0", *SMALL)
    assert done.returncode == 1
    assert f"error: the server did not start: no such file: {tmp_path}/none.gguf" in done.stderr


def test_a_setting_that_the_engine_refuses_is_an_error(tmp_path: Path) -> None:
    done = ended(*COMMAND, "-m", "m.gguf", "-ot", "a=NoSuchPlace")
    assert (done.returncode, done.stderr) == (
        1,
        "error: tensor_buft_overrides: unknown buffer type\n",
    )


@pytest.mark.parametrize(
    "argv", [["--nope"], ["--draft-max", "4"], ["-fa", "maybe"], ["--rpc", "a:1"], []]
)
def test_bad_arguments_end_it_before_anything_is_loaded(argv: list[str]) -> None:
    done = ended(*COMMAND, *argv)
    assert done.returncode == 1
    assert done.stderr.startswith("error")
    assert "srv" not in done.stderr


# A good word for each flag, by its hint, or by its first name where the hint says too little.
WORDS = {
    "N": "1",
    "M": "1",
    "P": "0.5",
    "L": "2",
    "INDEX": "0",
    "PORT": "1",
    "SEED": "1",
    "TYPE": "f16",
    "MODE": "auto",
    "FNAME": "x",
    "PATH": "x",
    "FILE": "x",
    "DIR": "x",
    "lo-hi": "0-1",
    "<0|1>": "1",
    "<0...100>": "1",
    "[on|off|auto]": "on",
    "[on|off]": "on",
    "N0,N1,N2,...": "3,1",
    "P0,P1,...": "0.5",
    "MiB0,MiB1,MiB2,...": "1",
    "SECONDS": "1",
    "{none,linear,yarn}": "yarn",
    "{none,layer,row,tensor}": "row",
    "SIMILARITY": "0.5",
    "{none,mean,cls,last,rank}": "mean",
    "{greedy,probabilistic}": "probabilistic",
    "<tensor name pattern>=<buffer type>,...": "a=CPU",
    "FNAME:SCALE,...": "x:1",
    "JSON": "{}",
    "SCHEMA": '{"type": "object"}',
    "<dev1,dev2,..>": "none",
    "DEVICE": "none",
    "--numa": "isolate",
    "--chat-template-kwargs": "{}",
    "--reasoning-format": "auto",
    "--samplers": "top_k",
    "--spec-type": ",".join(TYPES),
    "--json-schema-file": "{}",
}


class OneFile:
    """A disk on which every path is there."""

    def read(self, path: str) -> str:
        return "{}"

    def is_file(self, path: str) -> bool:
        return True

    def is_directory(self, path: str) -> bool:
        return True


@pytest.mark.parametrize(
    "flag", [flag for flag in FLAGS if flag.status == "honoured"], ids=lambda flag: flag.names[0]
)
def test_the_engine_has_a_place_for_every_flag(flag: Flag) -> None:
    word = WORDS.get(flag.names[0]) or WORDS.get(flag.hint, "x")
    argv = [flag.names[0], word] if flag.takes_word else [flag.names[0]]
    configure(engine(), parse(["-m", "m.gguf", *argv], {}, OneFile()).settings)


def test_it_says_its_version_and_its_flags() -> None:
    assert ended(*COMMAND, "--version").stdout == "version: 11549 (xllamacpp 2026.10.11549)\n"
    told = ended(*COMMAND, "--help").stdout
    assert "\n-m, --model FNAME" in told
    assert llama_cpp.read_version(told) == llama_cpp.SUPPORTED[-1].name
