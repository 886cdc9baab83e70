"""A certificate says all that its verdict rests on, and is written whole or not at all."""

import hashlib
import json
from pathlib import Path
from typing import Any, NoReturn

import pytest

from adapters.launch import Model
from orchestrator.errors import InputError, OrchestratorError
from orchestrator.gate.canonical import digest
from orchestrator.gate.certificate import (
    MOST_KEPT,
    certificate_path,
    make_certificate,
    read_certificate,
    write_certificate,
)
from orchestrator.gate.evidence import Trial
from orchestrator.gate.prompt import source_digest
from orchestrator.gate.subject import subject
from orchestrator.shipped import shipped
from tests.unit.certified import certify, lay_out, member, trial


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    lay_out(tmp_path)
    return tmp_path


@pytest.fixture
def folder(base: Path) -> Path:
    return base / "certificates"


def test_a_certificate_says_what_its_verdict_rests_on(base: Path, folder: Path) -> None:
    data = read_certificate(certify(folder, member(base))).data
    assert data["verdict"] == "pass"
    assert data["subject"] == subject(member(base))
    assert [arm["name"] for arm in data["arms"]] == ["A1", "A2", "S1", "S2"]
    assert data["arms"][2] == {
        "name": "S1", "worker": "edit-0", "boots": 1, "fingerprint": "f", "seconds": 1.25,
        "tokens": 2, "answers": 1, "unanswered": 0, "drafted": 5, "accepted": 4, "steps": 2,
        "positions": [2, 1.5],
    }  # fmt: skip
    source = source_digest(shipped("prompts"))
    assert data["prompts"] == {"digest": "x", "count": 1, "source": source}
    assert data["baseline"]["launch"] == data["subject"]["launch"]
    arguments = data["rendered"]["arguments"]
    assert arguments[arguments.index("--spec-draft-model") + 1] == "draft"
    content = json.dumps(data["rendered"], sort_keys=True).encode()
    assert hashlib.sha256(content).hexdigest() == data["subject"]["launch"]
    assert str(base) not in json.dumps(data["rendered"])
    assert data["rates"]["all"]["high"] == 1.5
    assert data["sampled"]["detectable"] == 0.1
    assert str(base) not in json.dumps(data["subject"])


NOT_COPIED = {"candidate", "engine", "profile", "certificate", "wall_seconds"}
NOT_COPIED |= {"answers_folder", "plain_answers_folder"}


def test_no_field_of_a_trial_is_left_out() -> None:
    """A field that is added to Trial is added to the certificate, or named here."""
    renamed = {"prompts_digest": "prompts", "prompts_source": "prompts"}
    data = make_certificate(trial(), member(Path("/nowhere")), member(Path("/nowhere")))
    fields = [renamed.get(name, name) for name in Trial.__dataclass_fields__]
    assert [name for name in fields if name not in data and name not in NOT_COPIED] == []


def test_numbers_that_are_not_finite_are_null_in_it(base: Path, folder: Path) -> None:
    data = read_certificate(certify(folder, member(base))).data
    found = data["divergences"]["kept"][0]
    assert (found["margin"], found["units"]) == (None, 0.5)
    assert "candidates" not in found


def test_many_divergences_are_counted_not_kept(base: Path) -> None:
    many = trial(divergences=trial().divergences * (MOST_KEPT + 7))
    data = make_certificate(many, member(base), member(base))
    assert len(data["divergences"]["kept"]) == MOST_KEPT
    assert data["divergences"]["more"] == 7
    assert data["noise"]["more"] == 0


def test_the_digest_is_over_the_certificate_alone(base: Path, folder: Path) -> None:
    path = certify(folder, member(base))
    whole = json.loads(path.read_text())
    assert sorted(whole) == ["certificate", "digest", "signature"]
    assert whole["digest"] == digest(whole["certificate"])
    assert whole["signature"] is None
    path.write_text(json.dumps(whole, indent=7, sort_keys=True))
    assert read_certificate(path).is_intact


@pytest.mark.parametrize("key", ["verdict", "arms", "subject", "created", "new"])
def test_an_edited_certificate_is_not_intact(base: Path, folder: Path, key: str) -> None:
    path = certify(folder, member(base))
    whole = json.loads(path.read_text())
    whole["certificate"][key] = "edited"
    path.write_text(json.dumps(whole))
    assert not read_certificate(path).is_intact


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "cannot be read"),
        (b'{"certificate": {"form', "cannot be read"),
        (b"\xff\xfe", "cannot be read"),
        (b'{"certificate": {"format": 2, "format": 2}}', "'format' stands twice"),
        (b'{"certificate": {"format": NaN}}', "NaN is no number"),
        (b"[" * 100_000, "cannot be read"),
        (b"[]", "is not a certificate that this version reads"),
        (b"{}", "is not a certificate that this version reads"),
        (b'{"format": 1, "verdict": "pass"}', "is not a certificate that this version reads"),
        (b'{"certificate": {"format": 1}}', "is not a certificate that this version reads"),
        (b'{"certificate": {"format": "2"}}', "is not a certificate that this version reads"),
        (b'{"certificate": []}', "is not a certificate that this version reads"),
    ],
)
def test_a_file_that_is_no_certificate_says_so(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "c.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=words):
        read_certificate(path)


def test_a_certificate_of_endless_length_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.gate.certificate.LARGEST", 10)
    path = tmp_path / "c.json"
    path.write_text(" " * 11)
    with pytest.raises(InputError, match="longer than 10 bytes"):
        read_certificate(path)


@pytest.mark.parametrize("joint", ["-", "--", "_", ".", "-.-"])
def test_two_workers_never_share_a_file(base: Path, joint: str) -> None:
    """Whatever joins the parts of the name may not stand in one of them."""
    one = member(base, profile="a", model=Model(f"b{joint}c", "m"))
    other = member(base, profile=f"a{joint}b", model=Model("c", "m"))
    assert certificate_path(base, one) != certificate_path(base, other)


def test_a_certificate_is_written_whole_or_not_at_all(
    base: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = certify(folder, member(base))
    before = path.read_text()

    def no_space(*args: Any, **kwargs: Any) -> NoReturn:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", no_space)
        with pytest.raises(OrchestratorError, match="cannot be written: No space left"):
            certify(folder, member(base), verdict="fail")
    assert path.read_text() == before
    assert [file.name for file in folder.iterdir()] == [path.name]


# Nothing shown takes nothing away; a fail does.


def test_an_inconclusive_run_stands_beside_an_earlier_pass(base: Path, folder: Path) -> None:
    passed = certify(folder, member(base))
    beside = certify(folder, member(base), verdict="inconclusive")
    assert beside.name == passed.name.removesuffix(".json") + ".inconclusive.json"
    assert read_certificate(passed).verdict == "pass"
    assert read_certificate(beside).verdict == "inconclusive"


@pytest.mark.parametrize(
    "changes", [{"draftgate": "0.0.0"}, {"subject": {}}, {"verdict": "fail"}, {"verdict": None}]
)
def test_an_inconclusive_run_replaces_all_else(base: Path, folder: Path, changes: Any) -> None:
    earlier = certify(folder, member(base), **changes)
    assert certify(folder, member(base), verdict="inconclusive") == earlier
    assert read_certificate(earlier).verdict == "inconclusive"


def test_an_inconclusive_run_replaces_an_edited_pass(base: Path, folder: Path) -> None:
    path = certify(folder, member(base))
    path.write_text(path.read_text().replace('"format": 2', '"format": 2, "edited": true'))
    assert certify(folder, member(base), verdict="inconclusive") == path


@pytest.mark.parametrize("earlier", ["pass", "inconclusive"])
@pytest.mark.parametrize("later", ["pass", "fail"])
def test_a_pass_or_a_fail_replaces_what_is_there(
    base: Path, folder: Path, earlier: str, later: str
) -> None:
    path = certify(folder, member(base), verdict=earlier)
    assert certify(folder, member(base), verdict=later) == path
    assert read_certificate(path).verdict == later


def test_a_hub_id_without_a_commit_is_noted(base: Path) -> None:
    model = Model("small", "org/model", 2048, {"draft_model": "org/draft"}, "a" * 40)
    data = make_certificate(trial(), member(base), member(base, model=model))
    assert data["notes"] == ["org/draft names no commit: what it stands for may change unseen"]
    branch = Model("small", "org/model", 2048, {"draft_model": "org/draft"}, "z" * 40)
    data = make_certificate(trial(), member(base), member(base, model=branch))
    assert data["notes"][0].startswith(f"org/model@{branch.revision} names no commit")


def test_it_cannot_be_written_with_what_json_does_not_know(base: Path, folder: Path) -> None:
    with pytest.raises(ValueError, match="nan is no number of JSON"):
        write_certificate(folder / "c.json", {"verdict": "pass", "x": float("nan")})
    assert not folder.exists()
