"""Whether a draft and a target belong together, by what their files say; the same for every engine.

What one engine asks beyond it (equal sizes, multiples of a length, special tokens) stands in its
own rules. Silent about facts that are not there, but for one warning that says what was not seen.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from adapters.fit.head_rules import head_problems
from adapters.fit.pair import Pair, pair_of
from adapters.fit.vocabulary import vocabulary_problems
from adapters.launch import Model, WorkerSpec
from adapters.problem import Path, Problem, Severity
from adapters.profile import DraftModel, Dspark, Mtp, Profile

_KINDS: Final[Mapping[str, str]] = {
    "eagle": "an EAGLE head",
    "eagle3": "an EAGLE-3 head",
    "medusa": "a set of Medusa heads",
    "mlp_speculator": "an MLP speculator",
    "mtp": "an MTP head",
    "dflash": "a DFlash drafter",
    "dspark": "a DSpark drafter",
}
_ORDINARY = "an ordinary model"
# Positions behind a drafter's own length: vLLM's V2 runner reads past its tables (vllm-project/vllm
# #57941), V1 goes on without real guesses (0.32.0 on CPU, a draft with 512 positions instead of its
# 2048: 0.19 of the guesses accepted over 900 tokens instead of 0.82). Heads of EAGLE were trained
# on short texts and are served with longer ones; 0.32.0 makes their tables longer (#48894).
_STRETCHED = frozenset({"eagle", "eagle3", "mtp"})
# These read no positions of their own.
_WITHOUT_POSITIONS = frozenset({"medusa", "mlp_speculator"})
_MOST_GAPS = 4


def pairing_problems(profile: Profile, worker: WorkerSpec) -> list[Problem]:
    """Paths lead to the fleet where weights are at fault, to the profile where a key of it is."""
    problems = list(_target_kind(worker.model))
    pair = pair_of(profile, worker)
    if pair is None or problems:
        return problems
    wrong_kind = list(_bundled(pair) if pair.name is None else _kind(pair))
    if any(problem.is_fatal for problem in wrong_kind):
        return wrong_kind  # all other figures would be those of something else
    return [
        *wrong_kind,
        *vocabulary_problems(pair),
        *_context(pair),
        *head_problems(pair),
        *_unchecked(pair),
    ]


def _target_kind(model: Model) -> Iterator[Problem]:
    if model.facts and model.facts.head:
        message = f"the target is {_KINDS[model.facts.head.kind]}, which writes no text by itself"
        hint = "name the model it was trained for; the head goes under drafts"
        yield Problem(("models", model.name, "target"), message, hint, code="head-kind")


def _bundled(pair: Pair) -> Iterator[Problem]:
    """The drafter should be in the target's own checkpoint.

    vLLM 0.32.0 raises NotImplementedError for MTP without such layers, llama.cpp fails to make a
    context for it.
    """
    target = pair.target
    if target is None or target.architecture is None:
        return
    path: Path = ("speculation", "method")
    own = f"write models.{pair.model.name}.drafts.{pair.method} and speculation.draft"
    if isinstance(pair.spec, Mtp) and not target.mtp_layers:
        message = f"the target of model {pair.model.name!r} has no MTP layers"
        hint = f"use another method, or a separate MTP head: {own}"
        yield Problem(path, message, hint, code="no-mtp-layers")
    if isinstance(pair.spec, Dspark) and not target.block and not target.mtp_layers:
        message = f"the target of model {pair.model.name!r} holds no DSpark drafter"
        yield Problem(path, message, f"{own}: {pair.method}", code="head-kind")


def _kind(pair: Pair) -> Iterator[Problem]:
    """EAGLE, EAGLE-3, Medusa and plain models look alike to a loader until it fails or worse.

    SGLang runs an EAGLE-3 head as EAGLE with an acceptance length of 1.0 (sgl-project/sglang
    #21272); vLLM 0.32.0 takes a plain model for EAGLE-3 and dies while loading.
    """
    draft = pair.draft
    if draft is None:
        return
    expected = None if isinstance(pair.spec, DraftModel) else pair.method
    found = draft.head.kind if draft.head else None
    if found == expected:
        return
    if found is None and (draft.weight_bytes is None or draft.architecture is None):
        return  # a head may say that it is a LlamaForCausalLM: without its tensors nobody knows
    wanted = _KINDS[expected] if expected else _ORDINARY
    is_close = {found, expected} == {"dflash", "dspark"}  # one loader takes both
    severity: Severity = "warning" if is_close else "error"
    message = f"draft {pair.name!r} is {_KINDS[found] if found else _ORDINARY}, not {wanted}"
    own = f"{wanted} trained for this target" if expected else wanted
    hint = f"write method: {found or 'draft_model'}, or name {own}"
    yield Problem(pair.draft_path, message, hint, severity, "head-kind")


def _context(pair: Pair) -> Iterator[Problem]:
    draft, served = pair.draft, pair.context
    if draft is None or draft.context is None or served is None or draft.context >= served:
        return
    if pair.method in _WITHOUT_POSITIONS:
        return
    message = (
        f"draft {pair.name!r} was made for {draft.context} tokens, and model {pair.model.name!r} "
        f"is served with {served}"
    )
    hint = (
        f"write models.{pair.model.name}.context: {draft.context}, or route longer prompts to plain"
    )
    severity: Severity = "error"
    if pair.method in _STRETCHED:
        severity, hint = "warning", f"measure its acceptance on long prompts; or {hint}"
    yield Problem(pair.draft_path, message, hint, severity, "draft-context")


_CHECKS: Final[Mapping[str, str]] = {
    "draft_model": "vocabulary and context",
    "medusa": "kind, width and number of heads",
    "mlp_speculator": "kind, width and length",
    "mtp": "MTP layers",
}


def _unchecked(pair: Pair) -> Iterator[Problem]:
    """One warning, however much is missing: the engine will find out, or nobody will."""
    gaps = list(_gaps(pair))
    if not gaps:
        return
    what = _CHECKS.get(pair.method, "kind, width, target layers and length")
    more = f" and {len(gaps) - _MOST_GAPS} more" if len(gaps) > _MOST_GAPS else ""
    message = f"{what} could not all be checked: {'; '.join(gaps[:_MOST_GAPS])}{more}"
    is_draft = pair.name is not None and (pair.draft is None or pair.draft.silent)
    path = pair.draft_path if is_draft else pair.target_path
    hint = "run the gate before you trust the pair; facts are read from local files only"
    yield Problem(path, message, hint, "warning", "unchecked")


def _gaps(pair: Pair) -> Iterator[str]:
    sides = [("target", pair.model.target, pair.target)]
    if pair.name is not None:
        sides.insert(0, (f"draft {pair.name!r}", pair.model.drafts[pair.name], pair.draft))
    for side, source, facts in sides:
        if facts is None:
            yield f"{side} {source} is not a local file or folder"
        else:
            yield from (f"{side}: {sentence}" for sentence in facts.silent)
