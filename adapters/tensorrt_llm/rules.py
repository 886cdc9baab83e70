"""What a profile's own keys cannot be on one version of TensorRT-LLM."""

from collections.abc import Callable, Mapping
from typing import Final

from adapters.problem import Path, Problem, Severity
from adapters.profile import (
    Drafted,
    DraftModel,
    Eagle,
    Eagle3,
    Mtp,
    Ngram,
    Profile,
    Suffix,
    Tree,
    WithDraft,
)
from adapters.tensorrt_llm.decoder import SUPPORTED, TITLE, dialect_of
from adapters.tensorrt_llm.schedule import schedule_problems
from adapters.tensorrt_llm.settings import POOL_MATCH, POOL_SLOTS, Case, has_shared_pool

_LATER: Final = "it came with 1.3"
# Docs of the features: no dynamic tree on MLA. The architectures that have it.
_LATENT: Final = ("DeepseekV2", "DeepseekV3", "DeepseekV32", "KimiK2", "GlmMoeDsa")
_NO_METHOD: Final[Mapping[str, Mapping[str, tuple[str, str]]]] = {
    "1.2": {
        "suffix": ("no suffix decoding", f"{_LATER}; nearest here: ngram"),
        "dflash": ("no DFlash", f"{_LATER}; nearest here: eagle3"),
        "dspark": ("no DSpark", f"{_LATER}; nearest here: eagle3"),
    },
    "1.3": {
        "eagle": (
            "no EAGLE or EAGLE-2: it loads the head as an EAGLE-3 head, which it is not",
            "use an EAGLE-3 head with method eagle3, or version 1.2",
        ),
        "medusa": ("no Medusa: PR #15918 took its backend out", "use eagle3, or version 1.2"),
        "lookahead": ("no lookahead: PR #15918 took its backend out", "use ngram or suffix"),
    },
}
_NOWHERE: Final[Mapping[str, tuple[str, str]]] = {
    "custom": ("no proposers of one's own from a file: it takes a Python object", "use ngram"),
    "mlp_speculator": ("no MLP speculator", "use eagle3"),
}


def no_method_problems(profile: Profile, version: str) -> list[Problem]:
    method, dialect = profile.speculation.method, dialect_of(version)
    what, hint = (_NO_METHOD[dialect] | _NOWHERE)[method]  # type: ignore[operator]
    message = f"TensorRT-LLM {version} has {what}"
    return [Problem(("speculation", "method"), message, hint, code="no-method")]


def too_old_problems(version: str) -> list[Problem]:
    """Of every method: draftgate says it in a file for an option that the program has not."""
    oldest = ".".join(map(str, SUPPORTED[0].since))
    message = f"{TITLE} {version} is too old: trtllm-serve takes --config from {oldest} on"
    return [Problem(_at("method"), message, f"use {oldest} or newer", code="version-too-old")]


def method_problems(case: Case) -> list[Problem]:
    problems = schedule_problems(case.spec, case.decoder)
    for kind, judge in _JUDGES.items():
        if isinstance(case.spec, kind):
            problems += judge(case)
    return problems


def _at(key: str) -> Path:
    return ("speculation", *key.split("."))


def _lost(key: str, message: str, hint: str, code: str) -> Problem:
    return Problem(_at(key), message, hint, severity="lost", code=code)


def _weight(spec: Drafted, key: str) -> Severity:
    """A key that the profile does not mention is nobody's demand: its loss is only told."""
    return "lost" if key in spec.model_fields_set else "warning"


def _ngram(case: Case) -> list[Problem]:
    spec: Ngram = case.spec
    problems = []
    if spec.lookup.min > 1:
        message = (
            f"TensorRT-LLM has no shortest match: below {spec.lookup.min} it goes on to shorter "
            "ones, down to a single token"
        )
        hint = "write min: 1 where only TensorRT-LLM uses this profile"
        path = _at("lookup.min")
        problems.append(Problem(path, message, hint, severity="warning", code="lookup-length"))
    if spec.device == "gpu":
        message = "NGram of TensorRT-LLM looks for matches on the host"
        hint = (
            "use method suffix: its automaton is on the GPU"
            if case.dialect != "1.2"
            else ("write device: cpu")
        )
        problems.append(_lost("device", message, hint, "ngram-device"))
    return problems


def _suffix(case: Case) -> list[Problem]:
    spec: Suffix = case.spec
    shared = has_shared_pool(case)
    most = f", of at most {POOL_MATCH} tokens with a shared pool" if shared else ""
    lost = [
        ("max_depth", f"SA of TensorRT-LLM takes the longest match{most}: depth has no setting"),
        (
            "max_factor",
            "SA of TensorRT-LLM always guesses gamma tokens, whatever the match's length",
        ),
    ]
    if spec.min_probability:
        lost.append(("min_probability", "SA of TensorRT-LLM has no probability of its guesses"))
    hint = "leave the key out where the engine may choose"
    problems = [
        Problem(
            _at(key),
            message,
            hint,
            severity=_weight(spec, key),
            code="suffix-setting",
        )
        for key, message in lost
    ]
    if shared:
        return problems + _pool_problems(case)
    return problems + (_no_pool_problems(case) if spec.cached_requests else [])


def _no_pool_problems(case: Case) -> list[Problem]:
    message = (
        f"a shared pool has at most {POOL_SLOTS} slots, fewer than max_batch_size, "
        f"{case.given.batch_size}: guesses come from the request's own tokens only"
    )
    hint = f"write max_batch_size: {POOL_SLOTS} or less"
    path = _at("cached_requests")
    return [Problem(path, message, hint, severity="warning", code="pool-size")]


def _pool_problems(case: Case) -> list[Problem]:
    """global_pool_size >= max_batch_size, and at most 1024 slots (SADecodingConfig)."""
    spec: Suffix = case.spec
    batch = case.given.batch_size
    if batch > min(spec.cached_requests, POOL_SLOTS):
        message = (
            f"the shared pool has a slot for each request that is kept, at most {POOL_SLOTS}, and "
            f"may not be smaller than max_batch_size, {batch}"
        )
        hint = "write cached_requests: 0 (this request only), or a smaller max_batch_size"
        return [Problem(_at("cached_requests"), message, hint, code="pool-size")]
    if spec.cached_requests <= POOL_SLOTS:
        return []
    message = f"TensorRT-LLM keeps at most {POOL_SLOTS} requests, not {spec.cached_requests}"
    hint = f"write cached_requests: {POOL_SLOTS}"
    severity = _weight(spec, "cached_requests")
    return [Problem(_at("cached_requests"), message, hint, severity=severity, code="pool-size")]


def _with_draft(case: Case) -> list[Problem]:
    spec: WithDraft = case.spec
    problems = []
    ranks = case.given.whole("tensor_parallel_size", 1)
    if spec.tensor_parallel not in (None, ranks):
        message = (
            f"TensorRT-LLM has no tensor parallel size for drafts: it takes the target's, {ranks}"
        )
        problems.append(_lost("tensor_parallel", message, "leave it out", "draft-tp"))
    if spec.kv_cache_dtype not in (None, "auto"):
        message = "TensorRT-LLM has no cache type for drafts: it takes the target's"
        hint = "leave it out; kv_cache_config.dtype is for both"
        problems.append(_lost("kv_cache_dtype", message, hint, "draft-cache-type"))
    return problems


def _draft_model(case: Case) -> list[Problem]:
    spec: DraftModel = case.spec
    problems = []
    if spec.parallel and case.dialect == "1.2":
        message = "TensorRT-LLM 1.2 has no parallel drafts (PARD)"
        problems.append(_lost("parallel", message, f"{_LATER}; leave it out", "parallel-draft"))
    if spec.other_vocabulary:
        message = "TensorRT-LLM takes a draft's tokens for the target's: it does not translate them"
        hint = "use a draft of the target's vocabulary"
        problems.append(Problem(_at("other_vocabulary"), message, hint, code="other-vocabulary"))
    return problems


def _eagle3(case: Case) -> list[Problem]:
    spec: Eagle3 = case.spec
    problems = _tree_problems(case, spec.tree)
    if spec.parallel:
        message = "TensorRT-LLM runs EAGLE-3 heads one guess after the other"
        hint = "use a head trained for that"
        problems.append(_lost("parallel", message, hint, "parallel-draft"))
    return problems


def _tree_problems(case: Case, tree: Tree | None) -> list[Problem]:
    if tree is None:
        return []
    gamma, problems = case.spec.gamma, []
    architecture = getattr(case.worker.model.facts, "architecture", None) or ""
    if architecture.startswith(_LATENT):
        message = f"TensorRT-LLM has no trees for latent attention, which {architecture} has"
        hint = "leave the tree out: a chain of guesses"
        problems.append(Problem(_at("tree"), message, hint, code="tree-attention"))
    if case.dialect == "1.2" and tree.tokens != gamma:
        message = (
            f"TensorRT-LLM 1.2 overwrites a tree's size with its depth: {gamma} tokens, "
            f"not {tree.tokens}"
        )
        problems.append(_lost("tree.tokens", message, f"write tokens: {gamma}", "tree-size"))
    elif not gamma <= tree.tokens <= tree.branches * gamma:
        message = (
            f"{tree.tokens} tokens are not between gamma, {gamma}, and branches x gamma, "
            f"{tree.branches * gamma}"
        )
        hint = f"write {min(max(tree.tokens, gamma), tree.branches * gamma)}"
        problems.append(Problem(_at("tree.tokens"), message, hint, code="tree-size"))
    return problems


def _eagle(case: Case) -> list[Problem]:
    """Issue #10396: the TensorRT backend has the EAGLE-1 architecture for LLaMA only."""
    facts = case.worker.model.facts
    problems = _tree_problems(case, case.spec.tree)
    if facts and facts.architecture and not facts.architecture.startswith("Llama"):
        message = f"TensorRT-LLM has EAGLE for LLaMA only, and the target is {facts.architecture}"
        hint = "use an EAGLE-3 head with method eagle3"
        problems.append(Problem(_at("method"), message, hint, code="target-architecture"))
    return problems


def _mtp(case: Case) -> list[Problem]:
    spec: Mtp = case.spec
    facts, gamma = case.worker.model.facts, case.plan.gamma
    if spec.draft and case.dialect == "1.2":
        message = "TensorRT-LLM 1.2 takes MTP layers from the target's own checkpoint only"
        return [_lost("draft", message, "leave draft out, or use 1.3", "mtp-draft")]
    if facts is None or spec.draft:
        return []
    if 0 < facts.mtp_layers < gamma and _is_vanilla(case, facts.mtp_layers):
        message = f"the target has {facts.mtp_layers} MTP layers: longer guesses are cut to that"
        return [_lost("gamma", message, f"write gamma: {facts.mtp_layers}", "mtp-layers")]
    return []


def _is_vanilla(case: Case, layers: int) -> bool:
    """Several layers run one after the other; a single one is run again, as in EAGLE."""
    return layers > 1 or case.given.extra.get("use_mtp_vanilla") is True


_JUDGES: Final[Mapping[type, Callable[[Case], list[Problem]]]] = {
    Ngram: _ngram,
    Suffix: _suffix,
    WithDraft: _with_draft,
    DraftModel: _draft_model,
    Eagle3: _eagle3,
    Eagle: _eagle,
    Mtp: _mtp,
}
