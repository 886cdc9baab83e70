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

PASS, REFUSED, FAIL, INCONCLUSIVE, ENGINE_ERROR = 0, 2, 3, 4, 5
GAMMA = 4
START_S = 300
_LLAMA_GUESSES: Final = ("--spec-type", "draft-simple", "--spec-draft-n-max", str(GAMMA))
# One request is decoded at a time: what is at work then is exact.
_LLAMA_SERVES: Final = ("--ctx-size", "512", "--parallel", "1", "--alias", "tiny", "--metrics")


@dataclass(frozen=True)
class Expected:
    """What the gate must say under the policy numerics: strict fails all that fails under it.

    `words` are in its reasons, or in what it says of an engine. `prompts` names those asked.
    """

    suites: str
    exit_code: int
    words: str
    prompts: str = "few"


@dataclass(frozen=True)
class Outcome:
    """One run of the gate: its report, empty where it gave up, and what it said meanwhile."""

    exit_code: int
    trial: Mapping[str, Any]
    talk: str

    def arms(self, key: str) -> list[Any]:
        """Of both speculating arms."""
        return [arm[key] for arm in self.trial["arms"] if arm["name"] in ("S1", "S2")]

    def forks(self, key: str) -> set[Any]:
        """What the divergences have under this key."""
        return {divergence[key] for divergence in self.trial["divergences"]}

    def require(self, expected: Expected) -> None:
        reasons = "\n".join(self.trial.get("reasons", ()))
        said = f"{reasons}\n{self.talk}"
        assert self.exit_code == expected.exit_code, said
        assert expected.words in (reasons or self.talk), said


def write_prompts(folder: Path) -> Mapping[str, Path]:
    """`few`: 96 tokens, for faults that show at once. `many`: 768, for rare ones. `sure`: 96 of
    text on which the model is so sure of the next token that draws go the same ways."""
    lines = (ROOT / "tests/models/held_out.jsonl").read_text().splitlines()
    held_out = [json.loads(line)["prompt"] for line in lines]
    texts = {
        "few": [(text, 24) for text in PROMPTS[:4]],
        "many": [(text, 64) for text in held_out],
        "sure": [(text, 24) for text in held_out[:4]],
    }
    for name, asked in texts.items():
        data = [{"type": "chat", "prompt": text, "max_tokens": count} for text, count in asked]
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, data)))
    return {name: folder / f"{name}.jsonl" for name in texts}


@dataclass(frozen=True)
class Bench:
    """The python of vLLM, the test models, and prompts by name."""

    python: Path
    models: Path
    prompts: Mapping[str, Path]

    @property
    def has_fp8(self) -> bool:
        """Whether this processor can hold vLLM's KV cache in fp8."""
        flags = Path("/proc/cpuinfo").read_text()
        return "avx512f" in flags or "amx_tile" in flags

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
        argv += ["--reports", str(folder / "reports"), "--min-tokens", "50"]
        argv += ["--policy", "numerics", "--json"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=folder)
        trials = json.loads(done.stdout or "[{}]")
        return Outcome(done.returncode, trials[0], done.stderr)

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
