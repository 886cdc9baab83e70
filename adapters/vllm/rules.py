"""What vLLM refuses, ignores or does otherwise of a profile's own keys, and of the weights.

Sources: vllm/config/speculative.py and vllm/config/vllm.py of 0.31.0, 0.32.0 and 0.33.0.
"""

from collections.abc import Iterator

from adapters.checkpoint import Checkpoint
from adapters.launch import WorkerSpec
from adapters.option import whole
from adapters.problem import Path, Problem
from adapters.profile import (
    Eagle,
    Eagle3,
    Lookahead,
    Medusa,
    MlpSpeculator,
    Mtp,
    Ngram,
    WithDraft,
)
from adapters.vllm.asked import EXTRA, METHOD, Asked

# Only the first of this family's MTP layers is used: any gamma is a multiple of it.
_ONE_MTP_LAYER = "MiMoV2"


def method_problems(asked: Asked) -> Iterator[Problem]:
    """A method that this version does not have, or keys of a method that it cannot honour."""
    spec = asked.profile.speculation
    if isinstance(spec, Lookahead):
        message = "vLLM has no lookahead decoding"
        hint = "use ngram or suffix, which need no draft either"
        yield Problem(METHOD, message, hint, code="no-method")
    if isinstance(spec, MlpSpeculator):
        yield _no_mlp_speculator(asked)
    if isinstance(spec, Medusa) and asked.dialect == "0.33":
        message = "vLLM 0.33 has no medusa: it was removed after 0.32"
        hint = "use eagle3 or mtp, or stay on 0.32"
        yield Problem(METHOD, message, hint, code="no-method")
    if isinstance(spec, Eagle | Eagle3) and spec.tree:
        message = "vLLM verifies a chain of guesses, never a tree"
        path: Path = ("speculation", "tree")
        yield Problem(path, message, "leave the tree out", severity="lost", code="no-tree")
    if isinstance(spec, Ngram) and spec.pool == "shared":
        message = "vLLM looks for n-grams in each request's own tokens only"
        hint = "use method suffix, whose tree holds earlier answers too, or write pool: request"
        yield Problem(("speculation", "pool"), message, hint, severity="lost", code="ngram-pool")


def _no_mlp_speculator(asked: Asked) -> Problem:
    """The schema of 0.31 and 0.32 takes the word; the model registry has it commented out."""
    message = "vLLM 0.33 has no mlp_speculator: it was removed after 0.32"
    if asked.dialect != "0.33":
        message = f"vLLM {asked.dialect} takes the word, but has no model class to load it with"
    return Problem(METHOD, message, "use eagle3, or a draft_model", code="no-method")


def draft_key_problems(asked: Asked) -> Iterator[Problem]:
    """Parallel size of a draft."""
    spec = asked.profile.speculation
    if isinstance(spec, WithDraft) and spec.tensor_parallel:
        yield from _draft_ranks(asked, spec.tensor_parallel)


def _draft_ranks(asked: Asked, wanted: int) -> Iterator[Problem]:
    """1 or the target's (_verify_and_get_draft_tp); the V1 draft model only the target's."""
    ranks = whole(asked.options, "tensor-parallel-size", 1)
    allowed = {ranks} if asked.method == "draft_model" else {1, ranks}
    if wanted not in allowed:
        message = f"{wanted} does not go with the target's tensor-parallel-size {ranks}"
        hint = f"write {' or '.join(str(n) for n in sorted(allowed))}"
        yield Problem(("speculation", "tensor_parallel"), message, hint, code="draft-tp")


def runner_problems(asked: Asked) -> Iterator[Problem]:
    """vLLM has two model runners, and neither can do everything."""
    spec, wants_v2 = asked.profile.speculation, _wants_v2(asked)
    if isinstance(spec, Ngram) and spec.device == "gpu" and asked.is_on_cpu:
        message = "vLLM's CPU build has no GPU to look n-grams up on: it fails while starting"
        yield Problem(("speculation", "device"), message, "write device: cpu", code="no-gpu")
    if asked.runner_asked == "V2" and asked.needs_v1:
        message = f"VLLM_USE_V2_MODEL_RUNNER=1, but the V2 runner has no {_in_words(asked)}"
        hint = "remove the variable: vLLM falls back to V1 by itself"
        yield Problem(METHOD, message, hint, code="model-runner")
    if asked.runner_asked == "V2" and asked.is_on_cpu:
        message = "VLLM_USE_V2_MODEL_RUNNER=1, but the V2 runner needs Triton, which a CPU has not"
        yield Problem(METHOD, message, "remove the variable", code="model-runner")
    if wants_v2 and asked.is_on_v1:
        path, what = wants_v2
        because = "VLLM_USE_V2_MODEL_RUNNER=0" if asked.runner_asked == "V1" else "it runs on V1"
        message = f"{what} needs the V2 model runner, but {because}"
        yield Problem(path, message, "run it on a GPU without that variable", code="model-runner")


def _in_words(asked: Asked) -> str:
    if asked.is_parallel:
        return "parallel drafting for this method"
    if asked.translates_vocabulary:
        return "drafts of another vocabulary"
    return f"method {asked.method}"


def _wants_v2(asked: Asked) -> tuple[Path, str] | None:
    """What only the V2 runner has (_get_v1_model_runner_unsupported_features)."""
    if asked.method == "dspark":
        return METHOD, "dspark"
    if asked.extra.get("enable_adaptive_verification") is True:
        return (*EXTRA, "enable_adaptive_verification"), "adaptive verification"
    if asked.extra.get("draft_lm_head_quantization"):
        return (*EXTRA, "draft_lm_head_quantization"), "a quantized draft head"
    return None


def weight_problems(asked: Asked) -> Iterator[Problem]:
    """What only vLLM makes of the files of target and draft; silent where they were not read."""
    name, model = asked.profile.draft_name, asked.worker.model
    draft = model.draft_facts.get(name) if name else None
    if model.facts is not None:
        yield from _target_problems(asked, model.facts)
    if draft is not None:
        yield from _draft_problems(asked, draft)


def _target_problems(asked: Asked, facts: Checkpoint) -> Iterator[Problem]:
    spec = asked.profile.speculation
    yield from _context_problems(asked.worker, facts)
    if isinstance(spec, Mtp) and spec.draft is None:
        yield from _mtp_problems(spec.gamma, facts)
    is_text_only = asked.is_parallel or asked.method == "draft_model"
    if facts.is_multimodal and is_text_only:
        message = "the target takes images, and vLLM drafts from its text alone here"
        hint = "expect fewer accepted guesses on such requests, or use a method without a draft"
        yield Problem(METHOD, message, hint, severity="warning", code="multimodal")


def _context_problems(worker: WorkerSpec, facts: Checkpoint) -> Iterator[Problem]:
    """config/model.py: a longer one is refused; other options may stretch what the model has."""
    served, made_for = worker.model.context, facts.context
    is_allowed = worker.env.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "0") != "0"
    is_stretched = any("overrides" in name for name in worker.args)
    if served is None or made_for is None or served <= made_for or is_allowed or is_stretched:
        return
    message = f"{served} tokens are more than the model was made for: {made_for}"
    hint = f"write at most {made_for}: vLLM does not start with more"
    yield Problem(("models", worker.model.name, "context"), message, hint, code="context-length")


def _mtp_problems(gamma: int, facts: Checkpoint) -> Iterator[Problem]:
    """adapters/fit/pairing.py warns of it; vLLM refuses it (`must be divisible by n_predict`)."""
    layers = facts.mtp_layers
    is_in_rounds = not layers or gamma <= layers or gamma % layers == 0
    if is_in_rounds or (facts.architecture or "").startswith(_ONE_MTP_LAYER):
        return
    message = f"{gamma} is neither within the target's {layers} MTP layers nor a multiple"
    hint = f"write {gamma - gamma % layers}, or {gamma - gamma % layers + layers}"
    yield Problem(("speculation", "gamma"), message, hint, code="gamma-multiple")


def _draft_problems(asked: Asked, facts: Checkpoint) -> Iterator[Problem]:
    spec = asked.profile.speculation
    yield from _size_problems(asked, facts)
    heads = facts.head.length if facts.head else None
    if isinstance(spec, Medusa) and heads and heads != spec.gamma:
        # MedusaProposer guesses once with every head, whatever it is asked for.
        message = f"vLLM guesses with all {heads} heads, not {spec.gamma}"
        yield Problem(("speculation", "gamma"), message, f"write {heads}", code="medusa-heads")


def _size_problems(asked: Asked, draft: Checkpoint) -> Iterator[Problem]:
    """verify_equal_vocab_size_if_draft_model: padding of the embeddings counts.

    Without the tokens adapters/fit/pairing.py compares the sizes itself.
    """
    target, model = asked.worker.model.facts, asked.worker.model
    if asked.method != "draft_model" or asked.translates_vocabulary or target is None:
        return
    sizes = (draft.vocabulary_size, target.vocabulary_size)
    is_known = draft.vocabulary and target.vocabulary and None not in sizes
    if is_known and sizes[0] != sizes[1]:
        name = asked.profile.draft_name or ""
        message = (
            f"the embedding of draft {name!r} has {sizes[0]} rows and the target's {sizes[1]}: "
            "vLLM does not start"
        )
        hint = "use a draft with an embedding of the same size, or write other_vocabulary: true"
        path: Path = ("models", model.name, "drafts", name)
        yield Problem(path, message, hint, code="vocabulary-size")
