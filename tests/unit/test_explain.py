"""What becomes of each key: as data from the adapters, and as `draftgate explain` prints it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adapters import ADAPTERS
from adapters.explain import Account, explain
from adapters.launch import Model, WorkerSpec
from adapters.profile import Profile
from orchestrator.cli import main

VERSIONS = [(e, d.name) for e, adapter in ADAPTERS.items() for d in adapter.SUPPORTED]
PROFILES = {
    "tree": "speculation: {method: eagle3, gamma: 4, tree: {branches: 4, tokens: 16}}\n",
    "draft-sampling": "speculation: {method: draft_model, gamma: 4}\n"
    "engine: {llama_cpp: {spec-draft-sampling: probabilistic}}\n",
}
Run = Callable[..., tuple[int, str, str]]


def accounts(engine: str, version: str, /, **fields: Any) -> dict[str, Account]:
    speculation = fields.pop("speculation")
    profile = Profile.model_validate_json(
        json.dumps({"profile": "p", "speculation": speculation, **fields})
    )
    adapter = ADAPTERS[engine]
    model = Model("small", "/m/target.gguf", 2048, {"draft_model": "/m/draft.gguf"})
    worker = WorkerSpec("w", version, adapter.COMMANDS[:1], model, 8000)
    return {account.key: account for account in explain(adapter, profile, worker).accounts}


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    monkeypatch.chdir(tmp_path)
    for name, text in PROFILES.items():
        (tmp_path / f"{name}.yaml").write_text(f"profile: {name}\n{text}")

    def run_command(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            main(["explain", *arguments])
        assert isinstance(stop.value.code, int)
        said = capsys.readouterr()
        return stop.value.code, said.out, said.err

    return run_command


# As data.


def test_honoured_keys_have_the_engines_words() -> None:
    found = accounts("vllm", "0.32", speculation={"method": "ngram", "gamma": 4})
    assert found["speculation.gamma"].fate == "honoured"
    assert found["speculation.gamma"].native == ("num_speculative_tokens: 4",)


def test_defaults_are_accounted_for_too() -> None:
    found = accounts("vllm", "0.32", speculation={"method": "ngram", "gamma": 4})
    assert found["speculation.lookup.min"].value == 2
    assert found["speculation.lookup.min"].native == ("prompt_lookup_min: 2",)


def test_a_key_left_to_the_engine_is_there_when_something_is_written_for_it() -> None:
    found = accounts("vllm", "0.32", speculation={"method": "draft_model", "gamma": 4})
    assert found["speculation.draft"].value is None
    assert found["speculation.draft"].native == ("model: /m/draft.gguf",)
    assert "speculation.tensor_parallel" not in found


def test_a_schedule_is_one_key() -> None:
    tiers = [{"batch": "1-4", "gamma": 4}, {"batch": "5+", "gamma": 0}]
    spec = {"method": "ngram", "gamma": 4, "schedule": tiers}
    found = accounts("vllm", "0.32", speculation=spec)
    assert found["speculation.schedule"].value == {"1-4": 4, "5+": 0}
    assert found["speculation.schedule"].fate == "translated"
    found = accounts("llama_cpp", "b11434", speculation=spec)
    assert found["speculation.schedule"].fate == "changed"
    assert "router" in found["speculation.schedule"].notes[0]


def test_every_key_of_a_refused_method_is_refused() -> None:
    found = accounts("llama_cpp", "b11434", speculation={"method": "suffix", "gamma": 4})
    own = [a for key, a in found.items() if key.startswith("speculation.")]
    assert {account.fate for account in own} == {"refused"}
    assert all(account.notes and not account.native for account in own)
    assert "ngram" in found["speculation.method"].notes[0]


def test_what_degrade_would_drop_is_told_from_what_stays_refused() -> None:
    tree = {"branches": 4, "tokens": 16}
    spec = {"method": "eagle3", "gamma": 4, "draft": "draft_model", "tree": tree}
    found = accounts("vllm", "0.32", speculation=spec)
    assert found["speculation.tree.branches"].fate == "refused"
    assert found["speculation.tree.branches"].is_droppable
    found = accounts("llama_cpp", "b11434", speculation={"method": "suffix", "gamma": 4})
    assert not any(account.is_droppable for account in found.values())


def test_what_is_said_of_a_part_of_a_key_names_the_part() -> None:
    native = {"vllm": {"speculative_config": {"rejection_sample_method": "synthetic"}}}
    found = accounts("vllm", "0.32", speculation={"method": "ngram", "gamma": 4}, engine=native)
    notes = found["engine.vllm.speculative_config"].notes
    assert notes
    assert all(note.count("rejection_sample_method: ") == 1 for note in notes)


def test_native_options_are_the_engines_own_anothers_or_refused() -> None:
    options = {"max-num-seqs": 8, "no-such-option": 1}
    native = {"vllm": options, "llama_cpp": {"threads": 2}}
    found = accounts("vllm", "0.32", speculation={"method": "none"}, engine=native)
    assert found["engine.vllm.max-num-seqs"].fate == "honoured"
    assert found["engine.vllm.max-num-seqs"].native == ("max-num-seqs: 8",)
    assert found["engine.vllm.no-such-option"].fate == "refused"
    assert found["engine.vllm.no-such-option"].native == ()
    assert found["engine.llama_cpp.threads"].fate == "elsewhere"


def test_a_mapping_of_native_options_is_one_key_with_its_problems() -> None:
    native = {"vllm": {"speculative_config": {"no_such_key": None}}}
    spec = {"method": "ngram", "gamma": 4}
    found = accounts("vllm", "0.32", speculation=spec, engine=native)
    assert found["engine.vllm.speculative_config"].fate == "refused"
    assert found["engine.vllm.speculative_config"].value == {"no_such_key": None}


@pytest.mark.parametrize(("engine", "version"), VERSIONS)
def test_plain_needs_no_option(engine: str, version: str) -> None:
    found = accounts(engine, version, speculation={"method": "none"})
    assert found["speculation.method"].fate == "honoured"
    assert found["profile"].fate == "ours"
    assert list(found) == ["profile", "description", "speculation.method", "lossless"]


def test_a_key_that_an_adapter_forgets_is_told_as_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ADAPTERS["vllm"], "settings", lambda profile, worker: ())
    found = accounts("vllm", "0.32", speculation={"method": "ngram", "gamma": 4})
    assert found["speculation.gamma"].fate == "unsaid"
    assert "bug" in found["speculation.gamma"].notes[0]


@pytest.mark.parametrize(("engine", "version"), VERSIONS)
def test_nothing_native_comes_of_a_refused_key(engine: str, version: str) -> None:
    for method in ("suffix", "ngram", "medusa"):
        found = accounts(engine, version, speculation={"method": method, "gamma": 4})
        assert not any(a.native for a in found.values() if a.fate == "refused")


# As printed.


def test_one_version(run: Run) -> None:
    code, out, err = run("code-edit", "--engine", "vllm", "--engine-version", "0.32")
    assert (code, err) == (0, "")
    first, *lines = out.splitlines()
    assert first == "code-edit on vLLM 0.32"
    (gamma,) = [line.split() for line in lines if "speculation.gamma" in line]
    assert gamma == ["speculation.gamma", "6", "honoured", "num_speculative_tokens:", "6"]
    assert "description" not in out  # no engine is told


def test_a_refusal_is_explained_and_no_failure(run: Run) -> None:
    code, out, err = run("suffix", "--engine", "llama_cpp")
    assert (code, err) == (0, "")
    assert out.startswith("suffix on llama.cpp b11434: refused\n")
    assert "llama.cpp has no" in out


def test_every_version_at_once(run: Run) -> None:
    code, out, _ = run("high-load", "--all")
    assert code == 0
    for adapter in ADAPTERS.values():
        assert out.count(f"high-load on {adapter.TITLE} ") >= 1
    table = out.partition("\n\nruns: ")[0]
    assert any(line.split()[:1] == ["speculation.schedule"] for line in table.splitlines())
    assert max(len(line) for line in table.splitlines()) <= 110


def test_every_version_of_one_engine(run: Run) -> None:
    code, out, _ = run("high-load", "--all", "--engine", "sglang")
    assert code == 0
    assert "high-load on SGLang " in out
    assert "vLLM" not in out


def test_the_table_begins_with_whether_it_runs(run: Run) -> None:
    out = run("suffix", "--all")[1]
    row = next(line.split() for line in out.splitlines() if line.startswith("runs "))
    assert set(row[1:]) <= {"yes", "partly", "no", "no*"}
    assert row[1] == "no"  # llama.cpp


def test_versions_are_ranges_as_in_the_documents(run: Run) -> None:
    out = run("draft-sampling.yaml", "--all", "--engine", "llama_cpp")[1]
    assert "b10306 to b10661" in out
    assert "b10662 to b11549" in out
    assert "b10434" not in out.partition("\n\nruns: ")[0]


def test_details_of_every_version_leave_out_what_no_engine_is_told(run: Run) -> None:
    assert "needs no option" in run("high-load", "--engine", "vllm")[1]
    details = run("high-load", "--all")[1].partition("\n\nruns: ")[2]
    assert "needs no option" not in details
    assert "elsewhere  " not in details


def test_a_key_that_degrade_would_drop_is_marked(run: Run) -> None:
    out = run("tree.yaml", "--engine", "vllm")[1]
    assert out.startswith("tree on vLLM 0.33: refused (degrade: allow runs the rest)\n")
    assert out.count("(degrade: allow drops it)") == 2
    table = run("tree.yaml", "--all")[1].partition("\n\nruns: ")[0]
    assert "no*" in table
    assert "refused*" in table


def test_names_of_options_are_never_broken(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.command.explain._columns", lambda: 60)
    out = run("tree.yaml", "--engine", "tensorrt_llm", "--engine-version", "1.3")[1]
    options = ("max_total_draft_tokens: 16", "dynamic_tree_max_topK: 4", "decoding_type: Eagle3")
    for option in options:
        line = next(line for line in out.splitlines() if option in line)
        assert line.split("  ")[-1].strip() == f"speculative_config.{option}"
        assert len(line) <= 60 or line.startswith("      speculative_config")


def test_as_json(run: Run) -> None:
    code, out, _ = run("code-edit", "--all", "--json")
    data = json.loads(out)
    assert code == 0
    assert data["profile"] == "code-edit"
    assert [(a["engine"], a["version"]) for a in data["answers"]] == VERSIONS
    for answer in data["answers"]:
        assert {key["key"] for key in answer["keys"]} >= {"speculation.method", "lossless"}
        own = {"key", "value", "fate", "degrade", "native", "notes"}
        assert all(set(key) == own for key in answer["keys"])


def test_an_unknown_version_is_said_below(run: Run) -> None:
    _, out, _ = run("plain", "--engine", "vllm", "--engine-version", "0.5")
    assert "vLLM 0.5 is not a version known here" in out
    assert "[unknown-version]" in out


def test_a_draft_is_assumed_and_one_that_is_not_used_is_told(run: Run) -> None:
    assert "DRAFT" in run("chat-draft", "--engine", "vllm")[1]
    assert "/m/d" in run("chat-draft", "--engine", "vllm", "--draft", "/m/d")[1]
    assert "--draft is not used" in run("plain", "--engine", "vllm", "--draft", "d")[2]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["plain"], "--engine"),
        (["plain", "--engine", "vlm"], "did you mean 'vllm'?"),
        (["plain", "--all", "--engine-version", "0.32"], "leave out --engine-version"),
        (["plain", "--all", "--engine", "vlm"], "did you mean 'vllm'?"),
        (["plain", "--engine", "vllm", "--engine-version", "latest"], "known of vLLM: 0.31, 0.32"),
        (["fleet.yaml", "--engine", "vllm"], "fleet.yaml is a fleet"),
        (["plane", "--engine", "vllm"], "did you mean 'plain'?"),
        (["bad.yaml", "--engine", "vllm"], "bad.yaml:2:37: speculation.gamma: must be at most"),
    ],
)
def test_what_cannot_be_explained_is_bad_input(
    run: Run, tmp_path: Path, arguments: list[str], words: str
) -> None:
    text = "profile: edit\nspeculation: {method: ngram, gamma: 400}\n"
    (tmp_path / "bad.yaml").write_text(text)
    (tmp_path / "fleet.yaml").write_text("fleet: f\nworkers: []\n")
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert words in err


def test_a_long_value_and_its_notes_are_below_one_another(run: Run) -> None:
    _, out, _ = run("high-load", "--engine", "llama_cpp")
    lines = out.splitlines()
    at = next(i for i, line in enumerate(lines) if "speculation.schedule" in line)
    assert lines[at].endswith('{"1-4": 5, "5-16": 3, "17+": 0}')
    assert lines[at + 1].split()[0] == "changed"
    notes = [line.strip() for line in lines[at + 2 :] if line.startswith(" " * 6)]
    assert any("router" in note for note in notes)
