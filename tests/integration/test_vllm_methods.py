"""Every method of a profile that real vLLM runs on the CPU: launched by `up`, its proof holds, the
gate finds plain output, and so it is with four requests at once, where schedules draft less."""

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from adapters import vllm
from adapters.metric import read_metrics
from tests.harness import ROOT, TestFleet, fleet_of, free_port
from tests.vllm_drawn import (
    write_dflash,
    write_eagle,
    write_parallel_draft,
    write_parallel_eagle3,
)
from tests.vllm_fleet import (
    CONTEXT,
    LENGTH,
    PROMPTS,
    engine_yaml,
    has_fp8,
    write_profile,
    write_prompts,
)

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

AT_ONCE = 4
SCHEDULE = """
schedule:
- {batch: 1, gamma: 3}
- {batch: 2-3, gamma: 2}
- {batch: 4+, gamma: 0}"""
CACHE = "\nkv_cache_dtype: fp8" if has_fp8() else ""
PROFILES: Final[Mapping[str, str]] = {
    "plain": "method: none",
    "ngram": f"method: ngram\ngamma: 3{SCHEDULE}",
    "draft-model": f"method: draft_model\ngamma: 3{CACHE}{SCHEDULE}",
    "eagle": f"method: eagle\ngamma: 3{SCHEDULE}",
    "eagle3": f"method: eagle3\ngamma: 3{SCHEDULE}",
    "dflash": f"method: dflash\ngamma: 3{SCHEDULE}",
    "mtp": f"method: mtp\ngamma: 3{SCHEDULE}",
    "medusa": "method: medusa\ngamma: 3",
    "custom": "method: custom\ngamma: 4\nproposer: repeat_proposer.RepeatProposer",
    "translated": "method: draft_model\ngamma: 4\ndraft: other\nother_vocabulary: true",
    "parallel-draft": "method: draft_model\ngamma: 3\ndraft: parallel-draft\nparallel: true",
    "parallel-eagle3": "method: eagle3\ngamma: 3\ndraft: parallel-eagle3\nparallel: true",
}
# With plain at most three at once, of 1 GB each.
GROUPS = (
    ("ngram", "draft-model"),
    ("eagle", "eagle3"),
    ("dflash", "parallel-eagle3"),
    ("medusa", "custom"),
    ("translated", "parallel-draft"),
    ("mtp",),
)
NEVER_RIGHT = ("dflash",)  # its weights are drawn
TARGETS = {"mtp": "mtp"}  # the layer is in a target of its own


@pytest.fixture(scope="module")
def drafts(tiny_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Trained drafters, and drawn ones for the kinds that were not trained."""
    folder = tmp_path_factory.mktemp("drafts")
    write_eagle(folder / "eagle", tiny_models / "target")
    write_dflash(folder / "dflash", tiny_models / "target")
    write_parallel_draft(folder / "parallel-draft", tiny_models / "draft")
    write_parallel_eagle3(folder / "parallel-eagle3", tiny_models / "eagle3")
    return {
        "draft_model": tiny_models / "draft",
        "eagle3": tiny_models / "eagle3",
        "medusa": tiny_models / "medusa",
        "other": tiny_models / "other_vocabulary",
        **{file.name: file for file in folder.iterdir()},
    }


def make_fleet(
    folder: Path, python: Path, target: Path, drafts: Mapping[str, Path], names: tuple[str, ...]
) -> TestFleet:
    """A plain worker, and one for each of the profiles; each is called as its profile is."""
    for name in ("plain", *names):
        write_profile(folder, name, PROFILES[name])
    write_prompts(folder)
    workers = "\n".join(
        f"  - {{name: {name}, model: tiny, engine: vllm, profile: {name}, port: {free_port()}}}"
        for name in ("plain", *names)
    )
    listed = ", ".join(f"{name}: {path}" for name, path in drafts.items())
    yaml = f"""
fleet: vllm-methods
models: {{tiny: {{target: {target}, context: {CONTEXT}, drafts: {{{listed}}}}}}}
{engine_yaml(python, f"PYTHONPATH: {ROOT / 'tests' / 'vllm_proposer'}")}
workers:
{workers}
gate: {{prompts: prompts.jsonl, min_tokens: 100, suites: [greedy, loaded, stream]}}
"""
    return TestFleet(folder, yaml)


@pytest.mark.parametrize("names", GROUPS, ids=" and ".join)
def test_a_method_drafts_and_changes_no_token(
    names: tuple[str, ...],
    vllm_python: Path,
    tiny_models: Path,
    drafts: Mapping[str, Path],
    tmp_path: Path,
) -> None:
    target = tiny_models / TARGETS.get(names[0], "target")
    fleet = make_fleet(tmp_path, vllm_python, target, drafts, names)
    with fleet_of(fleet):
        fleet.up(timeout=500)
        workers = fleet.status()["workers"]
        gate(fleet, names)
        urls = {name: f"http://127.0.0.1:{worker['port']}" for name, worker in workers.items()}
        expected = [answer(urls["plain"], prompt) for prompt in PROMPTS[:AT_ONCE]]
        for name in names:
            assert workers[name]["drafted"] > 0
            four_at_once(urls[name], expected, is_scheduled="schedule" in PROFILES[name])


def gate(fleet: TestFleet, names: tuple[str, ...]) -> None:
    """Nothing differs, and drafts were made; where none can be right, the gate says that it showed
    nothing of acceptance."""
    candidates = [f"--candidate={name}" for name in names]
    done = fleet.run("gate", str(fleet.file), *candidates, "--json", timeout=800)
    never_right = not set(NEVER_RIGHT).isdisjoint(names)
    assert done.returncode == (4 if never_right else 0), done.stdout + done.stderr
    trials = json.loads(done.stdout)
    assert [trial["candidate"] for trial in trials] == list(names)
    for trial in trials:
        certificate = json.loads(Path(trial["certificate"]).read_text())["certificate"]
        arms = [arm for arm in certificate["arms"] if arm["name"] in ("S1", "S2")]
        is_right = trial["candidate"] not in NEVER_RIGHT
        assert certificate["verdict"] == ("pass" if is_right else "inconclusive")
        assert trial["divergences"] == trial["findings"] == []
        assert all(arm["drafted"] > 0 for arm in arms)
        assert all((arm["accepted"] > 0) == is_right for arm in arms)


def four_at_once(url: str, expected: list[Any], is_scheduled: bool) -> None:
    """The answers of one at a time; with fewer drafts where the schedule says so."""
    counts = [drafted(url)]
    assert [answer(url, prompt) for prompt in PROMPTS[:AT_ONCE]] == expected
    counts.append(drafted(url))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(lambda prompt: answer(url, prompt), PROMPTS[:AT_ONCE]))
    counts.append(drafted(url))
    assert found == expected
    alone, together = counts[1] - counts[0], counts[2] - counts[1]
    assert alone > 0
    assert (together < alone) or not is_scheduled, (alone, together)


def answer(url: str, prompt: str) -> Any:
    """Token ids."""
    body = {"model": "tiny", "prompt": prompt, "max_tokens": LENGTH, "temperature": 0}
    body |= {"ignore_eos": True, "return_token_ids": True}
    reply = httpx.post(f"{url}/v1/completions", json=body, timeout=60)
    return reply.raise_for_status().json()["choices"][0]["token_ids"]


def drafted(url: str) -> float:
    names = {"drafted": vllm.METRICS["drafted"]}
    count = read_metrics(httpx.get(url + vllm.METRICS_PATH).text, names)["drafted"]
    assert count is not None
    return count
