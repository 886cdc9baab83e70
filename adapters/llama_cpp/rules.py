"""What llama-server refuses, ignores or does otherwise, as far as a profile and options show."""

from collections.abc import Mapping
from typing import Final

from adapters.flag import normal
from adapters.launch import WorkerSpec
from adapters.llama_cpp.kind import (
    CACHE,
    CACHE_GUESSES,
    CACHE_LENGTHS,
    LENGTHS,
    NGRAM,
    SHARED,
    kinds_of,
    match_lengths,
    native_of,
    own_kind,
)
from adapters.llama_cpp.native import choice_problems, option_conflicts, options_of
from adapters.llama_cpp.settings import CACHE_TYPES
from adapters.llama_cpp.version import TITLE
from adapters.option import Options
from adapters.problem import Path, Problem
from adapters.profile import Drafted, DraftModel, Dspark, Eagle3, Ngram, Profile, WithDraft
from adapters.schedule import fixed_batch_limit, fixed_gamma

_SCHEDULE: Path = ("speculation", "schedule")
_NEAREST: Final[Mapping[str, str]] = {
    "suffix": "nearest: method ngram with pool: shared, which keeps what all requests said",
    "eagle": "nearest: method eagle3, with a head of that kind",
    "medusa": "nearest: method eagle3, with a head of that kind",
    "mlp_speculator": "nearest: method eagle3, with a head of that kind",
    "lookahead": "nearest: method ngram, which copies instead of iterating",
    "custom": "nearest: method ngram; no proposer can be loaded into llama-server",
}
_POOR_MATCH = 16  # the engine warns below it (PR #19164)
_FALSE = ("off", "disabled", "false", "0", False)


def speculation_problems(profile: Profile, worker: WorkerSpec) -> list[Problem]:
    """Everything about a profile that speculates, but for its draft's files."""
    spec = profile.speculation
    if not isinstance(spec, Drafted):
        return choice_problems(profile)
    if own_kind(profile) is None:
        message = f"{TITLE} has no method {spec.method}"
        return [
            Problem(("speculation", "method"), message, _NEAREST[spec.method], code="no-method")
        ]
    problems = choice_problems(profile) + _schedule_problems(spec)
    if isinstance(spec, Ngram):
        problems += _ngram_problems(spec, kinds_of(profile))
    if isinstance(spec, WithDraft):
        problems += _draft_problems(spec, options_of(profile, worker))
    problems += _length_problems(profile, fixed_gamma(spec))
    return problems + option_conflicts(profile, worker)


def _lost(key: str, message: str, hint: str, code: str) -> Problem:
    path: Path = ("speculation", *key.split("."))
    return Problem(path, message, hint, severity="lost", code=code)


def _schedule_problems(spec: Drafted) -> list[Problem]:
    if not spec.schedule:
        return []
    gamma, limit = fixed_gamma(spec), fixed_batch_limit(spec)
    if gamma == 0:
        message = (
            "the first range says 0: with one request at a time no worker can prove that it drafts"
        )
        hint = "start the schedule with a gamma above 0, or use method none"
        return [Problem(("speculation", "schedule"), message, hint, code="schedule-first")]
    if limit is None:
        return []
    message = (
        f"llama.cpp has no schedule: it runs gamma {gamma}, and the router keeps this profile "
        f"within {limit} request{'s' if limit > 1 else ''} at once"
    )
    hint = "give the route a next profile for larger batches"
    return [Problem(_SCHEDULE, message, hint, severity="warning", code="schedule-by-router")]


def _ngram_problems(spec: Ngram, kinds: tuple[str, ...]) -> list[Problem]:
    problems = _pool_problems(spec, kinds)
    if spec.device == "gpu":
        message = f"{TITLE} finds matches on the CPU only"
        problems.append(_lost("device", message, "write device: cpu", "ngram-device"))
    if kinds == (CACHE,):
        return problems + _cache_problems(spec)
    if spec.lookup.min == spec.lookup.max:
        return problems
    message = f"llama.cpp looks for one length: it uses lookup.min, {spec.lookup.min}"
    hint = f"write max: {spec.lookup.min} too where only llama.cpp uses this profile"
    path: Path = ("speculation", "lookup", "max")
    found = Problem(path, message, hint, severity="warning", code="lookup-length")
    return [*problems, found]


def _pool_problems(spec: Ngram, kinds: tuple[str, ...]) -> list[Problem]:
    """ngram-cache keeps what a slot's earlier requests left, and ngram-mod what all left."""
    wrong = [kind for kind in kinds if (kind == SHARED) != (spec.pool == "shared")]
    if spec.pool == "request":
        wrong = [kind for kind in kinds if kind in (SHARED, CACHE)]
    if spec.pool is None or not wrong:
        return []
    reason = {
        SHARED: "finds matches in what all requests left",
        CACHE: "finds matches in what the slot's earlier requests left",
    }.get(wrong[0], "finds matches in the slot's own request")
    fit = SHARED if spec.pool == "shared" else ", ".join(NGRAM[:3])
    hint = f"leave pool out, or choose spec-type: {fit}"
    return [_lost("pool", f"{wrong[0]} {reason}", hint, "ngram-pool")]


def _cache_problems(spec: Ngram) -> list[Problem]:
    shortest, longest = CACHE_LENGTHS
    if (spec.lookup.min, spec.lookup.max) == CACHE_LENGTHS:
        return []
    message = f"{CACHE} always looks for {shortest} to {longest} tokens"
    hint = f"write lookup: {{min: {shortest}, max: {longest}}}"
    path: Path = ("speculation", "lookup", "max" if spec.lookup.min == shortest else "min")
    return [Problem(path, message, hint, severity="warning", code="lookup-length")]


def _draft_problems(spec: WithDraft, options: Options) -> list[Problem]:
    problems: list[Problem] = []
    if isinstance(spec, Dspark) and spec.draft is None:
        message = f"{TITLE} serves dspark without speculation if its layers are in the target"
        hint = "convert them to a file of their own, and write speculation.draft"
        path: Path = ("speculation", "method")
        problems.append(Problem(path, message, hint, code="no-draft"))
    if spec.tensor_parallel and spec.tensor_parallel > 1:
        message = f"{TITLE} has no tensor parallel size for drafts"
        hint = "leave it out; place the draft with engine.llama_cpp.spec-draft-device"
        problems.append(_lost("tensor_parallel", message, hint, "draft-tp"))
    problems += _cache_type_problems(spec, options)
    if isinstance(spec, Eagle3) and spec.tree:
        message = f"{TITLE} guesses a chain of gamma tokens, never a tree"
        problems.append(_lost("tree", message, "leave tree out", "no-tree"))
    if isinstance(spec, DraftModel | Eagle3) and spec.parallel:
        message = f"{TITLE} makes the guesses of {spec.method} one after another"
        hint = "leave parallel out; dflash and dspark guess a block in one pass"
        problems.append(_lost("parallel", message, hint, "parallel-draft"))
    if isinstance(spec, DraftModel) and spec.other_vocabulary:
        message = f"{TITLE} translates no vocabularies: --spec-replace is gone since b9442"
        hint = "use a draft with the target's vocabulary"
        path = ("speculation", "other_vocabulary")
        problems.append(Problem(path, message, hint, code="other-vocabulary"))
    return problems


def _cache_type_problems(spec: WithDraft, options: Options) -> list[Problem]:
    kind = spec.kv_cache_dtype
    if kind in (None, "auto"):
        return []
    if kind not in CACHE_TYPES:
        message = f"{TITLE} has no KV cache of type {kind}"
        hint = f"8 bits: q8_0; all: {', '.join(CACHE_TYPES)}"
        return [_lost("kv_cache_dtype", message, hint, "draft-cache-type")]
    is_quantized = not CACHE_TYPES[kind].endswith(("f32", "f16"))
    if not is_quantized or options.get("flash-attn") not in _FALSE:
        return []
    message = f"{TITLE} does not start: a {kind} cache needs flash attention, and flash-attn is off"
    path: Path = ("speculation", "kv_cache_dtype")
    return [Problem(path, message, "write flash-attn: on, or float16", code="draft-cache-type")]


def _length_problems(profile: Profile, gamma: int) -> list[Problem]:
    lengths, problems = match_lengths(profile), list[Problem]()
    if CACHE in kinds_of(profile) and gamma != CACHE_GUESSES:
        message = f"{CACHE} always guesses {CACHE_GUESSES} tokens"
        hint = f"write gamma: {CACHE_GUESSES}, or choose another spec-type"
        problems.append(_lost("gamma", message, hint, "gamma-fixed"))
    simple, shared = lengths.get(NGRAM[0]), lengths.get(SHARED)
    if isinstance(simple, int) and gamma < simple:
        problems.append(_mute_problem(profile, gamma, simple))
    if isinstance(shared, int) and shared < _POOR_MATCH:
        message = f"{SHARED} warns of bad guesses after matches of {shared} tokens"
        path, _ = _length_key(profile, SHARED)
        hint = f"write {_POOR_MATCH} or more"
        problem = Problem(path, message, hint, severity="warning", code="short-match")
        problems.append(problem)
    return problems


def _mute_problem(profile: Profile, gamma: int, length: int) -> Problem:
    """common_ngram_simple_draft, b11549: a copy shorter than the match is thrown away."""
    path, key = _length_key(profile, NGRAM[0])
    message = (
        f"{NGRAM[0]} never guesses: it drops guesses shorter than its match, and gamma {gamma} is "
        f"below {key} {length}"
    )
    hint = f"write {key.rpartition('.')[2]}: {max(gamma, 1)}, or choose spec-type ngram-map-k"
    return Problem(path, message, hint, code="lookup-above-gamma")


def _length_key(profile: Profile, kind: str) -> tuple[Path, str]:
    """Where a profile says which length is looked up, and in which words."""
    if isinstance(profile.speculation, Ngram):
        return ("speculation", "lookup", "min"), "lookup.min"
    options = native_of(profile).options
    name = next(name for name in options if normal(name) == LENGTHS[kind][0])
    return ("engine", "llama_cpp", name), name
