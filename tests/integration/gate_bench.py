"""What tests of the gate run it between: engines, made wrong or not, and proxies before them."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from tests.harness import COMMAND, ROOT, free_port, until
from tests.integration.llama_server import COMMAND as LLAMA
from tests.integration.llama_server import EXACT, QUICK, running
from tests.vllm_driver import server
from tests.vllm_fleet import PROMPTS

PASS, REFUSED, FAIL, INCONCLUSIVE = 0, 2, 3, 4
GAMMA = 4
START_S = 300
_LLAMA_GUESSES: Final = ("--spec-type", "draft-simple", "--spec-draft-n-max", str(GAMMA))
# One request is decoded at a time: what is at work then is exact.
_LLAMA_SERVES: Final = ("--ctx-size", "512", "--parallel", "1", "--alias", "tiny", "--metrics")


@dataclass(frozen=True)
class Expected:
    """What the gate must say: `words` are in its reasons. `prompts` names those that are asked."""

    suites: str
    exit_code: int
    words: str
    prompts: str = "few"


@dataclass(frozen=True)
class Outcome:
    """One run of the gate. `talk` is what it said while it worked."""

    exit_code: int
    trial: Mapping[str, Any]
    talk: str

    @property
    def reasons(self) -> str:
        return "; ".join(self.trial["reasons"])

    def arms(self, key: str) -> list[Any]:
        """Of both speculating arms."""
        return [arm[key] for arm in self.trial["arms"] if arm["name"] in ("S1", "S2")]

    def forks(self, key: str) -> set[Any]:
        """What the divergences have under this key."""
        return {divergence[key] for divergence in self.trial["divergences"]}

    def require(self, expected: Expected) -> None:
        said = json.dumps(self.trial["reasons"], indent=1) + self.talk
        assert self.exit_code == expected.exit_code, said
        assert expected.words in self.reasons, said


def write_prompts(folder: Path) -> Mapping[str, Path]:
    """`few`: 96 tokens, for faults that show at once. `many`: 768, for rare ones."""
    held_out = (ROOT / "tests/models/held_out.jsonl").read_text().splitlines()
    texts = {
        "few": [(text, 24) for text in PROMPTS[:4]],
        "many": [(json.loads(line)["prompt"], 64) for line in held_out],
    }
    for name, asked in texts.items():
        lines = [{"type": "chat", "prompt": text, "max_tokens": count} for text, count in asked]
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return {name: folder / f"{name}.jsonl" for name in texts}


@dataclass(frozen=True)
class Bench:
    """The python of vLLM, the test models, and prompts by name."""

    python: Path
    models: Path
    prompts: Mapping[str, Path]

    def drafting(self, draft: str = "draft") -> list[str]:
        """vLLM's options for speculation."""
        config = {
            "method": "draft_model",
            "model": str(self.models / draft),
            "num_speculative_tokens": GAMMA,
        }
        return ["--speculative-config", json.dumps(config)]

    @contextmanager
    def vllm(
        self,
        folder: Path,
        arguments: Sequence[str] = (),
        fault: str = "",
        model: Path | None = None,
    ) -> Iterator[str]:
        """The URL of a vLLM that is up; `fault` is one of the plugin's (tests/vllm_fault)."""
        folder.mkdir(exist_ok=True)
        plugin = str(ROOT / "tests/vllm_fault")
        env = {"PYTHONPATH": plugin, "DRAFTGATE_TEST_FAULT": fault} if fault else {}
        target = model or self.models / "target"
        with server(self.python, target, arguments, folder, env) as made:
            assert made.await_start(START_S), made.log.read_text()[-2000:]
            yield made.url

    def gate(self, folder: Path, plain: str, candidate: str, expected: Expected) -> Outcome:
        """The gate between engines that run already, with the suites and prompts of `expected`."""
        argv = [*COMMAND, "gate", "--baseline", plain, "--candidate", candidate]
        argv += ["--prompts", str(self.prompts[expected.prompts]), "--suites", expected.suites]
        argv += ["--reports", str(folder / "reports"), "--min-tokens", "50", "--json"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=folder)
        assert done.returncode in (PASS, FAIL, INCONCLUSIVE), done.stderr
        return Outcome(done.returncode, json.loads(done.stdout)[0], done.stderr)

    def require(self, folder: Path, plain: str, candidate: str, expected: Expected) -> Outcome:
        """What the gate found, which is what it must."""
        found = self.gate(folder, plain, candidate, expected)
        found.require(expected)
        return found


@contextmanager
def proxy(upstream: str, fault: str, folder: Path, *options: str) -> Iterator[str]:
    """The URL of a proxy before an engine (tests/fault_proxy.py)."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    argv = [sys.executable, "-m", "tests.fault_proxy", "--upstream", upstream]
    argv += ["--port", str(port), "--fault", fault, *options]
    log = folder / "proxy.txt"
    with log.open("w") as output:
        process = subprocess.Popen(argv, cwd=ROOT, stdout=output, stderr=output)
    try:
        until(lambda: process.poll() is not None or _answers(url), "the proxy is up")
        assert process.poll() is None, log.read_text()
        yield url
    finally:
        process.kill()
        process.wait()


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health").status_code == 200
    except httpx.HTTPError:
        return False


@contextmanager
def llama(folder: Path, weights: Mapping[str, Path], draft: str = "") -> Iterator[str]:
    """The URL of a llama.cpp server that is up; `draft` names its draft's weights."""
    argv = [*LLAMA, "--model", str(weights["target"]), "--port", "0"]
    argv += [*EXACT, *QUICK, *_LLAMA_SERVES]
    if draft:
        argv += ["--spec-draft-model", str(weights[draft]), *_LLAMA_GUESSES]
        argv += ["--spec-draft-threads", "1"]
    folder.mkdir()
    with running(argv, folder) as made:
        yield str(made.client.base_url).rstrip("/")
