"""A fleet with its profiles, engines and launches worked out. The engine is never asked here."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adapters.contract import Adapter
from adapters.problem import Problem, path_text
from orchestrator import deployment as module
from orchestrator.deployment import Deployment, read_deployment
from orchestrator.errors import EngineError, InputError
from orchestrator.gate.signature import write_keys

HEAD = "fleet: f\nmodels: {small: {target: m.gguf, context: 2048, drafts: {eagle3: head.gguf}}}\n"
PLAIN = "  - {name: plain-0, engine: llama_cpp, model: small, profile: plain, port: 8501}\n"
EDIT = "  - {name: edit-0, engine: llama_cpp, model: small, profile: edit, port: 8502}\n"
GOOD = f"{HEAD}workers:\n{PLAIN}{EDIT}"
EDIT_PROFILE = """\
profile: edit
speculation: {method: ngram, gamma: 4, lookup: {min: 3, max: 3}}
"""
COMMAND = ("/bin/engine",)


@pytest.fixture(autouse=True)
def engine(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """An engine that is found and tells a version; the list holds what was asked."""
    asked: list[str] = []

    def find(adapter: Adapter, configured: str, base: Path) -> tuple[str, ...]:
        asked.append(f"find {adapter.TITLE} {configured}")
        return COMMAND

    def ask(adapter: Adapter, command: tuple[str, ...]) -> str:
        asked.append(f"ask {adapter.TITLE}")
        return {"vLLM": "0.32.0", "llama.cpp": "11434"}[adapter.TITLE]

    monkeypatch.setattr(module, "find_command", find)
    monkeypatch.setattr(module, "ask_version", ask)
    return asked


Read = Callable[..., Deployment]


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Read:
    """Read a fleet of this text, with profiles beside it."""
    monkeypatch.chdir(tmp_path)

    def read_files(fleet: str = GOOD, **profiles: str) -> Deployment:
        folder = tmp_path / "profiles"
        folder.mkdir(exist_ok=True)
        for name, text in {"edit": EDIT_PROFILE, **profiles}.items():
            (folder / f"{name}.yaml").write_text(text)
        (tmp_path / "fleet.yaml").write_text(fleet)
        return read_deployment(Path("fleet.yaml"), "fleet.yaml")

    return read_files


def problems(deployment: Deployment) -> list[Problem]:
    """Without those of weights that these tests do not have."""
    return [p for p in deployment.problems if p.code not in ("weights-missing", "unchecked")]


def told(deployment: Deployment) -> list[str]:
    return [str(p).splitlines()[0] for p in problems(deployment)]


def test_public_keys_that_cannot_be_used_are_errors(read: Read, tmp_path: Path) -> None:
    """All at once, each in its place: no certificate would ever be admitted."""
    write_keys(tmp_path / "gate")
    (tmp_path / "x.pub").write_text("ssh-ed25519 AAAA me@here")
    found = read(GOOD + "gate: {public_keys: [gate.pub, nowhere.pub, gate, x.pub]}\n")
    told = [str(p) for p in problems(found) if p.is_fatal]
    name = "name the .pub that `draftgate certificate keygen` wrote, from this file's folder"
    hint = f"\n    hint: {name}"
    cannot = "certificates cannot be checked with it"
    assert told == [
        f"fleet.yaml:6:32: gate.public_keys[1]: {cannot}: {tmp_path / 'nowhere.pub'}: "
        f"No such file or directory [public-key]{hint}",
        f"fleet.yaml:6:45: gate.public_keys[2]: {cannot}: {tmp_path / 'gate'}: "
        f"a private key; the public one is in the file ending in .pub [public-key]{hint}",
        f"fleet.yaml:6:51: gate.public_keys[3]: {cannot}: {tmp_path / 'x.pub'}: not a public key "
        f"in PEM; `draftgate certificate keygen` makes one [public-key]{hint}",
    ]
    assert not found.is_usable
    assert told_of(read(GOOD + "gate: {public_keys: [gate.pub]}\n"), "public-key") == []


def test_without_the_package_signatures_are_not_checked(
    read: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A warning: the fleet's file is not wrong, so that CI can still check it."""
    monkeypatch.setattr(module, "is_available", lambda: False)
    found = read(GOOD + "gate: {public_keys: [nowhere.pub]}\n")
    assert told_of(found, "no-signing") == [
        "fleet.yaml:6:21: warning: gate.public_keys: signatures cannot be checked here: the "
        "package cryptography is not installed [no-signing]\n"
        "    hint: pip install 'draftgate[sign]'"
    ]
    assert found.is_usable
    assert told_of(read(), "no-signing") == []


def told_of(deployment: Deployment, code: str) -> list[str]:
    return [str(p) for p in deployment.problems if p.code == code]


def test_paths_that_lead_nowhere_are_told(read: Read, tmp_path: Path) -> None:
    found = [p for p in read().problems if p.code == "weights-missing"]
    assert [(path_text(p.path), p.severity) for p in found] == [
        ("models.small.drafts.eagle3", "warning"),
        ("models.small.target", "warning"),
    ]
    (tmp_path / "m.gguf").touch()
    assert len([p for p in read().problems if p.code == "weights-missing"]) == 1


def test_a_lossy_variable_that_workers_would_inherit_is_told(
    read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_TEST_FORCE_LOAD_FORMAT", "dummy")
    fleet = GOOD.replace("edit-0, engine: llama_cpp", "edit-0, engine: vllm")
    (line,) = (line for line in told(read(fleet)) if "[lossy]" in line)
    assert "in draftgate's own environment, which workers inherit" in line
    assert "[lossy]" not in "".join(told(read()))


def test_a_good_fleet_is_rendered(read: Read, tmp_path: Path) -> None:
    deployment = read()
    assert told(deployment) == []
    assert deployment.require().fleet == "f"
    assert [m.name for m in deployment.members] == ["plain-0", "edit-0"]
    edit = deployment.member("edit-0")
    assert edit.is_ours
    assert edit.launch.argv[0] == "/bin/engine"
    assert edit.launch.port == 8502
    assert str(tmp_path / "m.gguf") in edit.launch.argv
    assert edit.spec.model.drafts == {"eagle3": str(tmp_path / "head.gguf")}


def test_the_engine_is_asked_once_however_many_workers(read: Read, engine: list[str]) -> None:
    read()
    assert engine == ["find llama.cpp auto", "ask llama.cpp"]


def test_a_version_that_is_given_is_not_asked_for(read: Read, engine: list[str]) -> None:
    deployment = read(f"{GOOD}engines: {{llama_cpp: {{version: '11500', command: /x/y}}}}\n")
    assert engine == ["find llama.cpp /x/y"]
    assert {m.spec.engine_version for m in deployment.members} == {"11500"}


ELSEWHERE = GOOD.replace("port: 8501", "url: 'http://10.0.0.7:80'").replace(
    "port: 8502", "url: 'http://[::1]:9000'"
)


def test_engines_elsewhere_are_not_asked(read: Read, engine: list[str]) -> None:
    deployment = read(f"{ELSEWHERE}engines: {{llama_cpp: {{version: '11500'}}}}\n")
    assert told(deployment) == []
    assert "ask llama.cpp" not in engine
    assert [(m.spec.host, m.spec.port) for m in deployment.members] == [
        ("10.0.0.7", 80),
        ("::1", 9000),
    ]
    assert not any(m.is_ours for m in deployment.members)


def test_the_version_of_an_engine_elsewhere_is_to_be_written(read: Read) -> None:
    deployment = read(ELSEWHERE)
    assert [p.code for p in problems(deployment)] == ["external-version"]
    assert deployment.require()


def test_a_port_that_cannot_be_is_a_problem(read: Read) -> None:
    deployment = read(GOOD.replace("port: 8501", "url: 'http://h:99999'"))
    assert any("workers[0].url" in line for line in told(deployment))


def test_an_engine_that_is_not_here_is_a_warning(
    read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(adapter: Adapter, configured: str, base: Path) -> tuple[str, ...]:
        raise EngineError("no engine on PATH")

    monkeypatch.setattr(module, "find_command", find)
    deployment = read()
    (line,) = told(deployment)
    assert "warning: engines.llama_cpp.command: no engine on PATH; checked as version" in line
    assert deployment.require()
    assert {m.missing for m in deployment.members} == {"no engine on PATH"}
    assert deployment.members[0].launch.argv[0] == "llama-server"


def test_an_unknown_version_warns_at_the_engines_version(read: Read) -> None:
    deployment = read(f"{GOOD}engines: {{llama_cpp: {{version: '99999999'}}}}\n")
    (line,) = told(deployment)
    assert line.startswith("fleet.yaml:6:32: warning: engines.llama_cpp.version: llama.cpp 9999")


def test_own_profiles_win_over_the_shipped(read: Read) -> None:
    own = "profile: code-edit\nspeculation: {method: ngram, gamma: 2}\n"
    text = GOOD.replace("profile: edit", "profile: code-edit")
    assert "2" in read(text, **{"code-edit": own}).member("edit-0").launch.argv
    assert read(text.replace("small, profile: code-edit", "small, profile: rag")).fleet


def test_a_profile_that_is_nowhere(read: Read) -> None:
    (line,) = told(read(GOOD.replace("profile: edit", "profile: code-edti")))
    assert line.startswith("fleet.yaml:5:62: workers[1].profile: no profile 'code-edti' in ")


def test_a_profile_file_must_name_itself_as_the_fleet_does(read: Read) -> None:
    """Certificates, routes and metrics would speak of another profile than the fleet."""
    deployment = read(edit=EDIT_PROFILE.replace("profile: edit", "profile: other"))
    assert any(p.is_fatal and "'other'" in str(p) for p in deployment.problems)


def test_problems_of_a_profile_are_told_once_at_its_own_place(read: Read) -> None:
    text = GOOD + EDIT.replace("edit-0", "edit-1").replace("8502", "8503")
    deployment = read(text, edit=EDIT_PROFILE.replace("gamma: 4", "gamma: 400"))
    (line,) = told(deployment)
    assert line.startswith("profiles/edit.yaml:2:37: speculation.gamma: must be at most 128")
    with pytest.raises(InputError):
        deployment.require()


def test_a_refusal_names_the_worker_and_its_engine(read: Read) -> None:
    suffix = "profile: edit\nspeculation: {method: suffix, gamma: 4}\n"
    (line,) = told(read(edit=suffix))
    assert line == (
        "profiles/edit.yaml:2:23: speculation.method: llama.cpp has no method suffix "
        "(worker edit-0, llama.cpp 11434) [no-method]"
    )


def test_two_workers_may_be_refused_for_different_reasons(read: Read) -> None:
    """The same profile on another engine: each refusal is told, not only the first."""
    profile = "profile: edit\nspeculation: {method: eagle3, gamma: 4, draft: head-b}\n"
    text = GOOD + EDIT.replace("edit-0, engine: llama_cpp", "edit-1, engine: vllm").replace(
        "8502", "8503"
    )
    lines = told(read(text, edit=profile))
    assert any("worker edit-0, llama.cpp 11434" in line for line in lines)
    assert any("worker edit-1, vLLM 0.32.0" in line for line in lines)


LOST = "profile: edit\nspeculation: {method: eagle3, gamma: 4, tensor_parallel: 2}\n"


@pytest.mark.parametrize(("line", "is_fatal"), [("", True), ("degrade: allow\n", False)])
def test_degrade_decides_what_a_lost_key_is(read: Read, line: str, is_fatal: bool) -> None:
    deployment = read(GOOD + line, edit=LOST)
    (problem,) = problems(deployment)
    assert problem.is_fatal is is_fatal
    assert "no tensor parallel size" in problem.message
    assert bool(deployment.member("edit-0").launch.argv) is not is_fatal


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("engines: {llama_cpp: {args: {threds: 1}}}\n", "fleet.yaml:6:38: engines.llama_cpp.args"),
        ("engines: {llama_cpp: {args: {port: 1}}}\n", "fleet.yaml:6:36: engines.llama_cpp.args"),
    ],
)
def test_engine_options_are_checked_where_they_stand(read: Read, line: str, place: str) -> None:
    (said,) = told(read(GOOD + line))
    assert said.startswith(place)


def test_a_workers_own_options_are_checked_where_they_stand(read: Read) -> None:
    (said,) = told(read(GOOD.replace("port: 8502", "port: 8502, args: {threds: 1}")))
    assert said.startswith("fleet.yaml:5:95: workers[1].args.threds: ")


def test_a_workers_options_win_over_its_engines(read: Read) -> None:
    text = GOOD.replace("port: 8502", "port: 8502, gpus: [1], args: {ubatch_size: 64}")
    engines = "engines: {llama_cpp: {args: {ubatch-size: 1, threads: 3}, env: {A: b}}}\n"
    deployment = read(text + engines)
    assert told(deployment) == []
    launch = deployment.member("edit-0").launch
    argv = list(launch.argv)
    assert argv[argv.index("--ubatch-size") + 1] == "64"
    assert argv.count("--ubatch-size") == 1
    assert argv[argv.index("--threads") + 1] == "3"
    assert dict(launch.env) == {"A": "b", "CUDA_VISIBLE_DEVICES": "1"}


def test_nothing_is_started_from_a_fleet_with_problems(read: Read) -> None:
    deployment = read(GOOD.replace("port: 8501", "port: 8400"))
    assert all(m.launch.argv == () for m in deployment.members)


def test_an_unknown_worker_names_the_near_one(read: Read) -> None:
    with pytest.raises(InputError, match="no worker 'edit-1'; did you mean 'edit-0'"):
        read().member("edit-1")


@pytest.mark.parametrize("text", ["", "fleet: [", "fleet: f\n", "- 1\n", "5\n"])
def test_a_file_that_is_no_fleet_has_problems_and_no_members(read: Read, text: str) -> None:
    deployment = read(text)
    assert deployment.members == ()
    with pytest.raises(InputError):
        deployment.require()


def test_a_fleet_that_is_not_there(tmp_path: Path) -> None:
    deployment = read_deployment(tmp_path / "no.yaml", "no.yaml")
    assert told(deployment) == [
        "no.yaml:1:1: cannot be read: No such file or directory [unreadable]"
    ]


@pytest.mark.parametrize(
    ("target", "seen"),
    [
        ("org/model", "org/model"),
        ("models/here", "{base}/models/here"),
        ("./m.bin", "{base}/m.bin"),
        ("m.gguf", "{base}/m.gguf"),
        ("/abs/m", "/abs/m"),
    ],
)
def test_where_weights_are(read: Read, tmp_path: Path, target: str, seen: str) -> None:
    (tmp_path / "models" / "here").mkdir(parents=True)
    member: Any = read(GOOD.replace("m.gguf", target, 1)).members[0]
    assert member.spec.model.target == seen.format(base=tmp_path)
