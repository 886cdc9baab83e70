"""A certificate holds for exactly one engine build, weights and launch."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest

from adapters import ADAPTERS
from adapters.exchange import Generation
from adapters.launch import Launch, Model, WorkerSpec
from adapters.profile import Profile
from orchestrator.deployment import Member
from orchestrator.errors import OrchestratorError
from orchestrator.fleet import EngineEntry, WorkerEntry
from orchestrator.gate.certificate import (
    certificate_path,
    make_certificate,
    objection,
    subject,
    write_certificate,
)
from orchestrator.gate.compare import Arm, compare

Spec = dict[str, Any]
DRAFTED: Spec = {"method": "draft_model", "gamma": 4}


def member(
    base: Path,
    speculation: Spec = DRAFTED,
    engine: str = "llama_cpp",
    profile: str = "edit",
    **fields: Any,
) -> Member:
    """A worker with real files of weights under `base`."""
    made = Profile.model_validate({"profile": profile, "speculation": speculation})
    model = Model("small", str(base / "m.gguf"), 2048, {"draft_model": str(base / "d.gguf")})
    settings: Spec = {"engine_version": "11434", "command": ("e",), "model": model, "port": 8501}
    spec = WorkerSpec(name="edit-0", **settings | fields)
    entry = WorkerEntry.model_validate(
        {"name": "edit-0", "engine": engine, "model": model.name, "profile": profile, "port": 8501}
    )
    empty = Member(entry, made, EngineEntry(), spec, Launch((), (), (), 1), base)
    return replace(empty, launch=ADAPTERS[engine].render(made, spec))


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "m.gguf").write_text("target")
    (tmp_path / "d.gguf").write_text("draft")
    return tmp_path


@pytest.fixture
def folder(base: Path) -> Path:
    """Holds the certificate of the unchanged member."""
    folder = base / "certificates"
    certify(folder, member(base))
    return folder


def certify(folder: Path, candidate: Member, **changes: Any) -> Path:
    arms = [
        Arm(name, {"p": Generation((0,), (1, 2), "ab", "length")}, 5, 4)
        for name in ("A1", "A2", "S1", "S2")
    ]
    plain = [replace(arm, drafted=0, accepted=0) for arm in arms[:2]]
    comparison = compare(["p"], plain, arms[2:])
    data = make_certificate(candidate, candidate, arms, comparison, {"digest": "x", "count": 1})
    path = certificate_path(folder, candidate)
    write_certificate(path, data | changes)
    return path


def test_the_certified_worker_is_admitted(base: Path, folder: Path) -> None:
    assert objection(folder, member(base)) is None


def test_a_plain_worker_needs_no_certificate(base: Path) -> None:
    assert objection(base / "nowhere", member(base, {"method": "none"})) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"port": 9000},
        {"command": ("/elsewhere/llama-server",)},
        {"gpus": (3,)},
        {"host": "10.0.0.7"},
        {"name": "edit-7"},
    ],
)
def test_where_a_worker_runs_does_not_matter(base: Path, folder: Path, fields: Spec) -> None:
    changed = member(base)
    spec = replace(changed.spec, **fields)
    launch = changed.adapter.render(changed.profile, spec)
    assert objection(folder, replace(changed, spec=spec, launch=launch)) is None


Change = Callable[[Path], Member]
CHANGES: Mapping[str, tuple[Change, str]] = {
    "version": (lambda base: member(base, engine_version="11435"), "engine"),
    "gamma": (lambda base: member(base, {**DRAFTED, "gamma": 5}), "gamma"),
    "option": (lambda base: member(base, args={"threads": 2}), "launch"),
    "environment": (lambda base: member(base, env={"GGML_X": "1"}), "launch"),
    "method": (lambda base: member(base, {"method": "ngram", "gamma": 4}), "method"),
    "context": (
        lambda base: with_model(base, context=4096),
        "launch",
    ),
    "model name": (lambda base: renamed(base), "model"),
    "schedule": (
        lambda base: member(
            base,
            {
                **DRAFTED,
                "schedule": ({"batch": "1-4", "gamma": 2}, {"batch": "5+", "gamma": 0}),
            },
        ),
        "launch",
    ),
}


def with_model(base: Path, **fields: Any) -> Member:
    return member(base, model=replace(member(base).spec.model, **fields))


def renamed(base: Path) -> Member:
    """The same file name, so that the old certificate is the one that is read."""
    changed = with_model(base, name="other")
    old = certificate_path(base / "certificates", member(base))
    old.rename(certificate_path(base / "certificates", changed))
    return changed


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_every_change_of_the_subject_is_an_objection(base: Path, folder: Path, name: str) -> None:
    change, key = CHANGES[name]
    said = objection(folder, change(base))
    assert said is not None
    assert key in said.removeprefix("the certificate is for another ").split(";")[0].split(", ")


@pytest.mark.parametrize("file", ["m.gguf", "d.gguf"])
def test_other_weights_under_the_same_name_are_an_objection(
    base: Path, folder: Path, file: str
) -> None:
    (base / file).write_text("other weights")
    assert objection(folder, member(base)) == (
        "the certificate is for another weights; run `draftgate gate`, then start the router again"
    )


def test_weights_elsewhere_are_the_same_weights(base: Path, folder: Path) -> None:
    moved = base / "moved"
    moved.mkdir()
    (base / "m.gguf").rename(moved / "m.gguf")
    (base / "d.gguf").rename(moved / "d.gguf")
    assert objection(folder, member(moved)) is None


def test_a_folder_of_weights_is_its_files_and_their_names(base: Path) -> None:
    folder = base / "target"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.safetensors").write_text("1")
    (folder / "sub" / "b.json").write_text("2")
    changed = with_model(base, target=str(folder))
    before = subject(changed)["weights"]["target"]
    (folder / "a.safetensors").rename(folder / "c.safetensors")
    assert subject(changed)["weights"]["target"] != before


def test_hub_ids_stand_for_themselves_with_their_revision(base: Path) -> None:
    at_main = with_model(base, target="org/model")
    pinned = with_model(base, target="org/model", revision="abc")
    assert subject(at_main)["weights"]["target"] == "org/model@main"
    assert subject(pinned)["weights"]["target"] == "org/model@abc"


@pytest.mark.parametrize("verdict", ["fail", "inconclusive", None, "PASS"])
def test_any_other_verdict_is_an_objection(base: Path, folder: Path, verdict: str | None) -> None:
    certify(folder, member(base), verdict=verdict)
    assert objection(folder, member(base)) == f"the gate's verdict is {verdict}"


@pytest.mark.parametrize("proved", [None, [], {}, "x"])
def test_a_certificate_without_a_subject_is_an_objection(
    base: Path, folder: Path, proved: Any
) -> None:
    certify(folder, member(base), subject=proved)
    assert "is for another engine" in str(objection(folder, member(base)))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "cannot be read"),
        (b'{"format": 1, "verd', "cannot be read"),
        (b"\xff\xfe", "cannot be read"),
        (b"[]", "is not a certificate that this version reads"),
        (b"{}", "is not a certificate that this version reads"),
        (b'{"format": 2, "verdict": "pass"}', "is not a certificate that this version reads"),
        (b'{"format": "1", "verdict": "pass"}', "is not a certificate that this version reads"),
    ],
)
def test_a_file_that_is_no_certificate_is_an_objection(
    base: Path, folder: Path, content: bytes, words: str
) -> None:
    certificate_path(folder, member(base)).write_bytes(content)
    assert words in str(objection(folder, member(base)))


def test_no_certificate_is_an_objection_that_says_what_to_run(base: Path) -> None:
    said = objection(base / "nowhere", member(base))
    assert said == "it has no certificate; run `draftgate gate`, then start the router again"


def test_a_certificate_says_what_its_verdict_rests_on(base: Path, folder: Path) -> None:
    data = json.loads(certificate_path(folder, member(base)).read_text())
    assert data["verdict"] == "pass"
    assert data["subject"] == subject(member(base))
    assert data["tokens_compared"] == 2
    assert [arm["name"] for arm in data["arms"]] == ["A1", "A2", "S1", "S2"]
    assert data["prompts"] == {"digest": "x", "count": 1}
    assert str(base) not in json.dumps(data["subject"])


@pytest.mark.parametrize("joint", ["-", "--", "_", ".", "-.-"])
def test_two_workers_never_share_a_file(base: Path, joint: str) -> None:
    """Whatever joins the parts of the name may not stand in one of them."""
    one = member(base, profile="a", model=Model(f"b{joint}c", "m"))
    other = member(base, profile=f"a{joint}b", model=Model("c", "m"))
    assert certificate_path(base, one) != certificate_path(base, other)


def test_a_certificate_is_written_whole_or_not_at_all(
    base: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = certificate_path(folder, member(base))
    before = path.read_text()

    def no_space(*args: Any) -> NoReturn:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", no_space)
        with pytest.raises(OrchestratorError, match="cannot be written: No space left"):
            certify(folder, member(base), verdict="fail")
    assert path.read_text() == before
    assert [file.name for file in folder.iterdir()] == [path.name]
