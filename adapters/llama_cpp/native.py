"""What is given natively beside a profile's speculation: the choice of types, and options."""

from collections.abc import Mapping
from typing import Final

from adapters.flag import FlagTable, load_flags
from adapters.launch import WorkerSpec
from adapters.llama_cpp.kind import (
    CACHE,
    DRAFTING,
    LENGTHS,
    NGRAM,
    kinds_of,
    match_lengths,
    native_of,
    own_kind,
    type_names,
)
from adapters.llama_cpp.names import OURS
from adapters.llama_cpp.version import TITLE, dialect_of
from adapters.option import Options, merge, whole
from adapters.problem import Path, Problem, did_you_mean
from adapters.profile import Drafted, Ngram, Profile
from adapters.schedule import fixed_gamma

_GAMMA: Path = ("speculation", "gamma")
_SPEC_TYPE: Path = ("engine", "llama_cpp", "spec-type")
_OLD_KINDS: Final[Mapping[str, str]] = {
    "draft": "draft-simple",
    **{name: f"draft-{name}" for name in ("eagle3", "mtp", "dflash", "dspark")},
    "ngram": "ngram-simple",
}
_METHODS: Final[Mapping[str, str]] = {kind: method for method, kind in DRAFTING.items()}
_AUTO_SLOTS = 4  # tools/server/server.cpp, where --parallel is -1 or absent
_BATCH, _UBATCH = 2048, 512  # common/common.h
_ANCHORED = ("ngram-map-k", "ngram-map-k4v")
# Read and forgotten: ngram-simple counts no hits, and the server drafts no trees.
_DEAD = ("spec-ngram-simple-min-hits", "spec-draft-p-split")
_DRAFT = "draft types"
_CACHE_FILES = ("lookup-cache-static", "lookup-cache-dynamic")


def options_of(profile: Profile, worker: WorkerSpec) -> Options:
    """All options that are given natively, under their own names; the worker's win."""
    return merge(_table(worker), native_of(profile).options, worker.args)


def _table(worker: WorkerSpec) -> FlagTable:
    return load_flags("llama_cpp", dialect_of(worker.engine_version))


def choice_problems(profile: Profile) -> list[Problem]:
    """`engine.llama_cpp.spec-type` chooses among the n-gram kinds, and adds them to a draft."""
    native, own = native_of(profile), own_kind(profile)
    if native.chosen is None:
        return []
    first, *others = type_names(profile)
    if others:
        path: Path = ("engine", "llama_cpp", others[0])
        message = f"{others[0]!r} repeats {first!r}"
        return [Problem(path, message, "keep one of them", code="option-twice")]
    words = native.words
    if not words:
        message = f"{native.chosen!r} names no type of speculation"
        return [Problem(_SPEC_TYPE, message, f"write {own or NGRAM[0]}", code="option-value")]
    if not profile.is_speculating or own is None:
        message = f"spec-type follows from method {profile.speculation.method}"
        hint = "remove it; it chooses among the n-gram types, and adds them to a draft"
        return [Problem(_SPEC_TYPE, message, hint, code="option-is-ours")]
    allowed = NGRAM if isinstance(profile.speculation, Ngram) else (*NGRAM, own)
    unknown = [word for word in words if word not in allowed]
    if unknown:
        return [_unknown_kind(profile, unknown[0], allowed)]
    if own not in words and not isinstance(profile.speculation, Ngram):
        message = f"spec-type leaves out {own}, which is method {profile.speculation.method}"
        hint = f"write {','.join((*words, own))}"
        return [Problem(_SPEC_TYPE, message, hint, code="option-is-ours")]
    return _unwritten_problems(profile)


def _unknown_kind(profile: Profile, word: str, allowed: tuple[str, ...]) -> Problem:
    new = _OLD_KINDS.get(word)
    if new is not None:
        message = f"{TITLE} does not start with the type {word!r}: it is called {new}"
        hint = f"write {new}" if new in allowed else "it follows from speculation.method"
        return Problem(_SPEC_TYPE, message, hint, code="renamed-option")
    message, hint = f"{word!r} is not one of {TITLE}'s types", did_you_mean(word, allowed)
    if word in _METHODS:
        message = f"{word!r} is not the type of method {profile.speculation.method}"
        hint = f"write method: {_METHODS[word]}; n-gram types may stand beside its own"
    if word == "none":
        message, hint = "'none' in spec-type turns off every type beside it", "remove it"
    return Problem(_SPEC_TYPE, message, hint, code="option-value")


def _unwritten_problems(profile: Profile) -> list[Problem]:
    """Beside a draft the profile has no lookup: the n-gram kind's own option says its length."""
    missing = [kind for kind, length in match_lengths(profile).items() if length is None]
    return [
        Problem(
            _SPEC_TYPE,
            f"{kind} beside a draft has no length to look up",
            f"write engine.llama_cpp.{LENGTHS[kind][0]}; its guesses have speculation.gamma tokens",
            code="option-missing",
        )
        for kind in missing
    ]


def option_conflicts(profile: Profile, worker: WorkerSpec) -> list[Problem]:
    """Options with which this speculation kills the server, or is slower than it need be."""
    options = options_of(profile, worker)
    problems = _batch_problems(profile, worker, options)
    anchored = [kind for kind in kinds_of(profile) if kind in _ANCHORED]
    if anchored and options.get("context-shift") is True:
        message = (
            f"{anchored[0]} aborts the server when a full context is shifted (#21815), and "
            "context-shift is on"
        )
        path = _SPEC_TYPE if native_of(profile).chosen else ("speculation", "method")
        hint = "remove context-shift, or choose spec-type ngram-simple"
        problems.append(Problem(path, message, hint, code="context-shift"))
    return problems


def _batch_problems(profile: Profile, worker: WorkerSpec, options: Options) -> list[Problem]:
    """All slots' guesses are verified in one batch (tools/server/server-context.cpp, b11549)."""
    spec = profile.speculation
    slots = whole(options, "parallel", -1)
    slots = slots if slots > 0 else _AUTO_SLOTS
    width = fixed_gamma(spec) + 1 if isinstance(spec, Drafted) else 1
    batch, ubatch = whole(options, "batch-size", _BATCH), whole(options, "ubatch-size", _UBATCH)
    tokens = f"{slots} slots verify {width} tokens each, {slots * width} together"
    if slots * width > batch:
        message = f"{tokens}: the server aborts where that is above batch-size {batch}"
        hint = "raise batch-size, or lower gamma or parallel"
        return [Problem(_GAMMA, message, hint, code="batch-too-small")]
    if slots * width > ubatch:
        message = f"{tokens}: in more than one pass, as ubatch-size is {ubatch}"
        hint = "raise ubatch-size, or lower gamma or parallel"
        return [Problem(_GAMMA, message, hint, severity="warning", code="verify-split")]
    return []


def unused_problems(profile: Profile, worker: WorkerSpec) -> list[Problem]:
    """Options for a type that is not there are read and forgotten."""
    kinds, table, problems = kinds_of(profile), _table(worker), list[Problem]()
    drafts = any(kind not in NGRAM for kind in kinds)
    for name in native_of(profile).options:
        flag = table.find(name)
        owner = _owner(flag.name) if flag and flag.name not in OURS else None
        if owner is None or owner in kinds or (owner == _DRAFT and drafts):
            continue
        reason = f"it is for {owner}" if owner else f"{TITLE} reads it and does nothing with it"
        path: Path = ("engine", "llama_cpp", name)
        message, hint = f"{name} has no effect here", f"remove it: {reason}"
        problems.append(Problem(path, message, hint, severity="warning", code="option-unused"))
    return problems


def _owner(option: str) -> str | None:
    """The type that an option is for; empty for none at all, None for an option of all."""
    if option in _DEAD:
        return ""
    if option in _CACHE_FILES:
        return CACHE
    if option.startswith("spec-draft-"):
        return _DRAFT
    longest_first = sorted(NGRAM, key=len, reverse=True)
    return next((kind for kind in longest_first if option.startswith(f"spec-{kind}-")), None)
