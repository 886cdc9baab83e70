"""The test models of this repository, read and paired."""

from pathlib import Path

import pytest

from adapters.checkpoint import Checkpoint, Head
from adapters.fit.memory import describe, estimate
from adapters.fit.pairing import pairing_problems
from adapters.launch import Model, WorkerSpec
from adapters.profile import Profile
from adapters.reader import read_checkpoint
from tests.models.to_gguf import write_gguf

MODELS = Path(__file__).parents[1] / "models"


def read(name: str) -> Checkpoint:
    found = read_checkpoint(str(MODELS / name))
    assert found is not None
    assert found.silent == ()
    return found


def asked(method: str) -> Profile:
    return Profile.model_validate(
        {"profile": "p", "speculation": {"method": method, "gamma": 4, "draft": "head"}}
    )


def worker(draft: str) -> WorkerSpec:
    source = str(MODELS / draft)
    model = Model("small", str(MODELS / "target"), drafts={"head": source}, facts=read("target"))
    return WorkerSpec(
        "w",
        "1",
        ("engine",),
        Model(**{**vars(model), "draft_facts": {"head": read(draft)}}),
        8000,
        memory_gib=0.01,
    )


def test_the_target() -> None:
    found = read("target")
    assert (found.layers, found.hidden, found.heads, found.kv_heads) == (6, 128, 4, 2)
    assert (found.context, found.vocabulary_size, found.head) == (2048, 1024, None)
    assert found.vocabulary is not None
    assert len(found.vocabulary.tokens) == 1024


def test_a_head() -> None:
    assert read("other_size_eagle3").head == Head("eagle3", 96, (1, 3, 5), 1024)


@pytest.mark.parametrize(
    ("method", "draft", "code"),
    [
        ("draft_model", "draft", None),
        ("draft_model", "other_tokens", "vocabulary-mismatch"),
        ("draft_model", "other_vocabulary", "vocabulary-mismatch"),
        ("draft_model", "other_size_eagle3", "head-kind"),
        ("eagle3", "other_size_eagle3", "head-target"),
        ("eagle3", "draft", "head-kind"),
    ],
)
def test_pairs(method: str, draft: str, code: str | None) -> None:
    found = pairing_problems(asked(method), worker(draft))
    assert [problem.code for problem in found] == ([code] if code else [])


def test_the_memory_of_the_draft() -> None:
    """Two layers for six; the sizes are those of the files."""
    found = estimate(asked("draft_model"), worker("draft"))
    assert found is not None
    assert (found.target_token_bytes, found.draft_token_bytes) == (6 * 2 * 64 * 2, 2 * 2 * 64 * 2)
    assert "(x1.33)" in describe(found)[1]


@pytest.mark.parametrize("name", ["target", "other_size_eagle3"])
def test_as_gguf_it_says_the_same(tmp_path: Path, name: str) -> None:
    """What is written as GGUF is read back as the folder says, in float32."""
    file = tmp_path / f"{name}.gguf"
    write_gguf(MODELS / name, file)
    ours, theirs = read(name), read_checkpoint(str(file))
    assert theirs is not None
    assert theirs.silent == ()
    same = ("layers", "hidden", "heads", "kv_heads", "head_dim", "context", "vocabulary_size")
    assert [getattr(theirs, key) for key in same] == [getattr(ours, key) for key in same]
    assert theirs.weight_bytes == 2 * (ours.weight_bytes or 0)
    assert theirs.vocabulary is not None
    assert ours.vocabulary is not None
    assert theirs.vocabulary.tokens == ours.vocabulary.tokens
    assert theirs.head == ours.head
