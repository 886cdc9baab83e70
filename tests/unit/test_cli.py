"""The command line: exit codes, what goes where, and errors without tracebacks."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from adapters import ADAPTERS
from adapters.contract import Adapter
from adapters.launch import Model, WorkerSpec
from adapters.reading import read_profile
from orchestrator import __version__, deployment
from orchestrator.cli import _COMMANDS, main
from orchestrator.command import subject
from orchestrator.errors import (
    EngineError,
    GateFailedError,
    InconclusiveError,
    InputError,
    OrchestratorError,
)
from orchestrator.shipped import shipped

GOOD = "profile: edit\nspeculation: {method: ngram, gamma: 4}\n"
BAD = "profile: edit\nspeculation: {method: ngram, gamma: 400, lookup: {min: 3, max: 3}}\n"
FLEET = """\
fleet: f
models: {small: {target: org/m}}
workers:
  - {name: plain-0, engine: llama_cpp, model: small, profile: plain, port: 8501}
"""

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run a command in an empty folder; exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(deployment, "find_command", lambda *_: ("/bin/engine",))
    monkeypatch.setattr(deployment, "ask_version", newest)

    def run_command(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        assert isinstance(stop.value.code, int)
        said = capsys.readouterr()
        assert "Traceback" not in said.out + said.err
        return stop.value.code, said.out, said.err

    return run_command


def newest(adapter: Adapter, command: tuple[str, ...]) -> str:
    return adapter.SUPPORTED[-1].name


def test_version_and_help(run: Run) -> None:
    assert run("--version") == (0, f"draftgate, version {__version__}\n", "")
    code, out, err = run("--help")
    assert (code, err) == (0, "")
    assert out.startswith("Usage: draftgate [OPTIONS] COMMAND")
    for name, line in _COMMANDS.items():
        assert line.endswith(".")
        assert f"  {name} " in out


@pytest.mark.parametrize("name", sorted(_COMMANDS))
def test_every_command_has_help(run: Run, name: str) -> None:
    code, out, _ = run(name, "-h")
    assert code == 0
    assert out.startswith(f"Usage: draftgate {name} ")


@pytest.mark.parametrize(
    "arguments",
    [["nothing"], ["check", "--nothing"], ["render"], ["render", "x", "--port", "x"], ["--x"]],
)
def test_wrong_usage_is_2_and_told_on_standard_error(run: Run, arguments: list[str]) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert "Error: " in err


# check


@pytest.mark.parametrize(
    ("text", "code", "summary"),
    [
        (GOOD, 0, "1 file: 0 errors, 0 warnings"),
        (BAD, 2, "1 file: 1 error, 0 warnings"),
        (FLEET, 0, "1 file: 0 errors, 0 warnings"),
        (FLEET.replace("8501", "0"), 2, "1 file: 1 error, 0 warnings"),
        ("", 2, "1 file: 1 error, 0 warnings"),
        ("workers: 5\n", 2, ""),
        ("profile: [\n", 2, ""),
    ],
)
def test_check_of_one_file(run: Run, tmp_path: Path, text: str, code: int, summary: str) -> None:
    (tmp_path / "a.yaml").write_text(text)
    seen, out, err = run("check", "a.yaml")
    assert (seen, err) == (code, "")
    assert summary in out.splitlines()[-1]


def test_check_lists_the_problems_of_all_files_by_place(run: Run, tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text(BAD)
    (tmp_path / "a.yml").write_text(BAD)
    code, out, _ = run("check", ".")
    assert code == 2
    assert [line.split(" ")[0] for line in out.splitlines()] == [
        "a.yml:2:37:",
        "b.yaml:2:37:",
        "2",
    ]


def test_check_without_paths_takes_what_is_here(run: Run, tmp_path: Path) -> None:
    code, _, err = run("check")
    assert code == 2
    assert err == "no profiles/ and no fleet.yaml here; name the files to check\n"
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "edit.yaml").write_text(GOOD)
    (tmp_path / "fleet.yaml").write_text(FLEET)
    assert run("check")[:2] == (0, "2 files: 0 errors, 0 warnings\n")


@pytest.mark.parametrize("path", ["no.yaml", "empty"])
def test_check_of_what_is_not_there(run: Run, tmp_path: Path, path: str) -> None:
    (tmp_path / "empty").mkdir()
    code, out, err = run("check", path)
    assert code == 2
    assert path in out + err


def test_a_mistake_that_fleet_and_profile_share_is_told_once(run: Run, tmp_path: Path) -> None:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "edit.yaml").write_text(BAD)
    fleet = FLEET + "  - {name: e, engine: llama_cpp, model: small, profile: edit, port: 8502}\n"
    (tmp_path / "fleet.yaml").write_text(fleet)
    assert run("check")[1].splitlines()[-1] == "2 files: 1 error, 0 warnings"


def test_check_as_json(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(BAD)
    code, out, err = run("check", "a.yaml", "--json")
    data: dict[str, Any] = json.loads(out)
    assert (code, err) == (2, "")
    assert (data["files"], data["errors"]) == (1, 1)
    assert data["problems"][0] == {
        "file": "a.yaml",
        "line": 2,
        "column": 37,
        "path": "speculation.gamma",
        "severity": "error",
        "code": "bad-value",
        "message": "must be at most 128, found 400",
        "hint": "",
    }


@pytest.mark.parametrize("name", ["fleet.yaml", "fleet-vllm.yaml"])
def test_shipped_fleets_have_no_errors(run: Run, name: str) -> None:
    code, out, _ = run("check", str(shipped(name)))
    assert code == 0, out


def test_shipped_profiles_have_no_problems(run: Run) -> None:
    count = len(list(shipped("profiles").glob("*.yaml")))
    assert run("check", str(shipped("profiles")))[1] == f"{count} files: 0 errors, 0 warnings\n"


# render

PROFILES = sorted(path.stem for path in shipped("profiles").glob("*.yaml"))
PAIRS = [(engine, profile) for engine in sorted(ADAPTERS) for profile in PROFILES]


def is_supported(engine: str, name: str) -> bool:
    adapter = ADAPTERS[engine]
    profile = read_profile(shipped("profiles") / f"{name}.yaml").value
    assert profile is not None
    drafts = {profile.draft_name: "d"} if profile.draft_name else {}
    model = Model("model", "model", None, drafts)
    spec = WorkerSpec("w", adapter.SUPPORTED[-1].name, ("e",), model, 8000)
    return not any(problem.is_fatal for problem in adapter.check(profile, spec))


@pytest.mark.parametrize(("engine", "profile"), PAIRS)
def test_render_of_every_shipped_profile(run: Run, engine: str, profile: str) -> None:
    code, out, err = run("render", profile, "--engine", engine, "--draft", "d", "--port", "8001")
    if is_supported(engine, profile):
        assert code == 0
        assert out.splitlines()[0] == ADAPTERS[engine].COMMANDS[0]
        assert "8001" in out.splitlines()
    else:
        assert (code, out) == (2, "")
        assert f"{profile}.yaml:" in err


def test_every_shipped_profile_runs_on_some_engine() -> None:
    lost = [p for p in PROFILES if not any(is_supported(engine, p) for engine in ADAPTERS)]
    assert lost == []


@pytest.mark.parametrize(("engine", "profile"), PAIRS)
def test_render_as_json(run: Run, engine: str, profile: str) -> None:
    arguments = ["render", profile, "--engine", engine, "--draft", "d", "--format", "json"]
    code, out, _ = run(*arguments)
    data: dict[str, Any] = json.loads(out)
    assert (data["argv"] is not None) == (code == 0) == is_supported(engine, profile)
    assert data["engine"] == engine
    assert (code == 0) == all(p["severity"] == "warning" for p in data["problems"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["edit.yaml"], "--engine is missing: known: "),
        (["edit.yaml", "--engine", "lama_cpp"], "did you mean 'llama_cpp'?"),
        (["no.yaml", "--engine", "llama_cpp"], "no.yaml: neither a file nor a profile"),
        (["nothing", "--engine", "llama_cpp"], "nothing: neither a file nor a profile"),
        (["bad.yaml", "--engine", "llama_cpp"], "must be at most 128"),
        (["suffix", "--engine", "llama_cpp"], "no method suffix"),
        (["chat-draft", "--engine", "llama_cpp"], "needs a draft: --draft PATH"),
    ],
)
def test_render_refuses(run: Run, tmp_path: Path, arguments: list[str], words: str) -> None:
    (tmp_path / "edit.yaml").write_text(GOOD)
    (tmp_path / "bad.yaml").write_text(BAD)
    code, out, err = run("render", *arguments)
    assert (code, out) == (2, "")
    assert words in err


def test_render_warns_on_standard_error_only(run: Run) -> None:
    code, out, err = run("render", "plain", "--engine", "llama_cpp", "--engine-version", "1")
    assert code == 0
    assert "is not a version known here" in err
    assert "warning" not in out


@pytest.mark.parametrize("option", [["--port", "0"], ["--port", "65536"], ["--context", "0"]])
def test_render_refuses_numbers_that_cannot_be(run: Run, option: list[str]) -> None:
    assert run("render", "plain", "--engine", "llama_cpp", *option)[0] == 2


def test_render_of_a_fleet(run: Run, tmp_path: Path) -> None:
    (tmp_path / "fleet.yaml").write_text(FLEET)
    code, out, err = run("render", "fleet.yaml")
    assert (code, err) == (0, "")
    assert out.startswith("# plain-0\n/bin/engine\n--hf-repo\n")
    data: dict[str, Any] = json.loads(run("render", "fleet.yaml", "--format", "json")[1])
    assert data["plain-0"]["argv"][0] == "/bin/engine"


@pytest.mark.parametrize("option", [["--engine", "llama_cpp"], ["--port", "1"], ["--draft", "d"]])
def test_render_drops_no_option_in_silence(run: Run, tmp_path: Path, option: list[str]) -> None:
    """These concern profiles; a fleet says them itself."""
    (tmp_path / "fleet.yaml").write_text(FLEET)
    code, _, err = run("render", "fleet.yaml", *option)
    assert code == 2
    assert option[0] in err


# Errors at the edge.


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (OrchestratorError("no room"), 1, "error: no room\n"),
        (InputError("the file is odd"), 2, "the file is odd\n"),
        (GateFailedError("it differs"), 3, "error: it differs\n"),
        (InconclusiveError("too little"), 4, "error: too little\n"),
        (EngineError("it died"), 5, "error: it died\n"),
        (KeyError("x"), 1, "error: KeyError: 'x' (a bug; --debug shows where)\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (BrokenPipeError(), 1, ""),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_an_error_is_a_line_and_an_exit_code(
    run: Run, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, said: str
) -> None:
    def fail(*_: Any) -> NoReturn:
        raise error

    monkeypatch.setattr(subject, "read_profile", fail)
    seen, out, err = run("render", "plain", "--engine", "llama_cpp")
    assert (seen, out) == (code, "")
    assert err.endswith(said)
    assert len(err.splitlines()) <= 2


def test_debug_shows_where(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> NoReturn:
        raise KeyError("x")

    monkeypatch.setattr(subject, "read_profile", fail)
    with pytest.raises(SystemExit):
        main(["--debug", "render", "plain", "--engine", "llama_cpp"])
    assert "Traceback (most recent call last)" in capsys.readouterr().err
