"""What tests of client libraries stand on: real engines, plain and speculating, and a router."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.harness import TestFleet, fleet_of, free_port, until
from tests.models.to_gguf import write_gguf
from tests.vllm_fleet import CONTEXT, engine_yaml, write_profile

# A name that the router knows and the engine does not: its own refusal of a model is seen so.
UNKNOWN_TO_ENGINE = "nowhere"
BODY_LIMIT = 1024 * 1024  # bytes


@dataclass(frozen=True)
class Engine:
    """One model of the fleet: `worker` answers where nothing else is asked for, `drafting` guesses.

    `gauge` and `counter` are its metrics of the requests that it is at work on and of the tokens
    that it made; `longest` is an answer's length in tokens that takes it more than a second.
    """

    model: str
    worker: str
    drafting: str
    gauge: str
    counter: str
    longest: int

    def __str__(self) -> str:
        return self.worker.partition("-")[0]


VLLM = Engine(
    *("tiny", "vllm-plain", "vllm-guess"),
    *("vllm:num_requests_running", "vllm:generation_tokens_total"),
    longest=CONTEXT - 64,
)
LLAMA = Engine(
    *("small", "llama-plain", "llama-guess"),
    *("llamacpp:requests_processing", "llamacpp:tokens_predicted_total"),
    longest=1_000_000,  # it shifts its context
)


@dataclass(frozen=True)
class Routed:
    """A router that serves the engines. URLs have no path."""

    url: str
    workers: dict[str, str]

    def running(self, engine: Engine) -> float:
        """Requests that the engine's plain worker says it is at work on."""
        return self._metric(engine.worker, engine.gauge)

    def generated(self, engine: Engine) -> float:
        """Tokens that it says it has made."""
        return self._metric(engine.worker, engine.counter)

    def _metric(self, worker: str, name: str) -> float:
        text = httpx.get(f"{self.workers[worker]}/metrics").text
        lines = (line.rsplit(" ", 1) for line in text.splitlines() if line.startswith(name))
        return sum(float(value) for _, value in lines)


def _fleet_yaml(python: Path, models: Path, gguf: Path) -> str:
    def worker(engine: str, model: str, name: str, profile: str, more: str = "") -> str:
        fields = f"engine: {engine}, model: {model}, name: {name}, profile: {profile}"
        return f"  - {{{fields}, port: {free_port()}{more}}}\n"

    embeds = ", args: {embeddings: true, pooling: mean}"
    # A small model puts white space wherever a schema lets it, until its context is full.
    json = "{backend: xgrammar, disable_any_whitespace: true}"
    vllm = "tool-call-parser: hermes, enable-auto-tool-choice: true, enable-prefix-caching: false"
    vllm = f"enforce-eager: true, {vllm}, structured-outputs-config: {json}"
    # With its context shifted, an answer has no end: only who asked for it ends it.
    llama = "threads: 1, parallel: 2, repack: false, flash-attn: 'on', context-shift: true"
    return f"""
fleet: clients
models:
  tiny: {{target: {models / "target"}, context: {CONTEXT}, names: [{UNKNOWN_TO_ENGINE}]}}
  small: {{target: {gguf}, context: {CONTEXT}}}
  embedder: {{target: {gguf}, context: {CONTEXT}}}
  idle: {{target: {gguf}, context: {CONTEXT}}}
{engine_yaml(python).replace("enforce-eager: true", vllm)}
  llama_cpp: {{command: embedded, args: {{{llama}}}, start_timeout_s: 120}}
workers:
{worker("vllm", "tiny", "vllm-plain", "plain")}{worker("vllm", "tiny", "vllm-guess", "guess")}\
{worker("llama_cpp", "small", "llama-plain", "plain")}\
{worker("llama_cpp", "small", "llama-guess", "guess")}\
{worker("llama_cpp", "embedder", "embed-plain", "plain", embeds)}\
  - {{engine: llama_cpp, model: idle, name: idle-0, profile: plain, url: "http://127.0.0.1:9"}}
types: [{{type: edit, when: {{last_user: "^edit"}}}}, {{type: chat}}]
routes: {{edit: [guess, plain], chat: [plain]}}
gate: {{required: false}}
router:
  listen: "127.0.0.1:{free_port()}"
  admin: "127.0.0.1:{free_port()}"
  body_limit_mb: 1
"""


@contextmanager
def routed(folder: Path, python: Path, models: Path) -> Iterator[Routed]:
    """All engines up and a router before them, which end with the block."""
    gguf = folder / "target.gguf"
    write_gguf(models / "target", gguf)
    write_profile(folder, "guess", "method: ngram\ngamma: 4\nlookup: {min: 2, max: 4}")
    with fleet_of(TestFleet(folder, _fleet_yaml(python, models, gguf))) as fleet:
        fleet.up(timeout=500)
        ports = {name: found["port"] for name, found in fleet.status()["workers"].items()}
        listen = fleet.file.read_text().split('listen: "')[1].split('"')[0]
        server = fleet.start("serve", str(fleet.file), "--access-log", "off")
        try:
            until(lambda: _is_up(f"http://{listen}"), fleet.output())
            workers = {name: f"http://127.0.0.1:{port}" for name, port in ports.items()}
            yield Routed(f"http://{listen}", workers)
        finally:
            server.terminate()
            server.wait(30)


def _is_up(url: str) -> bool:
    """Whether every worker but the one that is nowhere is ready."""
    try:
        found: Any = httpx.get(f"{url}/health").json()
    except httpx.HTTPError:
        return False
    return bool(found["unserved_models"] == ["idle"])
