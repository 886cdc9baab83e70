"""What llama-server makes of a target and a draft, as far as their files are known.

Where llama.cpp would go on without speculation in silence, it is an error here: /health is ok and
every request is slower for nothing. Source: common/speculative.cpp, b11434 and b11549.
"""

from collections.abc import Iterator
from typing import Final

from adapters.checkpoint import Checkpoint, Vocabulary
from adapters.fit.pair import Pair, pair_of
from adapters.launch import Model, WorkerSpec
from adapters.llama_cpp.version import TITLE
from adapters.problem import Path, Problem
from adapters.profile import Dflash, DraftModel, Dspark, Eagle3, Mtp, Profile
from adapters.schedule import fixed_gamma

_METHOD: Path = ("speculation", "method")
_GAMMA: Path = ("speculation", "gamma")
# Architectures without a memory of tokens, from which a rejected guess could be taken back
# (llama_model::create_memory, b11549): encoders, and models that denoise a whole text.
_NO_MEMORY: Final = frozenset(
    {
        *("bert", "jina-bert-v2", "jina-bert-v3", "nomic-bert", "nomic-bert-moe", "neo-bert"),
        *("eurobert", "modern-bert", "gemma-embedding", "gemma-embedding2", "wavtokenizer-dec"),
        *("dream", "llada", "llada-moe", "rnd1", "clef"),
    }
)
_MOST_DIFFERENCE = 128  # SPEC_VOCAB_MAX_SIZE_DIFFERENCE
_EAGLE3_LAYERS = 3


def weight_problems(profile: Profile, worker: WorkerSpec) -> list[Problem]:
    """Silent about what is not known: a hub id has no facts."""
    problems = [*_form_problems(profile, worker), *_context_problems(worker.model)]
    if any(p.code == "not-gguf" for p in problems) or not profile.is_speculating:
        return problems
    target, pair = worker.model.facts, pair_of(profile, worker)
    if target is not None and target.architecture in _NO_MEMORY:
        message = (
            f"{TITLE} cannot take guesses back from a model of architecture "
            f"{target.architecture}, and serves it without speculation"
        )
        problems.append(Problem(_METHOD, message, "use method none", code="no-rollback"))
    if pair is not None:
        problems += [*_vocabulary_problems(pair), *_layer_problems(pair), *_length_problems(pair)]
    return problems


def _form_problems(profile: Profile, worker: WorkerSpec) -> Iterator[Problem]:
    """Folders of safetensors do not load; the paths are the fleet's."""
    model, name = worker.model, profile.draft_name
    root: Path = ("models", model.name)
    if _is_folder(model.facts):
        yield _form_problem((*root, "target"), model.target)
    if name and _is_folder(model.draft_facts.get(name)):
        yield _form_problem((*root, "drafts", name), model.drafts[name])


def _context_problems(model: Model) -> Iterator[Problem]:
    """Every slot is capped at the context in the file, rope scaling or not (server_context)."""
    made_for = model.facts.context if model.facts else None
    if model.context and made_for and model.context > made_for:
        message = f"{TITLE} serves {made_for} tokens, for which the model was made: the rest is cut"
        hint = f"write at most {made_for}"
        path: Path = ("models", model.name, "context")
        yield Problem(path, message, hint, severity="lost", code="context-length")


def _is_folder(facts: Checkpoint | None) -> bool:
    return facts is not None and facts.form != "gguf"


def _form_problem(path: Path, source: str) -> Problem:
    message = f"{TITLE} loads GGUF files only, and {source} is none"
    hint = "convert it (convert_hf_to_gguf.py; an EAGLE-3 head with --target-model-dir)"
    return Problem(path, message, hint, code="not-gguf")


def _vocabulary_problems(pair: Pair) -> Iterator[Problem]:
    """common_speculative_are_compatible: for method draft_model alone.

    It compares the tokens themselves as well, from id 5 on: adapters/fit/vocabulary.py has all.
    """
    target, draft = (side.vocabulary if side else None for side in (pair.target, pair.draft))
    if not isinstance(pair.spec, DraftModel) or target is None or draft is None:
        return
    code, difference = "vocabulary-mismatch", _special_difference(target, draft)
    if target.model and draft.model and target.model != draft.model:
        difference = f"the target's tokenizer is {target.model}, the draft's {draft.model}"
    sizes = len(target.tokens), len(draft.tokens)
    if not difference and abs(sizes[0] - sizes[1]) > _MOST_DIFFERENCE:
        code, difference = (
            "vocabulary-size",
            (
                f"the target has {sizes[0]} tokens and the draft {sizes[1]}, more than "
                f"{_MOST_DIFFERENCE} apart"
            ),
        )
    if difference:
        message = f"{TITLE} would serve without speculation: {difference}"
        yield Problem(pair.draft_path, message, "use a draft of the target's family", code=code)


def _special_difference(target: Vocabulary, draft: Vocabulary) -> str | None:
    """Which tokens are added to a prompt, and by which numbers."""
    for name, adds, other_adds, own, other in (
        ("bos", target.adds_bos, draft.adds_bos, target.bos, draft.bos),
        ("eos", target.adds_eos, draft.adds_eos, target.eos, draft.eos),
    ):
        if adds is None or other_adds is None:
            continue
        if adds != other_adds:
            adding = "the target" if adds else "the draft"
            return f"only {adding} adds {name} to a prompt"
        if adds and own != other:
            return f"{name} is token {own} in the target and {other} in the draft"
    return None


def _layer_problems(pair: Pair) -> Iterator[Problem]:
    head = pair.draft.head if pair.draft else None
    if not isinstance(pair.spec, Eagle3) or head is None or head.layers is None:
        return
    if len(head.layers) != _EAGLE3_LAYERS:
        message = (
            f"{TITLE} would serve without speculation: it wants a head of {_EAGLE3_LAYERS} target "
            f"layers, and this one reads {len(head.layers)}"
        )
        hint = f"use a head trained on {_EAGLE3_LAYERS} layers"
        yield Problem(pair.draft_path, message, hint, code="head-layers")


def _length_problems(pair: Pair) -> Iterator[Problem]:
    """A drafter is asked for what it was trained to guess at most; a log line says so, if any."""
    gamma, most = fixed_gamma(pair.spec), _most_guesses(pair)
    if most is None or gamma <= most:
        return
    reason = "one by each MTP layer" if isinstance(pair.spec, Mtp) else "the block it was made for"
    message = f"{TITLE} guesses at most {most} tokens, {reason}, and cuts gamma {gamma}"
    yield Problem(_GAMMA, message, f"write gamma: {most}", severity="lost", code="gamma-trained")


def _most_guesses(pair: Pair) -> int | None:
    """A DFlash block begins with the token before; DSpark may guess from it. One MTP layer is run
    again and again, several are run in turn."""
    head = pair.draft.head if pair.draft else None
    if isinstance(pair.spec, Dflash | Dspark) and head and head.length:
        return head.length - (1 if isinstance(pair.spec, Dflash) else 0)
    holder = pair.draft if pair.name else pair.target
    if isinstance(pair.spec, Mtp) and holder and holder.mtp_layers > 1:
        return holder.mtp_layers
    return None
