"""Pairs of draft and target: what their files show to be wrong, whatever the engine."""

import time
from dataclasses import replace
from typing import Any

import pytest

from adapters.checkpoint import Checkpoint, Head, HeadKind, Vocabulary
from adapters.fit.pairing import pairing_problems
from adapters.launch import Model, WorkerSpec
from adapters.problem import Problem, path_text
from adapters.profile import EngineName, Profile

TOKENS = ("<s>", "</s>", "a", "b", "c", "ab")
TARGET = Checkpoint(
    "/m/target",
    "huggingface",
    architecture="LlamaForCausalLM",
    layers=8,
    hidden=64,
    context=2048,
    vocabulary_size=6,
    weight_bytes=1000,
    vocabulary=Vocabulary(TOKENS),
)
DRAFT = replace(TARGET, source="/m/draft", layers=2, weight_bytes=100)
DRAFT_PATH = "models.small.drafts.{}"


def head(kind: HeadKind, **facts: Any) -> Checkpoint:
    """A head that fits TARGET, but for these facts."""
    own = {"target_hidden": 64, "layers": (1, 4, 7), "vocabulary_size": 6, **facts}
    return replace(
        DRAFT, architecture="Head", vocabulary=None, mask_token=5, head=Head(kind, **own)
    )


def problems(
    method: str,
    draft: Checkpoint | None = None,
    target: Checkpoint | None = TARGET,
    served: int | None = None,
    engine: EngineName | None = None,
    **keys: Any,
) -> list[Problem]:
    """What is said of a pair; without a draft the target has to hold it."""
    spec = {"method": method, "gamma": 3, **keys}
    if draft is not None and method in ("mtp", "dspark"):
        spec["draft"] = method
    profile = Profile.model_validate({"profile": "p", "speculation": spec}, strict=False)
    drafts = {method: "/m/draft"}
    facts = {method: draft} if draft else {}
    model = Model("small", "/m/target", served, drafts, facts=target, draft_facts=facts)
    worker = WorkerSpec("w", "1", ("engine",), model, 8000, engine=engine)
    return pairing_problems(profile, worker)


def only(found: list[Problem]) -> Problem:
    assert len(found) == 1, found
    assert found[0].hint
    return found[0]


@pytest.mark.parametrize(
    ("method", "draft"),
    [
        ("draft_model", DRAFT),
        ("eagle", head("eagle")),
        ("eagle3", head("eagle3")),
        ("medusa", head("medusa", length=3)),
        ("mlp_speculator", head("mlp_speculator", length=3)),
        ("mtp", head("mtp", length=1)),
        ("dflash", head("dflash", length=7)),
        ("dspark", head("dspark", length=7)),
    ],
)
def test_pairs_that_fit(method: str, draft: Checkpoint) -> None:
    assert problems(method, draft) == []


def test_methods_without_weights_have_no_pair() -> None:
    for method in ("none", "ngram"):
        spec = {"method": method, **({"gamma": 3} if method == "ngram" else {})}
        profile = Profile.model_validate({"profile": "p", "speculation": spec})
        worker = WorkerSpec("w", "1", ("engine",), Model("small", "org/target"), 8000)
        assert pairing_problems(profile, worker) == []


def test_a_draft_that_the_model_lacks_is_said_elsewhere() -> None:
    profile = Profile.model_validate(
        {"profile": "p", "speculation": {"method": "eagle3", "gamma": 3}}
    )
    worker = WorkerSpec("w", "1", ("engine",), Model("small", "org/target"), 8000)
    assert pairing_problems(profile, worker) == []


def test_vocabularies_are_compared_token_by_token() -> None:
    """Of one size, so that an engine that compares sizes sees nothing."""
    other = replace(DRAFT, vocabulary=Vocabulary(("<s>", "</s>", "a", "x", "y", "ab")))
    found = only(problems("draft_model", other))
    assert found.code == "vocabulary-mismatch"
    assert path_text(found.path) == DRAFT_PATH.format("draft_model")
    assert "id 3 is 'x' for it and 'b' for the target, 2 of 6 ids differ" in found.message
    assert "it has 6 tokens, the target 6" in found.message
    assert "other_vocabulary" in found.hint
    assert problems("draft_model", other, other_vocabulary=True) == []


def test_padding_and_tokens_added_by_one_side_do_not_count() -> None:
    added = replace(DRAFT, vocabulary=Vocabulary((*TOKENS, "<think>")), vocabulary_size=8)
    assert problems("draft_model", added) == []
    holes = replace(DRAFT, vocabulary=Vocabulary((*TOKENS[:5], None)))
    assert problems("draft_model", holes) == []


def test_a_draft_cannot_read_ids_behind_its_embedding() -> None:
    fewer = replace(DRAFT, vocabulary=Vocabulary(TOKENS[:4]), vocabulary_size=5)
    found = only(problems("draft_model", fewer))
    assert found.code == "vocabulary-mismatch"
    assert "the target's id 5, 'ab', is beyond its 5 tokens (the target has 6)" in found.message
    padded = replace(TARGET, vocabulary=Vocabulary((*TOKENS[:5], None)))
    assert problems("draft_model", fewer, padded) == []


RESERVED = ("<r0>", "<r1>", "<r2>", "<r3>", "<r4>", "<r5>")


def with_special(
    side: Checkpoint, names: tuple[str | None, ...], kind: str = "special", **more: Any
) -> Checkpoint:
    """The side with these tokens after its ordinary ones."""
    ids = frozenset(range(len(TOKENS), len(TOKENS) + len(names)))
    marks: dict[str, Any] = {kind: ids, **more}
    vocabulary = Vocabulary((*TOKENS, *names), **marks)
    return replace(side, vocabulary=vocabulary, vocabulary_size=len(vocabulary.tokens))


@pytest.mark.parametrize("kind", ["special", "added"])
@pytest.mark.parametrize("method", ["draft_model", "eagle3"])
def test_renamed_special_tokens_are_a_warning(method: str, kind: str) -> None:
    """Llama 3.1 gave names to 128004 and 128008 of Llama 3, the distills of R1 to more."""
    draft = with_special(DRAFT if method == "draft_model" else head("eagle3"), RESERVED)
    target = with_special(TARGET, ("<r0>", "<pad>", "<r2>", "<eom>", "<r4>", "<r5>"), kind)
    found = only(problems(method, draft, target, engine="vllm"))
    assert (found.code, found.severity) == ("vocabulary-mismatch", "warning")
    assert "id 7 is '<r1>' for it and '<pad>' for the target; id 9 is '<r3>'" in found.message
    assert "2 of 12 ids differ" in found.message
    assert "the target's" in found.hint
    assert "other_vocabulary" not in found.hint


def test_one_ordinary_token_among_them_is_an_error() -> None:
    draft = with_special(DRAFT, ("<r0>", "<r1>"))
    target = with_special(TARGET, ("<s0>", "<s1>"))
    assert target.vocabulary is not None
    half = replace(target, vocabulary=replace(target.vocabulary, special=frozenset({6})))
    found = only(problems("draft_model", draft, half))
    assert found.is_fatal
    assert "id 7 is '<r1>' for it and '<s1>' for the target, 2 of 8 ids differ" in found.message


def test_llama_cpp_compares_special_tokens_too() -> None:
    """From id 5 on, and of draft models alone."""
    draft, target = with_special(DRAFT, ("<r0>",)), with_special(TARGET, ("<pad>",))
    found = only(problems("draft_model", draft, target, engine="llama_cpp"))
    assert (found.code, found.is_fatal) == ("vocabulary-mismatch", True)
    assert "would serve without speculation: id 6 is '<r0>'" in found.message
    other = with_special(head("eagle3"), ("<r0>",))
    assert only(problems("eagle3", other, target, engine="llama_cpp")).severity == "warning"
    early = frozenset({0, 1})
    first = replace(DRAFT, vocabulary=Vocabulary(("<bos>", *TOKENS[1:]), special=early))
    named = replace(TARGET, vocabulary=Vocabulary(TOKENS, special=early))
    assert only(problems("draft_model", first, named, engine="llama_cpp")).severity == "warning"


@pytest.mark.parametrize("engine", ["vllm", None])
def test_special_tokens_behind_the_embedding_are_a_warning(engine: EngineName | None) -> None:
    """Gemma: <image_soft_token> is the last id of models that see."""
    found = only(problems("draft_model", DRAFT, with_special(TARGET, ("<image>",)), engine=engine))
    assert (found.code, found.severity) == ("vocabulary-mismatch", "warning")
    assert "cannot read the target's special token '<image>': id 6" in found.message
    several = only(problems("draft_model", DRAFT, with_special(TARGET, ("<image>", "<audio>"))))
    assert "'<image>', and 1 more special tokens," in several.message


@pytest.mark.parametrize("names", [{"eos": 6}, {"bos": 6}, {"kind": "added"}])
def test_tokens_of_every_text_behind_the_embedding_are_an_error(names: dict[str, Any]) -> None:
    """Chats hold <|im_end|> at each turn, and answers words that were added later."""
    found = only(problems("draft_model", DRAFT, with_special(TARGET, ("<|im_end|>",), **names)))
    assert found.is_fatal
    assert "the target's id 6, '<|im_end|>', is beyond its 6 tokens" in found.message


@pytest.mark.parametrize(
    ("engine", "translates"),
    [("vllm", True), (None, True), ("llama_cpp", False), ("sglang", False)],
)
def test_translation_is_proposed_where_the_engine_can(
    engine: EngineName | None, translates: bool
) -> None:
    other = replace(DRAFT, vocabulary=Vocabulary(("<s>", "</s>", "a", "x", "y", "ab")))
    found = only(problems("draft_model", other, engine=engine))
    assert ("other_vocabulary" in found.hint) == translates
    assert found.hint.startswith("use a draft of the target's family")


def test_sizes_are_compared_where_tokenizers_are_absent() -> None:
    found = problems("draft_model", replace(DRAFT, vocabulary=None, vocabulary_size=9))
    assert only(found).message.endswith("9 tokens, the target 6")
    assert problems("draft_model", replace(DRAFT, vocabulary=None)) == []


def test_a_heads_own_tokenizer_is_compared_too() -> None:
    other = replace(head("eagle3"), vocabulary=Vocabulary(("x", *TOKENS[1:])))
    assert "trained for this target" in only(problems("eagle3", other)).hint


def test_large_vocabularies_take_no_time() -> None:
    tokens = tuple(f"t{i}" for i in range(262_144))
    target = replace(TARGET, vocabulary=Vocabulary(tokens))
    other = replace(DRAFT, vocabulary=Vocabulary((*tokens[:-1], "x")))
    started = time.monotonic()
    assert "1 of 262144 ids differ" in only(problems("draft_model", other, target)).message
    assert time.monotonic() - started < 1


@pytest.mark.parametrize(
    ("method", "draft", "severity"),
    [
        ("draft_model", DRAFT, "error"),
        ("dflash", head("dflash"), "error"),
        ("eagle3", head("eagle3"), "warning"),
        ("mtp", head("mtp"), "warning"),
        ("medusa", head("medusa"), None),
    ],
)
def test_contexts(method: str, draft: Checkpoint, severity: str | None) -> None:
    assert problems(method, replace(draft, context=4096), served=4096) == []
    found = problems(method, draft, served=4096)
    if severity is None:
        assert found == []
        return
    assert only(found).severity == severity
    assert only(found).code == "draft-context"
    assert "made for 2048 tokens, and model 'small' is served with 4096" in only(found).message
    assert "context: 2048, or route longer prompts to plain" in only(found).hint


def test_without_a_served_context_the_targets_own_counts() -> None:
    target = replace(TARGET, context=8192)
    assert "served with 8192" in only(problems("draft_model", DRAFT, target)).message


@pytest.mark.parametrize(
    ("method", "draft", "words"),
    [
        ("eagle3", DRAFT, "an ordinary model, not an EAGLE-3 head"),
        ("draft_model", head("eagle3"), "an EAGLE-3 head, not an ordinary model"),
        ("eagle", head("eagle3"), "an EAGLE-3 head, not an EAGLE head"),
        ("eagle3", head("eagle"), "an EAGLE head, not an EAGLE-3 head"),
        ("medusa", DRAFT, "an ordinary model, not a set of Medusa heads"),
        ("eagle3", head("medusa", length=5), "a set of Medusa heads, not an EAGLE-3 head"),
    ],
)
def test_kinds_that_are_mixed_up(method: str, draft: Checkpoint, words: str) -> None:
    found = only(problems(method, replace(draft, hidden=99, context=1)))
    assert (found.code, found.severity) == ("head-kind", "error")
    assert words in found.message
    named = draft.head.kind if draft.head else "draft_model"
    assert f"write method: {named}" in found.hint


def test_block_drafters_are_close() -> None:
    assert only(problems("dflash", head("dspark"))).severity == "warning"


def test_a_head_nobody_can_tell_is_not_accused() -> None:
    unknown = replace(DRAFT, weight_bytes=None, silent=("no weight files in the folder",))
    assert only(problems("eagle", unknown)).code == "unchecked"


@pytest.mark.parametrize("method", ["none", "ngram", "eagle3"])
def test_a_target_that_is_a_head(method: str) -> None:
    keys = {} if method == "none" else {"gamma": 3}
    profile = Profile.model_validate({"profile": "p", "speculation": {"method": method, **keys}})
    model = Model("small", "/m/t", drafts={"eagle3": "x"}, facts=head("eagle3"))
    found = only(pairing_problems(profile, WorkerSpec("w", "1", ("e",), model, 8000)))
    assert (found.code, found.path) == ("head-kind", ("models", "small", "target"))


def test_a_head_of_another_width() -> None:
    found = only(problems("eagle3", head("eagle3", target_hidden=96)))
    assert found.code == "head-target"
    assert "states 96 wide, the target's are 64" in found.message


def test_a_head_with_more_tokens() -> None:
    assert only(problems("eagle3", head("eagle3", vocabulary_size=7))).code == "head-vocabulary"
    assert problems("eagle3", head("eagle3", vocabulary_size=3)) == []


@pytest.mark.parametrize(
    ("layers", "count", "words", "severity"),
    [
        ((1, 4, 9), 8, "reads the target's layers 1, 4, 9: the target has 8", "error"),
        ((1, 4, 4), 8, "they are not all different", "error"),
        ((2, 5), 8, "few engines take another number", "warning"),
        (None, 6, "the usual ones are 2, 3, 3: they are not all different", "error"),
        (None, 4, "the usual ones are 2, 2, 1", "error"),
        (None, 2, "the usual ones are 2, 1, -1: the target has 2", "error"),
        (None, 7, None, None),
        ((0, 4, 8), 8, None, None),
        ((), 2, None, None),
    ],
)
def test_layers(
    layers: tuple[int, ...] | None, count: int, words: str | None, severity: str | None
) -> None:
    found = problems("eagle3", head("eagle3", layers=layers), replace(TARGET, layers=count))
    if words is None:
        assert found == []
        return
    assert words in only(found).message
    assert (only(found).severity, only(found).code) == (severity, "head-layers")


@pytest.mark.parametrize(
    ("method", "length", "gamma", "severity"),
    [
        ("medusa", 3, 3, None),
        ("medusa", 3, 2, None),
        ("medusa", 3, 4, "error"),
        ("mlp_speculator", 3, 4, "error"),
        ("dflash", 7, 8, "warning"),
        ("dspark", 7, 8, "warning"),
        ("mtp", 1, 5, None),
        ("mtp", 2, 4, None),
        ("mtp", 2, 3, "warning"),
        ("eagle3", None, 9, None),
    ],
)
def test_gamma_and_what_the_head_was_trained_for(
    method: HeadKind, length: int | None, gamma: int, severity: str | None
) -> None:
    found = problems(method, head(method, length=length), gamma=gamma)
    if severity is None:
        assert found == []
        return
    assert (only(found).severity, only(found).code) == (severity, "gamma-trained")
    assert only(found).path == ("speculation", "gamma")
    assert "write at most" in only(found).hint


def test_mtp_of_the_target() -> None:
    found = only(problems("mtp"))
    assert (found.code, found.path) == ("no-mtp-layers", ("speculation", "method"))
    assert problems("mtp", target=replace(TARGET, mtp_layers=1)) == []
    two = only(problems("mtp", target=replace(TARGET, mtp_layers=2)))
    assert two.code == "gamma-trained"
    assert "write at most 2, or 2 where" in two.hint


def test_dspark_of_the_target() -> None:
    assert only(problems("dspark")).code == "head-kind"
    target = replace(TARGET, block=5, mtp_layers=1)
    assert problems("dspark", target=target) == []
    assert only(problems("dspark", target=target, gamma=6)).code == "gamma-trained"


@pytest.mark.parametrize(
    ("method", "draft", "path"),
    [
        ("draft_model", DRAFT, "speculation.parallel"),
        ("eagle3", replace(head("eagle3"), mask_token=None), "speculation.parallel"),
    ],
)
def test_parallel_guessing_needs_a_mask_token(method: str, draft: Checkpoint, path: str) -> None:
    found = only(problems(method, draft, parallel=True))
    assert (found.code, path_text(found.path)) == ("no-mask-token", path)
    assert problems(method, replace(draft, mask_token=0), parallel=True) == []


def test_a_block_needs_a_mask_token() -> None:
    found = only(problems("dflash", replace(head("dflash"), mask_token=None)))
    assert (found.code, path_text(found.path)) == ("no-mask-token", "models.small.drafts.dflash")


@pytest.mark.parametrize(
    ("draft", "target", "path", "words"),
    [
        (None, TARGET, "drafts.eagle3", "draft 'eagle3' /m/draft is not a local file"),
        (head("eagle3"), None, "target", "target /m/target is not a local file"),
        (None, None, "drafts.eagle3", "is not a local file or folder; target"),
        (
            replace(head("eagle3"), silent=("a", "b", "c", "d", "e")),
            TARGET,
            "drafts.eagle3",
            "draft 'eagle3': a; draft 'eagle3': b; draft 'eagle3': c; draft 'eagle3': d and 1 more",
        ),
        (head("eagle3"), replace(TARGET, silent=("no tokenizer",)), "target", "target: no tok"),
    ],
)
def test_what_was_not_seen_is_said_once(
    draft: Checkpoint | None, target: Checkpoint | None, path: str, words: str
) -> None:
    found = only(problems("eagle3", draft, target))
    assert (found.code, found.severity) == ("unchecked", "warning")
    assert path_text(found.path) == f"models.small.{path}"
    assert words in found.message
    assert "kind, width, target layers and length" in found.message


def test_files_that_say_nothing_accuse_nobody() -> None:
    blank = Checkpoint("/m/x", "huggingface", silent=("config.json: not JSON",))
    for method in ("draft_model", "eagle", "eagle3", "medusa", "mtp", "dflash", "dspark"):
        assert only(problems(method, blank, blank)).code == "unchecked"
