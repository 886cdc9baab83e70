"""A profile's speculation in TensorRT-LLM's words, key by key."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import JsonValue

from adapters.draft import draft_of
from adapters.launch import WorkerSpec
from adapters.problem import Path
from adapters.profile import (
    Drafted,
    DraftModel,
    Eagle,
    Eagle3,
    Lookahead,
    Medusa,
    Ngram,
    Profile,
    Suffix,
    Tree,
    WithDraft,
)
from adapters.schedule import SCHEDULE
from adapters.setting import Setting
from adapters.tensorrt_llm.decoder import Decoder, decoder_of, dialect_of
from adapters.tensorrt_llm.given import SPECULATIVE, Given, given
from adapters.tensorrt_llm.schedule import Plan, how, plan

POOL_SLOTS: Final = 1024  # SADecodingConfig.enable_global_pool: at most so many
POOL_MATCH: Final = 64  # tokens of a match, with the global pool


@dataclass(frozen=True)
class Case:
    """One profile on one worker, with what follows from both."""

    profile: Profile
    worker: WorkerSpec
    spec: Any
    decoder: Decoder
    given: Given
    plan: Plan

    @property
    def dialect(self) -> str:
        return dialect_of(self.worker.engine_version)


def case_of(profile: Profile, worker: WorkerSpec) -> Case | None:
    """None for a plain profile, and for a method that this version has not."""
    decoder, spec = decoder_of(profile, worker.engine_version), profile.speculation
    if decoder is None or not isinstance(spec, Drafted):
        return None
    options = given(profile, worker)
    made = plan(spec, decoder, options.batch_size)
    return Case(profile, worker, spec, decoder, options, made)


def settings(profile: Profile, worker: WorkerSpec) -> tuple[Setting, ...]:
    case = case_of(profile, worker)
    if case is None:
        return ()
    found = [*_method(case), *_draft(case), *_gamma(case), *_schedule(case)]
    for kind, build in _BUILDERS.items():
        if isinstance(case.spec, kind):
            found += build(case)
    return tuple(found)


def _of(path: str, name: str, value: JsonValue = None, how: str = "", effect: str = "") -> Setting:
    """A setting of the decoding class; without a name the engine does it by itself."""
    keys: Path = ("speculation", *path.split("."))
    return Setting(keys, f"{SPECULATIVE}.{name}" if name else "", value, how, effect)


def _method(case: Case) -> list[Setting]:
    decoder = case.decoder
    found = [_of("method", "decoding_type", decoder.kind)]
    path: Path = ("speculation", "method")
    if decoder.backend == "tensorrt":
        found.append(Setting(path, "backend", "tensorrt", "only this backend has the method"))
    elif not decoder.is_one_engine:
        effect = "compare with a plain worker that has it off too: some of the slowdown is its own"
        reason = "drafts are made between the steps of the target"
        found.append(Setting(path, "disable_overlap_scheduler", True, reason, effect))
    elif case.dialect == "1.2":
        reason = "without it the decoder ignores a request's temperature, top_p and top_k"
        found.append(_of("method", "allow_advanced_sampling", True, reason))
    return found


def _draft(case: Case) -> list[Setting]:
    if not isinstance(case.spec, WithDraft):
        return []
    draft = draft_of(case.profile, case.worker.model)
    found = [_of("draft", "speculative_model", draft)] if draft else []
    if case.spec.tensor_parallel == case.given.whole("tensor_parallel_size", 1):
        found.append(_of("tensor_parallel", "", how="the draft is split as the target is"))
    if case.spec.kv_cache_dtype == "auto":
        found.append(_of("kv_cache_dtype", "", how="the draft's cache is as the target's"))
    return found


def _gamma(case: Case) -> list[Setting]:
    if isinstance(case.spec, Lookahead):
        size = case.spec.gamma + 1
        return [_of("gamma", "max_ngram_size", size, "the token before is counted in")]
    gamma, spec = case.plan.gamma, case.spec
    why = "" if gamma == spec.gamma else "the schedule's first range"
    if case.decoder.kind == "MTP" and case.dialect == "1.2":
        # its validator copies num_nextn_predict_layers over max_draft_len
        return [_of("gamma", "num_nextn_predict_layers", gamma, why, _replayed(case))]
    found = [_of("gamma", "max_draft_len", gamma, why, _replayed(case))]
    if case.decoder.kind == "DSpark":
        found.append(_of("gamma", "block_size", gamma, "it must equal max_draft_len"))
    return found


def _replayed(case: Case) -> str:
    facts = case.worker.model.facts
    is_one = case.decoder.kind == "MTP" and facts is not None and facts.mtp_layers == 1
    return (
        "the model's one MTP layer is run again for each further guess"
        if is_one and (case.plan.gamma > 1)
        else ""
    )


def _schedule(case: Case) -> list[Setting]:
    if not case.spec.schedule:
        return []
    lengths = case.plan.lengths
    if lengths is None:
        return [Setting(SCHEDULE, "", how="one gamma for every batch size that it is given")]
    effect = ""
    if case.dialect != "1.2" and case.given.file.get("cuda_graph_config", {}) is not None:
        effect = "turns on cuda_graph_config.enable_padding and captures a graph at each key"
    value: Any = lengths  # YAML has numbers as keys, and the class wants them so
    name = f"{SPECULATIVE}.draft_len_schedule"
    return [Setting(SCHEDULE, name, value, how(case.decoder), effect)]


def _ngram(case: Case) -> list[Setting]:
    spec: Ngram = case.spec
    found = [
        _of("lookup.max", "max_matching_ngram_size", spec.lookup.max),
        _of("pool", "is_public_pool", spec.pool == "shared", "its own default is a shared pool"),
    ]
    if spec.lookup.min == 1:
        found.append(_of("lookup.min", "", how="it tries every length down to 1"))
    return found + ([_of("device", "")] if spec.device == "cpu" else [])


def has_shared_pool(case: Case) -> bool:
    """A pool has a slot for each request of a batch, at most POOL_SLOTS (SADecodingConfig). Where
    the profile does not ask for one and it would end the start, there is none."""
    spec: Suffix = case.spec
    is_asked = "cached_requests" in spec.model_fields_set
    return spec.cached_requests > 0 and (is_asked or case.given.batch_size <= POOL_SLOTS)


def _suffix(case: Case) -> list[Setting]:
    spec: Suffix = case.spec
    found = [_of("method", "max_matching_ngram_size", -1, "the longest match")]
    shared = has_shared_pool(case)
    reason = "a pool of all requests" if shared else "this request's own tokens"
    found.append(_of("cached_requests", "enable_global_pool", shared, reason))
    if shared:
        slots = min(spec.cached_requests, POOL_SLOTS)
        why = "" if slots == spec.cached_requests else f"the engine keeps at most {POOL_SLOTS}"
        found.append(_of("cached_requests", "global_pool_size", slots, why))
    if spec.min_probability == 0:
        found.append(_of("min_probability", "", how="it has no threshold"))
    return found


def _draft_model(case: Case) -> list[Setting]:
    spec: DraftModel = case.spec
    found = []
    if spec.parallel:
        found.append(_of("parallel", "decoding_type", case.decoder.kind))
    else:
        found.append(_of("parallel", ""))
    return found + ([] if spec.other_vocabulary else [_of("other_vocabulary", "")])


def _eagle3(case: Case) -> list[Setting]:
    found = [] if case.spec.parallel else [_of("parallel", "")]
    return found + _tree(case, case.spec.tree)


def _tree(case: Case, tree: Tree | None) -> list[Setting]:
    if tree is None:
        return []
    found = [
        _of("tree.branches", "use_dynamic_tree", True),
        _of("tree.branches", "dynamic_tree_max_topK", tree.branches),
    ]
    if case.dialect == "1.2":  # overwritten with max_draft_len, see rules.py
        why = "a tree has as many guesses as it is deep: the engine sets it to max_draft_len"
        return [*found, _of("tree.tokens", "", tree.tokens, why)]
    return [*found, _of("tree.tokens", "max_total_draft_tokens", tree.tokens)]


def _chain(gamma: int) -> JsonValue:
    """A tree that is a chain: node i is the likeliest guess after node i-1."""
    return [[0] * length for length in range(1, gamma + 1)]


def _eagle(case: Case) -> list[Setting]:
    if case.spec.tree:
        return _tree(case, case.spec.tree)
    return [
        _of("gamma", "eagle_choices", _chain(case.plan.gamma), "a chain; its default is a tree")
    ]


def _medusa(case: Case) -> list[Setting]:
    gamma = case.plan.gamma
    return [
        _of("gamma", "num_medusa_heads", gamma, "a head for each guess"),
        _of("gamma", "medusa_choices", _chain(gamma), "a chain; its default is a tree"),
    ]


def _lookahead(case: Case) -> list[Setting]:
    spec: Lookahead = case.spec
    return [
        _of("window", "max_window_size", spec.window),
        _of("candidates", "max_verification_set_size", spec.candidates),
    ]


_BUILDERS: Final[Mapping[type, Callable[[Case], list[Setting]]]] = {
    Ngram: _ngram,
    Suffix: _suffix,
    DraftModel: _draft_model,
    Eagle3: _eagle3,
    Eagle: _eagle,
    Medusa: _medusa,
    Lookahead: _lookahead,
}
