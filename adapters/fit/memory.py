"""What a draft costs in memory, and whether it can give that back.

A draft's weights and its own KV cache leave room for fewer sequences. Where the cache is full, n
sequences instead of N, with at most g tokens for the time of a plain step, make n / N x g of the
plain engine's throughput; below 1 the draft cannot win there. g is tokens a step over the
denominator of Leviathan et al., arXiv 2211.17192, theorem 3.8, 1 + passes x c, with the ratio of
the weights as c, since decoding reads all of them for each pass (an upper bound: MoE targets read
fewer, heads read the target's output layer too). Tokens a step are the profile's
`acceptance_length`, or 1 + gamma x `acceptance_rate` (accepted / drafted; the paper's a, the chance
of a guess after accepted ones, is higher and would need its sum), or gamma + 1.

Activations and captured graphs take memory with and without a draft and are not counted.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from adapters.checkpoint import CacheForm, Checkpoint
from adapters.fit.budget import GIB, budget_of, cache_room, weights_of
from adapters.fit.kv_cache import (
    draft_types,
    layer_bytes,
    loaded_bits,
    target_types,
    token_bytes,
    worker_options,
)
from adapters.fit.pair import Pair, pair_of
from adapters.launch import WorkerSpec
from adapters.option import Options, whole
from adapters.problem import Path, Problem
from adapters.profile import Drafted, DraftModel, Eagle3, Profile, WithDraft

KIB = 1 << 10
# These guess from states that they do not keep.
_WITHOUT_CACHE = frozenset({"medusa", "mlp_speculator"})
# All guesses in one pass.
_ONE_PASS = frozenset({"medusa", "mlp_speculator", "dflash", "dspark"})
_FORMS: Final[Mapping[CacheForm, str]] = {
    "full": "all keys and values",
    "sliding": "a sliding window of tokens",
    "latent": "a latent instead of keys and values",
    "hybrid": "states of several kinds",
}
_MOST_SLOTS = 1 << 20  # no engine has as many; far larger ones cannot be divided by
# What caps the sequences at once, by engine: vLLM, llama.cpp, SGLang, TensorRT-LLM.
_SEATS = ("max-num-seqs", "parallel", "np", "max-running-requests", "max-batch-size")


@dataclass(frozen=True)
class Memory:
    """Bytes of weights, bytes of KV cache for one token, and what is left of a budget for it.

    `context` is the longest sequence in tokens. The caches are the bytes for sequences without and
    with the draft, None without a budget; they are negative where the weights alone exceed it.
    `tokens` a step and the `cost` of a step in plain steps are bounds in the draft's favour.
    """

    target_bytes: float
    draft_bytes: float
    target_token_bytes: float
    draft_token_bytes: float
    context: int | None
    plain_cache: float | None
    draft_cache: float | None
    tokens: float
    cost: float

    @property
    def gain(self) -> float:
        """Most tokens for the time in which the plain engine makes one."""
        return self.tokens / self.cost

    @property
    def plain_sequences(self) -> float | None:
        """Sequences of full length at once, without the draft."""
        return self._sequences(self.plain_cache, self.target_token_bytes)

    @property
    def draft_sequences(self) -> float | None:
        """Sequences of full length at once, with the draft."""
        return self._sequences(self.draft_cache, self.target_token_bytes + self.draft_token_bytes)

    @property
    def throughput(self) -> float | None:
        """Bound of throughput with a full cache over the plain engine's."""
        before, after = self.plain_sequences, self.draft_sequences
        if before is None or after is None or before <= 0:
            return None
        return after / before * self.gain

    def _sequences(self, cache: float | None, token: float) -> float | None:
        if cache is None or not self.context or not token:
            return None
        return cache / (token * self.context)


def estimate(profile: Profile, worker: WorkerSpec) -> Memory | None:
    """The memory of a worker with this profile; None where `obstacle` says why."""
    if obstacle(profile, worker):
        return None
    return _estimate(profile, worker)


def obstacle(profile: Profile, worker: WorkerSpec) -> str:
    """Why there is no estimate, in words; empty where there is one."""
    target, pair = worker.model.facts, pair_of(profile, worker)
    sides = [("target", target)]
    if isinstance(profile.speculation, WithDraft):
        if pair is None:
            return "the model has no such draft"
        if pair.name is not None:
            sides.append(("draft", pair.draft))
    for side, facts in sides:
        if words := _gap(facts):
            return f"the {side} {words}"
    return "" if _estimate(profile, worker) else "the type of its KV cache is not known here"


def _gap(facts: Checkpoint | None) -> str:
    if facts is None:
        return "is not here to be read"
    if facts.cache != "full" and not _keeps_nothing(facts):
        return f"keeps {_FORMS[facts.cache]}: its cache has no simple size"
    if facts.weight_bytes is None:
        return "has weights whose headers could not be read"
    is_shapeless = not facts.layers or not facts.kv_heads or not facts.head_dim
    if is_shapeless and not _keeps_nothing(facts):
        return "does not say how many layers and heads it has"
    return ""


def _keeps_nothing(facts: Checkpoint) -> bool:
    return facts.head is not None and facts.head.kind in _WITHOUT_CACHE


def _estimate(profile: Profile, worker: WorkerSpec) -> Memory | None:
    options, pair = worker_options(profile, worker), pair_of(profile, worker)
    target = worker.model.facts
    weights = weights_of(worker.model, pair, options)
    if target is None or weights is None:
        return None
    own = token_bytes(target, target_types(options), loaded_bits(options))
    drafts = 0.0 if pair is None else _draft_token_bytes(profile, pair, options)
    if own is None or drafts is None:
        return None
    target_bytes, draft_bytes = weights
    tokens, passes = _tokens(profile), _passes(profile)
    return Memory(
        target_bytes,
        draft_bytes,
        own,
        drafts,
        worker.model.context or target.context,
        cache_room(worker, options, target_bytes),
        cache_room(worker, options, target_bytes + draft_bytes),
        tokens,
        1 + passes * (draft_bytes / target_bytes if target_bytes else 0),
    )


def _draft_token_bytes(profile: Profile, pair: Pair, options: Options) -> float | None:
    types = draft_types(profile, options)
    if pair.method in _WITHOUT_CACHE:
        return 0
    if pair.name is None and pair.target is not None:
        layer = layer_bytes(pair.target, types, loaded_bits(options))
        return None if layer is None else layer * pair.target.mtp_layers
    if pair.draft is None:
        return None
    return token_bytes(pair.draft, types, loaded_bits(options))


def _tokens(profile: Profile) -> float:
    """Most tokens of a verify step: as measured, else every guess accepted."""
    spec, expect = profile.speculation, profile.expect
    if not isinstance(spec, Drafted):
        return 1
    if expect.acceptance_length is not None:
        return expect.acceptance_length
    rate = 1 if expect.acceptance_rate is None else expect.acceptance_rate
    return 1 + spec.gamma * rate


def _passes(profile: Profile) -> int:
    """Times that the draft's weights are read for one verify step."""
    spec = profile.speculation
    if not isinstance(spec, WithDraft):
        return 0
    is_parallel = isinstance(spec, DraftModel | Eagle3) and spec.parallel
    return 1 if is_parallel or profile.speculation.method in _ONE_PASS else spec.gamma


def memory_problems(profile: Profile, worker: WorkerSpec) -> list[Problem]:
    """Weights or a single sequence that do not fit; a draft that costs more than it can give."""
    full = list(_full_of_weights(profile, worker))
    memory = None if full else estimate(profile, worker)
    if memory is None:
        return full
    return list(_no_sequence(profile, worker, memory)) or list(_cost(profile, worker, memory))


def _full_of_weights(profile: Profile, worker: WorkerSpec) -> Iterator[Problem]:
    """Known even where the size of the cache is not."""
    pair, options = pair_of(profile, worker), worker_options(profile, worker)
    target = weights_of(worker.model, None, options)
    budget = budget_of(worker)
    if budget is None or target is None:
        return
    both = weights_of(worker.model, pair, options) or target
    if target[0] >= budget:
        message = f"its weights take {_gib(target[0])}, the worker has {_gib(budget)}"
        hint = "use a quantised target, or raise memory_gib"
        yield Problem(("models", worker.model.name, "target"), message, hint, code="memory-full")
    elif sum(both) >= budget:
        message = (
            f"the draft's weights take {_gib(both[1])} on top of the target's {_gib(both[0])}, "
            f"the worker has {_gib(budget)}"
        )
        hint = "use a smaller draft or method ngram, or raise memory_gib"
        yield Problem(_draft_path(profile, worker), message, hint, code="memory-full")


def _no_sequence(profile: Profile, worker: WorkerSpec, memory: Memory) -> Iterator[Problem]:
    """vLLM refuses to start when one sequence of full length does not fit.

    llama.cpp reserves as many as it has slots, unless they share one cache.
    """
    before, after, context = memory.plain_sequences, memory.draft_sequences, memory.context
    slots = _slots(worker_options(profile, worker))
    if before is None or after is None or context is None or after >= slots:
        return
    fits = max(int(after * context / slots), 0)
    what = f"{slots} sequences" if slots > 1 else "a sequence"
    hint = f"write models.{worker.model.name}.context: {fits} or less" if fits else ""
    if before < slots:
        path: Path = ("models", worker.model.name, "context" if worker.model.context else "target")
        message = f"there is no room for {what} of {context} tokens beside the weights"
    else:
        path = _draft_path(profile, worker)
        message = f"the draft leaves no room for {what} of {context} tokens"
        hint = f"{hint or 'use a smaller draft'}, or leave the draft out"
    each = " of each" if slots > 1 else ""
    message += f": {_gib(max(memory.draft_cache or 0, 0))} hold {fits} tokens{each}"
    yield Problem(path, message, hint or "raise memory_gib", code="memory-full")


def _slots(options: Options) -> int:
    """Sequences that llama.cpp reserves the cache of."""
    slots = whole(options, "parallel", whole(options, "np", 1))
    return min(max(slots, 1), _MOST_SLOTS) if not options.get("kv-unified") else 1


def _cost(profile: Profile, worker: WorkerSpec, memory: Memory) -> Iterator[Problem]:
    """The rule is in the module's docstring."""
    before, after, bound = memory.plain_sequences, memory.draft_sequences, memory.throughput
    if before is None or after is None or bound is None or bound >= 1:
        return
    options = worker_options(profile, worker)
    seats = next((n for name in _SEATS if (n := whole(options, name, 0)) > 0), None)
    if seats is not None and after >= seats:
        return  # the cache is never full
    message = (
        f"it costs more than it can give when the cache is full: {after:.1f} sequences of "
        f"{memory.context} tokens at once instead of {before:.1f}, and at most "
        f"{memory.gain:.2f} tokens for the time of one: x{bound:.2f} of plain's throughput"
    )
    hint = "use a smaller draft, a head (eagle3, mtp) or ngram; or keep it for few requests at once"
    yield Problem(_draft_path(profile, worker), message, hint, "warning", "memory-cost")


def _draft_path(profile: Profile, worker: WorkerSpec) -> Path:
    name = profile.draft_name
    return ("models", worker.model.name, "drafts", name) if name else ("speculation", "method")


def describe(memory: Memory) -> list[str]:
    """What `draftgate explain` prints: one fact a line."""
    own, drafts = memory.target_token_bytes, memory.draft_token_bytes
    lines = [f"weights: {_gib(memory.target_bytes)}", f"KV cache a token: {_kib(own)}"]
    if memory.draft_bytes:
        ratio = (own + drafts) / own if own else 1
        lines[0] = f"weights: target {_gib(memory.target_bytes)}, draft {_gib(memory.draft_bytes)}"
        lines[1] = f"KV cache a token: target {_kib(own)}, draft {_kib(drafts)} (x{ratio:.2f})"
    return [*lines, *_describe_room(memory), *_describe_gain(memory)]


def _describe_room(memory: Memory) -> Iterator[str]:
    before, after = memory.plain_sequences, memory.draft_sequences
    if before is not None and after is not None:
        both = f" without the draft, {after:.1f} with it" if memory.draft_bytes else ""
        yield f"sequences of {memory.context} tokens at once: {before:.1f}{both}"


def _describe_gain(memory: Memory) -> Iterator[str]:
    if memory.tokens > 1:
        steps = f"{memory.cost:.2f} plain steps" if memory.cost > 1 else "one plain step"
        yield (
            f"at most {memory.tokens:.2f} tokens in the time of {steps}, when memory is the bound: "
            f"x{memory.gain:.2f}"
        )
    has_room = (memory.draft_sequences or 0) >= 1  # less than one sequence has no throughput
    if memory.draft_bytes and memory.throughput is not None and has_room:
        yield f"with a full cache at most x{memory.throughput:.2f} of plain's throughput"


def _gib(size: float) -> str:
    return f"{size / GIB:.2f} GiB" if size >= GIB / 10 else f"{size / KIB**2:.1f} MiB"


def _kib(size: float) -> str:
    return f"{size / KIB:.1f} KiB"
