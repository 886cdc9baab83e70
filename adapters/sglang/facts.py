"""What SGLang asks of weights beyond what every engine does; silent where files tell nothing."""

from collections.abc import Iterator
from typing import Final

from adapters.fit.pair import Pair, pair_of
from adapters.launch import WorkerSpec
from adapters.problem import Problem
from adapters.profile import DraftModel, Eagle3, Mtp, Profile
from adapters.schedule import SCHEDULE
from adapters.sglang.given import METHOD, Given
from adapters.sglang.schedule import Plan

# Drafts of Gemma 4 run as FROZEN_KV_MTP, whatever NEXTN or EAGLE says (0.5.14 on).
_ASSISTANTS: Final = ("Gemma4AssistantForCausalLM", "Gemma4UnifiedAssistantForCausalLM")


def fact_problems(
    profile: Profile, worker: WorkerSpec, given: Given, plan: Plan
) -> Iterator[Problem]:
    pair = pair_of(profile, worker)
    if pair is None or pair.draft is None:
        return
    yield from _sizes(pair, given)
    if pair.draft.architecture not in _ASSISTANTS:
        return
    if isinstance(pair.spec, Eagle3):
        message = f"draft {pair.name!r} is Gemma 4's assistant, which SGLang runs as MTP only"
        yield Problem(METHOD, message, "write method: mtp", code="head-kind")
    elif isinstance(pair.spec, Mtp) and plan.form == "slots":
        message = "SGLang cannot change gamma with Gemma 4's assistant: it would stay the largest"
        hint = "leave the schedule out"
        yield Problem(SCHEDULE, message, hint, "lost", "schedule-method")


def context_problems(worker: WorkerSpec, given: Given) -> Iterator[Problem]:
    """configs/model_config.py; another config may stretch the positions."""
    model, facts = worker.model, worker.model.facts
    stretched = given.has("json-model-override-args")
    allowed = "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN" in given.environment
    if facts is None or facts.context is None or model.context is None or stretched or allowed:
        return
    if model.context > facts.context:
        message = f"{model.context} tokens are more than the model was made for: {facts.context}"
        hint = f"write at most {facts.context}: SGLang does not start with more"
        yield Problem(("models", model.name, "context"), message, hint, code="context-length")


def _sizes(pair: Pair, given: Given) -> Iterator[Problem]:
    """The same tokens are not enough for STANDALONE: it compares the widths of the embeddings too,
    padding included (standalone_worker_v2.py, from 0.5.15 on; sgl-project/sglang #24051)."""
    draft, target = pair.draft, pair.target
    is_asked = isinstance(pair.spec, DraftModel) and given.since(0, 5, 15)
    if not is_asked or draft is None or target is None:
        return
    sizes = (draft.vocabulary_size, target.vocabulary_size)
    # without the tokens adapters/fit/pairing.py compares the sizes itself
    is_known = draft.vocabulary and target.vocabulary and None not in sizes
    if is_known and sizes[0] != sizes[1]:
        message = (
            f"the embedding of draft {pair.name!r} has {sizes[0]} rows and the target's "
            f"{sizes[1]}: SGLang does not start"
        )
        hint = "use a draft with an embedding of the same size"
        yield Problem(pair.draft_path, message, hint, code="vocabulary-size")
