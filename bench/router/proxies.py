"""Proxies: how each peer is started in front of one engine."""

import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.router.process import free_port

ROOT = Path(__file__).resolve().parents[2]

_NGINX_ENGINE = """\
worker_processes 1; daemon off; pid {folder}/engine.pid; error_log stderr;
events {{ worker_connections 8192; }}
http {{ access_log off; keepalive_requests 10000000; client_max_body_size 64m;
  client_body_temp_path {folder}/engine-body;
  server {{ listen 127.0.0.1:{port} backlog=2048; default_type application/json;
    location = /health {{ return 200 ""; }}
    location = /v1/models {{ return 200 '{models}'; }}
    location / {{ return 200 '{answer}'; }} }} }}
"""
_MODELS = '{"object":"list","data":[{"id":"t","object":"model","created":1,"owned_by":"bench"}]}'
_ANSWER = (
    '{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"t","choices":[{"index":0,'
    '"message":{"role":"assistant","content":"An answer of about two hundred characters, as long '
    "as a short reply and as cheap as an engine can make it: it never changes, so that the proxy "
    'in front of it is all that is measured."},"logprobs":null,"finish_reason":"stop"}],'
    '"usage":{"prompt_tokens":100,"total_tokens":150,"completion_tokens":50}}'
)
_NGINX_PROXY = """\
worker_processes 1; daemon off; pid {folder}/proxy.pid; error_log stderr;
events {{ worker_connections 8192; }}
http {{ access_log off; keepalive_requests 10000000; client_max_body_size 64m;
  client_body_buffer_size 512k; client_body_temp_path {folder}/proxy-body;
  proxy_temp_path {folder}/proxy-temp;
  upstream engine {{ server 127.0.0.1:{engine}; keepalive 1024; keepalive_requests 10000000; }}
  server {{ listen 127.0.0.1:{port} backlog=2048;
    location / {{ proxy_pass http://engine; proxy_http_version 1.1; proxy_buffering off;
      proxy_set_header Connection ""; }} }} }}
"""
# The rules of the example fleet, and one that asks for the overlap of every request.
FLEET = """\
fleet: bench
models: {{t: {{target: bench/t, context: 4096}}}}
engines: {{vllm: {{version: 0.32.0}}}}
workers:
{workers}
types:
{types}
  - {{type: json, when: {{response_format: [json_object, json_schema]}}}}
  - {{type: copy, when: {{overlap: ">=0.9", turns: ">=9"}}}}
  - {{type: code_edit, when: {{overlap: ">=0.95", last_user: "(?i)(fix|refactor|rename|edit)"}}}}
  - {{type: creative, when: {{temperature: ">=0.9"}}}}
  - {{type: chat}}
routes:
  chat: [{{profile: code-edit, until: {{in_flight: 4096}}}}, plain]
profiles: {profiles}
gate: {{required: false}}
router: {{listen: "127.0.0.1:{port}", admin: "127.0.0.1:{admin}"}}
"""


@dataclass(frozen=True)
class Launch:
    """How a proxy is started, and where it listens."""

    command: tuple[str, ...]
    port: int
    env: Mapping[str, str] = field(default_factory=dict)


def engine(folder: Path) -> Launch:
    """The cheapest engine: nginx that gives one fixed answer."""
    port = free_port()
    text = _NGINX_ENGINE.format(folder=folder, port=port, models=_MODELS, answer=_ANSWER)
    return Launch(_nginx(folder / "engine.conf", text), port)


def nginx(engine_port: int, folder: Path) -> Launch:
    port = free_port()
    text = _NGINX_PROXY.format(folder=folder, port=port, engine=engine_port)
    return Launch(_nginx(folder / "proxy.conf", text), port)


def vllm_router(engine_port: int, folder: Path) -> Launch:
    port = free_port()
    url, prometheus = f"http://127.0.0.1:{engine_port}", str(free_port())
    where = ("--host", "127.0.0.1", "--port", str(port), "--prometheus-port", prometheus)
    policy = ("--policy", "round_robin")
    return Launch((_program("vllm-router"), "--worker-urls", url, *where, *policy), port)


def smg(engine_port: int, folder: Path) -> Launch:
    port = free_port()
    url, prometheus = f"http://127.0.0.1:{engine_port}", str(free_port())
    where = ("--host", "127.0.0.1", "--port", str(port), "--prometheus-port", prometheus)
    policy = ("--policy", "round_robin")
    return Launch((_program("smg"), "launch", "--worker-urls", url, *where, *policy), port)


def draftgate(engine_port: int, folder: Path, workers: int = 2, rules: int = 0) -> Launch:
    """Everything on. `workers` all stand for the one engine, at loopback addresses of their own
    where there are many; `rules` are more rules than the fleet's own, which never match."""
    port, admin = free_port(), free_port()
    fleet = folder / f"fleet-{workers}-{rules}.yaml"
    text = FLEET.format(
        workers="\n".join(_worker(number, engine_port) for number in range(workers)),
        types="\n".join(_rule(number) for number in range(rules)),
        profiles=ROOT / "profiles",
        port=port,
        admin=admin,
    )
    fleet.write_text(text)
    serve = (sys.executable, "-m", "orchestrator.cli", "serve", str(fleet))
    return Launch((*serve, "--access-log", str(fleet.with_suffix(".log"))), port)


def _worker(number: int, port: int) -> str:
    profile = "code-edit" if number else "plain"
    url = f"http://127.0.0.1:{port}"
    return f'  - {{name: w-{number}, engine: vllm, model: t, profile: {profile}, url: "{url}"}}'


def _rule(number: int) -> str:
    pattern, chars = f"never said {number}", 10_000_000 + number
    when = f'{{last_user: "{pattern}", prompt_chars: ">={chars}", temperature: ">=1.{number}"}}'
    return f"  - {{type: never-{number}, when: {when}}}"


def _program(name: str) -> str:
    """Raises FileNotFoundError where it is not installed."""
    found = shutil.which(name)
    if found is None:
        raise FileNotFoundError(f"{name} is not on the PATH")
    return found


def _nginx(config: Path, text: str) -> tuple[str, ...]:
    config.write_text(text)
    return (_program("nginx"), "-c", str(config))


PEERS: Mapping[str, Callable[[int, Path], Launch]] = {
    "nginx": nginx,
    "vllm-router": vllm_router,
    "smg": smg,
    "draftgate": draftgate,
}
