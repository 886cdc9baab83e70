"""What a method, its keys and the engine's options do to one another.

Sources are files of sglang/srt: arg_groups/speculative_hook.py where none is named.
"""

from collections.abc import Iterator
from typing import Final

from adapters.problem import Path, Problem
from adapters.profile import (
    Drafted,
    DraftModel,
    Eagle,
    Eagle3,
    Ngram,
    Tree,
    WithDraft,
)
from adapters.sglang.given import METHOD, SUPPORTED, Given, is_since
from adapters.sglang.schedule import Plan
from adapters.sglang.settings import CACHE_OPTION, CACHE_TYPES, trie_depth
from adapters.sglang.words import ALGORITHMS, NEAREST

_CAPACITY: Final = 10_000_000  # of --speculative-ngram-capacity
# What draws a tree over pages: earlier versions lacked triton.
_PAGED: Final = ("flashinfer", "fa3", "triton")


def no_method(method: str, version: str) -> Problem | None:
    """A method that this version does not have, with the nearest that it has."""
    found = ALGORITHMS.get(method)
    if method == "none" or (found and is_since(version, found[1])):
        return None
    if found is None:
        return Problem(METHOD, f"SGLang has no {method}", NEAREST[method], code="no-method")
    if is_since(version, SUPPORTED[0].since):
        message = f"SGLang {version} has no {method}"
        return Problem(METHOD, message, NEAREST[method], code="no-method")
    first = ".".join(map(str, found[1]))
    message = (
        f"SGLang {version} is too old: it has no {method}, or other options and routes for it than "
        f"{first}"
    )
    return Problem(METHOD, message, f"use SGLang {first} or newer", code="version-too-old")


def key_problems(spec: Drafted, given: Given, plan: Plan) -> list[Problem]:
    """Keys of the speculation that SGLang cannot honour."""
    if isinstance(spec, Ngram):
        return [*_ngram_keys(spec, given, plan)]
    problems: list[Problem] = []
    if isinstance(spec, WithDraft):
        problems += _draft_keys(spec, given)
    if isinstance(spec, DraftModel | Eagle3) and spec.parallel:
        message = "SGLang makes guesses one after another: it has no parallel drafting"
        path: Path = ("speculation", "parallel")
        hint = "leave it out, or use method dflash with a block drafter"
        problems.append(Problem(path, message, hint, "lost", "parallel-draft"))
    if isinstance(spec, DraftModel) and spec.other_vocabulary:
        message = "SGLang translates no tokens: draft and target must have the same vocabulary"
        hint = "leave it out and use a draft of the target's family"
        path = ("speculation", "other_vocabulary")
        problems.append(Problem(path, message, hint, code="other-vocabulary"))
    if isinstance(spec, Eagle | Eagle3) and spec.tree:
        problems += _tree_problems(spec.tree, spec.gamma, given)
    return problems


def _ngram_keys(spec: Ngram, given: Given, plan: Plan) -> Iterator[Problem]:
    if spec.pool == "request":
        message = "SGLang has one n-gram trie for all requests: guesses come from other ones too"
        hint = "write pool: shared or leave it out"
        yield Problem(("speculation", "pool"), message, hint, "lost", "ngram-pool")
    if spec.device == "gpu":
        message = "SGLang looks n-grams up on the CPU"
        hint = "leave it out"
        yield Problem(("speculation", "device"), message, hint, "lost", "ngram-device")
    is_asked = "lookup" in spec.model_fields_set and "min" in spec.lookup.model_fields_set
    if is_asked and spec.lookup.min > 1:
        message = f"SGLang has no least match: one token is enough, not {spec.lookup.min}"
        hint = "write min: 1 where only SGLang uses this profile"
        yield Problem(("speculation", "lookup", "min"), message, hint, "warning", "lookup-min")
    depth, capacity = trie_depth(spec, plan.gamma), "speculative-ngram-capacity"
    if given.whole(capacity, _CAPACITY) <= depth:
        message = (
            f"{capacity} must be above the trie's depth, {depth} (lookup.max and gamma): at most "
            "that, the scheduler aborts (sgl-project/sglang #36495)"
        )
        yield Problem(given.path(capacity), message, "leave it out", code="ngram-capacity")


def _draft_keys(spec: WithDraft, given: Given) -> Iterator[Problem]:
    ranks = given.whole("tensor-parallel-size", 1)
    if spec.tensor_parallel not in (None, ranks):
        message = (
            f"SGLang spreads a draft over the target's {ranks} GPUs, not {spec.tensor_parallel}"
        )
        path: Path = ("speculation", "tensor_parallel")
        yield Problem(path, message, f"write {ranks} or leave it out", "lost", "draft-tp")
    asked, path = spec.kv_cache_dtype, ("speculation", "kv_cache_dtype")
    if asked in (None, "auto"):
        return
    if given.table.find(CACHE_OPTION) is None:
        message = f"SGLang {given.version} has no type of its own for a draft's KV cache"
        hint = "leave it out: it is the target's; 0.5.18 can"
        yield Problem(path, message, hint, "lost", "draft-cache-type")
    elif asked not in CACHE_TYPES:
        message = f"SGLang keeps no draft's KV cache as {asked}"
        hint = f"one of: {', '.join(sorted(CACHE_TYPES))}"
        yield Problem(path, message, hint, "lost", "draft-cache-type")


def _tree_problems(tree: Tree, gamma: int, given: Given) -> Iterator[Problem]:
    """SGLang keeps the best `tokens` of branches + (gamma - 1) x branches^2 guesses
    (speculative/eagle_utils.py, organize_draft_results)."""
    root: Path = ("speculation", "tree")
    most = tree.branches + (gamma - 1) * tree.branches**2
    if tree.tokens > most:
        message = (
            f"{tree.tokens} guesses are more than {tree.branches} branches and depth {gamma} make: "
            f"{most}"
        )
        hint = f"write at most {most}"
        yield Problem((*root, "tokens"), message, hint, code="tree-size")
    if tree.tokens < gamma:
        message = f"a tree of {tree.tokens} guesses never gets to depth {gamma}"
        hint = f"write at least {gamma}, or a smaller gamma"
        yield Problem((*root, "tokens"), message, hint, code="tree-size")
    if "trtllm_mha" in given.attention:
        message = "the attention backend trtllm_mha verifies chains only, and SGLang does not start"
        hint = "leave the tree out, or use another attention backend"
        yield Problem(root, message, hint, code="tree-attention")
    backends = _PAGED if given.since(0, 5, 14) else _PAGED[:2]
    if given.whole("page-size", 1) > 1 and given.attention and not given.attention & {*backends}:
        message = (
            f"a tree with page-size {given.whole('page-size', 1)} needs the attention backend "
            f"{' or '.join(backends)}, and SGLang does not start with another"
        )
        yield Problem(root, message, "write page-size: 1", code="tree-attention")


def combination_problems(spec: Drafted, method: str, given: Given, plan: Plan) -> list[Problem]:
    """Options that SGLang refuses, drops or is harmed by with this method."""
    tree = getattr(spec, "tree", None)
    return [
        *_attention_parallel(method, given),
        *_pipeline(method, given),
        *_lora(method, given),
        *_backend(given),
        *_rejection(method, given, is_chain=tree is None),
        *_window(method, given, plan),
        *_corpus(given, plan),
        *_dropped(method, given),
    ]


def _attention_parallel(method: str, given: Given) -> Iterator[Problem]:
    is_alone = method in ("draft_model", "ngram", "dflash")
    if given.is_attention_parallel and is_alone:
        hint = "remove it, or use method eagle, eagle3 or mtp"
        if method == "dflash" and given.since(0, 5, 23):
            if given.is_on("enable-dp-lm-head"):
                return
            hint = "add enable-dp-lm-head"
        message = f"SGLang does not start with method {method} under DP attention"
        name = "attn-dp-size" if given.has("attn-dp-size") else "enable-dp-attention"
        yield Problem(given.path(name), message, hint, code="data-parallel")


def _pipeline(method: str, given: Given) -> Iterator[Problem]:
    """arg_groups/validation_hook.py: stages that only prefill, and of EAGLE by a variable."""
    ranks = given.whole("pipeline-parallel-size", 1)
    is_prefill = given.get("disaggregation-mode") == "prefill"
    is_eagle = method in ("eagle", "mtp") and not given.is_on("enable-multi-layer-eagle")
    is_tried = is_eagle and "SGLANG_ENABLE_PP_SPEC" in given.environment
    goes = (is_prefill and (is_eagle or method == "dspark")) or is_tried
    if ranks > 1 and not (goes and given.since(0, 5, 21)):
        message = f"SGLang does not start with {method} over {ranks} pipeline stages"
        hint = "use tensor-parallel-size instead"
        path = given.path("pipeline-parallel-size")
        yield Problem(path, message, hint, code="pipeline-parallel")


def _lora(method: str, given: Given) -> Iterator[Problem]:
    """arg_groups/lora_hook.py; before 0.5.19 only NGRAM went with adapters (server_args.py)."""
    allowed = {"ngram"}
    if given.since(0, 5, 19):
        allowed |= {"eagle", "eagle3", "mtp", "dflash", "dspark"}
    if given.has_lora and method not in allowed:
        message = f"SGLang {given.version} does not start with LoRA and method {method}"
        hint = f"serve adapters with method {', '.join(sorted(allowed))} or none"
        name = "lora-paths" if given.has("lora-paths") else "enable-lora"
        yield Problem(given.path(name), message, hint, code="lora")


def _backend(given: Given) -> Iterator[Problem]:
    if "flex_attention" in given.attention:
        message = "the attention backend flex_attention cannot verify guesses"
        hint = "use another, or method none"
        yield Problem(given.path("attention-backend"), message, hint, code="attention-backend")


def _rejection(method: str, given: Given, is_chain: bool) -> Iterator[Problem]:
    """Rejection sampling wants whole distributions of a chain's guesses."""
    name, block = "speculative-use-rejection-sampling", "speculative-use-block-verification"
    is_family = method in ("eagle", "eagle3", "mtp")
    why = ""
    if given.is_on(block) and not is_family and method not in ("dflash", "dspark"):
        name, why = block, f"it is not for method {method}"
    elif given.is_on(name) and not is_family:
        why = "it is for methods eagle, eagle3 and mtp"
    elif not (is_family and (given.is_on(name) or given.is_on(block))):
        return
    elif not is_chain:
        why = "it is for chains, not for trees"
    elif given.has("speculative-token-map"):
        why = "a reduced vocabulary (speculative-token-map) has no whole distributions"
    elif any(given.number(f"speculative-accept-threshold-{t}", 1) < 1 for t in ("single", "acc")):
        why = "it does not go with accept thresholds"
    if why:
        name = name if given.has(name) else block
        yield Problem(given.path(name), f"{name}: {why}", "remove it", code="rejection-sampling")


def _window(method: str, given: Given, plan: Plan) -> Iterator[Problem]:
    window, sink = "speculative-draft-window-size", "speculative-draft-sink-size"
    size, needed = given.whole(window, 0), plan.gamma + 1 if method == "dflash" else 1
    if given.has(window) and size < needed:
        message = f"{window} must be at least {needed}, found {size}"
        yield Problem(given.path(window), message, "leave it out", code="draft-window")
    if given.has(sink) and not given.has(window):
        message = f"{sink} without {window}: SGLang does not start"
        yield Problem(given.path(sink), message, f"add {window}", code="draft-window")


def _corpus(given: Given, plan: Plan) -> Iterator[Problem]:
    path, budget = "speculative-ngram-external-corpus-path", "speculative-ngram-external-sam-budget"
    share = given.whole(budget, 0)
    if given.has(path) and not 0 < share <= plan.gamma:
        message = (
            f"a corpus of texts needs {budget} of 1 to gamma ({plan.gamma}), the guesses that may "
            f"come from it; found {share}"
        )
        yield Problem(given.path(path), message, f"add {budget}", code="ngram-corpus")


def _dropped(method: str, given: Given) -> Iterator[Problem]:
    """Options that SGLang turns off again with a line in its log."""
    goes = method in ("eagle", "eagle3", "mtp", "dflash", "dspark") and given.since(0, 5, 19)
    if given.is_on("enable-mixed-chunk") and not goes:
        message = f"SGLang turns mixed chunked prefill off with method {method}"
        path = given.path("enable-mixed-chunk")
        yield Problem(path, message, "remove it", "warning", "mixed-chunk")
    radix = "disaggregation-decode-enable-radix-cache"
    keeps = method in ("eagle", "eagle3", "mtp", "dspark") and given.since(0, 5, 23)
    keeps = keeps or (method == "dspark" and given.since(0, 5, 21))
    if given.is_on(radix) and given.get("disaggregation-mode") == "decode" and not keeps:
        message = f"{radix}: SGLang does not start with it and method {method}"
        yield Problem(given.path(radix), message, "remove it", code="radix-cache")
