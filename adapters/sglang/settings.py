"""A profile's speculation as SGLang's options, key by key, every number written out."""

from collections.abc import Iterator, Mapping
from typing import Final

from pydantic import JsonValue

from adapters.draft import draft_of
from adapters.launch import WorkerSpec
from adapters.problem import Path
from adapters.profile import (
    Drafted,
    DraftModel,
    Eagle,
    Eagle3,
    Ngram,
    Profile,
    Tree,
    WithDraft,
)
from adapters.setting import Setting
from adapters.sglang.given import METHOD, Given, given_by
from adapters.sglang.schedule import REQUESTS, Plan, plan_of, schedule_settings
from adapters.sglang.words import ALGORITHMS

_GAMMA: Final[Path] = ("speculation", "gamma")
_STEPS, _TOPK, _TOKENS = (
    "speculative-num-steps",
    "speculative-eagle-topk",
    "speculative-num-draft-tokens",
)
_BONUS: Final = "gamma and the bonus token"
_CHAIN: Final = "one guess at each position"
# NGRAMWorker._update_ngram_corpus inserts the last trie-depth tokens of prompt and answer at each
# step, and a prompt never ("Whether to insert 'extend'"; 0.5.10 to 0.5.23).
_NGRAM: Final = (
    "searches what the engine has written, for all requests together, and only the end of each "
    "prompt: text further up in a prompt is not copied"
)
# The profile's types of a KV cache in SGLang's words.
CACHE_TYPES: Final[Mapping[str, str]] = {
    "auto": "auto",
    "bfloat16": "bfloat16",
    "fp8": "fp8_e4m3",
    "fp8_e4m3": "fp8_e4m3",
    "fp8_e5m2": "fp8_e5m2",
}
CACHE_OPTION: Final = "speculative-draft-kv-cache-dtype"


def settings(profile: Profile, worker: WorkerSpec) -> tuple[Setting, ...]:
    """Empty for plain and for methods that SGLang does not have."""
    spec, method = profile.speculation, profile.speculation.method
    if not isinstance(spec, Drafted) or method not in ALGORITHMS:
        return ()
    given = given_by(profile, worker)
    plan = plan_of(spec, given)
    effect = _NGRAM if isinstance(spec, Ngram) else ""
    found = [Setting(METHOD, "speculative-algorithm", ALGORITHMS[method][0], effect=effect)]
    if not given.has("max-running-requests"):
        how = (
            f"SGLang lowers max-running-requests to {REQUESTS} while speculating; "
            "set it under args: for more"
        )
        found.append(Setting(METHOD, "max-running-requests", REQUESTS, how))
    if isinstance(spec, Ngram):
        found += _ngram(spec, given, plan)
    if isinstance(spec, WithDraft):
        found += _draft(spec, profile, worker, given)
        found += _guesses(method, spec, plan)
    found += _gamma_note(spec, plan)
    return (*found, *schedule_settings(spec, given, plan))


def _guesses(method: str, spec: WithDraft, plan: Plan) -> Iterator[Setting]:
    """The three numbers that SGLang wants together (arg_groups/speculative_hook.py)."""
    if method in ("dflash", "dspark"):
        if method == "dspark":
            yield Setting(_GAMMA, "speculative-dspark-block-size", plan.gamma)
        yield Setting(_GAMMA, _STEPS, 1, "a whole block in one step")
        yield Setting(_GAMMA, _TOPK, 1, _CHAIN)
        yield Setting(_GAMMA, _TOKENS, plan.gamma + 1, _BONUS)
        return
    yield Setting(_GAMMA, _STEPS, plan.gamma)
    tree = spec.tree if isinstance(spec, Eagle | Eagle3) else None
    if tree:
        yield from _tree(tree)
        return
    yield Setting(_GAMMA, _TOPK, 1, _CHAIN)
    yield Setting(_GAMMA, _TOKENS, plan.gamma + 1, _BONUS)


def _tree(tree: Tree) -> Iterator[Setting]:
    root: Path = ("speculation", "tree")
    yield Setting((*root, "branches"), _TOPK, tree.branches)
    yield Setting((*root, "tokens"), _TOKENS, tree.tokens + 1, "the tree and the bonus token")


def _draft(
    spec: WithDraft, profile: Profile, worker: WorkerSpec, given: Given
) -> Iterator[Setting]:
    """Every other key of a draft; without a path SGLang takes layers of the target itself."""
    source = draft_of(profile, worker.model)
    if source:
        yield Setting(("speculation", "draft"), "speculative-draft-model-path", source)
    ranks = given.whole("tensor-parallel-size", 1)
    if spec.tensor_parallel == ranks:
        yield Setting(("speculation", "tensor_parallel"), "", ranks, "always the target's")
    yield from _cache_type(spec, given)
    if isinstance(spec, DraftModel | Eagle3) and not spec.parallel:
        yield Setting(("speculation", "parallel"), "", False)
    if isinstance(spec, DraftModel) and not spec.other_vocabulary:
        yield Setting(("speculation", "other_vocabulary"), "", False)


def _cache_type(spec: WithDraft, given: Given) -> Iterator[Setting]:
    asked, path = spec.kv_cache_dtype or "", ("speculation", "kv_cache_dtype")
    if asked in CACHE_TYPES and given.table.find(CACHE_OPTION) is not None:
        how = "fp8 is fp8_e4m3 here" if asked == "fp8" else ""
        yield Setting(path, CACHE_OPTION, CACHE_TYPES[asked], how)
    elif asked == "auto":
        yield Setting(path, "", asked, "always the target's")


def _ngram(spec: Ngram, given: Given, plan: Plan) -> Iterator[Setting]:
    """A path in the trie holds a match and what followed it, so that it is as long as both: with a
    depth of 4, SGLang's trie.cpp never makes more than 3 of 5 guesses.

    The engine fills eagle-topk from the breadth, and num-steps, from 0.5.14 on, from both others.
    """
    depth, root = trie_depth(spec, plan.gamma), ("speculation", "lookup")
    yield Setting(_GAMMA, "speculative-ngram-min-bfs-breadth", 1, _CHAIN)
    yield Setting(_GAMMA, "speculative-ngram-max-bfs-breadth", 1, _CHAIN)
    if given.since(0, 5, 14):
        yield Setting(_GAMMA, _STEPS, plan.gamma + 1, "num-draft-tokens by breadth, as SGLang does")
    yield Setting(_GAMMA, _TOPK, 1, _CHAIN)
    yield Setting(_GAMMA, _TOKENS, plan.gamma + 1, _BONUS)
    least = "" if spec.lookup.min == 1 else "one matching token is enough: SGLang has no least"
    yield Setting((*root, "min"), "", 1, "", least)
    how = "lookup.max and gamma: a path of the trie holds the match and what followed it"
    yield Setting((*root, "max"), "speculative-ngram-max-trie-depth", depth, how)
    if spec.pool == "shared":
        yield Setting(("speculation", "pool"), "", spec.pool)
    if spec.device == "cpu":
        yield Setting(("speculation", "device"), "", spec.device)


def trie_depth(spec: Ngram, gamma: int) -> int:
    """In tokens. A match of lookup.max tokens still has room for gamma guesses behind it."""
    return spec.lookup.max + gamma


def _gamma_note(spec: Drafted, plan: Plan) -> Iterator[Setting]:
    """A schedule that never reaches the profile's gamma."""
    if plan.gamma != spec.gamma:
        value: JsonValue = plan.gamma
        yield Setting(_GAMMA, "", value, f"{plan.gamma} is the most that the schedule asks for")
