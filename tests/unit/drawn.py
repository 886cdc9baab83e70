"""Strategies: any profile that the schema admits, and any worker that might run it."""

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, get_args

from hypothesis import strategies as st
from pydantic import JsonValue

from adapters import ADAPTERS
from adapters.checkpoint import Checkpoint, Head, HeadKind
from adapters.flag import load_flags
from adapters.launch import Model, WorkerSpec
from adapters.profile import Profile

Strategy = st.SearchStrategy

NAMES = st.sampled_from(["draft_model", "eagle3", "small", "other"])
WORDS = st.sampled_from(["auto", "fp8", "none", "0.5", "4", "", "strict", "synthetic", "a.b", "é"])
SCALARS: Strategy[JsonValue] = (
    st.none()
    | st.booleans()
    | st.integers(-1, 300)
    | st.floats(allow_nan=False, allow_infinity=False, width=16)
    | WORDS
)
VALUES: Strategy[JsonValue] = st.one_of(
    SCALARS,
    SCALARS,
    st.lists(SCALARS, max_size=3),
    st.dictionaries(WORDS, SCALARS, max_size=2),
)
GAMMAS = st.integers(1, 16) | st.integers(1, 128)
TREES = st.fixed_dictionaries({"branches": st.integers(2, 64), "tokens": st.integers(2, 512)})
CACHE_TYPES = st.sampled_from(
    ["auto", "float32", "float16", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2", "q8_0", "q4_0"]
)


def seldom(strategy: Strategy[Any]) -> Strategy[Any]:
    """One time in four: what most engines refuse should not hide all the rest."""
    return st.sampled_from([False, False, False, True]).flatmap(
        lambda is_there: strategy if is_there else st.none()
    )


DRAFT: Mapping[str, Strategy[Any]] = {
    "draft": seldom(NAMES),
    "tensor_parallel": seldom(st.integers(1, 8)),
    "kv_cache_dtype": seldom(CACHE_TYPES),
}
TREE = {**DRAFT, "tree": seldom(TREES)}
REQUIRED: Mapping[str, Mapping[str, Strategy[Any]]] = {
    "lookahead": {"window": st.integers(1, 32), "candidates": st.integers(1, 32)},
    "custom": {"proposer": st.just("package.Proposer")},
}
OPTIONAL: Mapping[str, Mapping[str, Strategy[Any]]] = {
    "ngram": {
        "lookup": st.fixed_dictionaries(
            {}, optional={"min": st.integers(1, 12), "max": st.integers(1, 1024)}
        ),
        "pool": st.sampled_from(["request", "shared"]),
        "device": st.sampled_from(["cpu", "gpu"]),
    },
    "suffix": {
        "max_depth": st.integers(1, 64),
        "cached_requests": st.integers(0, 20000),
        "max_factor": st.floats(0, 8, width=16),
        "min_probability": st.floats(0, 1, width=16),
    },
    "lookahead": {},
    "custom": {},
    "draft_model": {**DRAFT, "parallel": st.booleans(), "other_vocabulary": st.booleans()},
    "eagle": TREE,
    "eagle3": {**TREE, "parallel": st.booleans()},
    "mtp": DRAFT,
    "medusa": DRAFT,
    "mlp_speculator": DRAFT,
    "dflash": DRAFT,
    "dspark": DRAFT,
}


ALL_DRAFTS = {
    **dict.fromkeys([*OPTIONAL, "other"], "/m/head.gguf"),
    "small": "org/head",
}


@st.composite
def schedules(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Whole ones: from 1, without gaps, open at the end."""
    starts = sorted({1, *draw(st.lists(st.integers(2, 600), max_size=3))})
    ends = [str(start - 1) for start in starts[1:]]
    batches = [f"{a}-{b}" for a, b in zip(starts, ends, strict=False)] + [f"{starts[-1]}+"]
    return [{"batch": batch, "gamma": draw(st.integers(0, 4))} for batch in batches]


def speculations(method: str) -> Strategy[dict[str, Any]]:
    if method == "none":
        return st.just({"method": method})
    required = {"method": st.just(method), "gamma": GAMMAS, **REQUIRED.get(method, {})}
    return st.fixed_dictionaries(
        required, optional={"schedule": seldom(schedules()), **OPTIONAL[method]}
    )


@functools.cache
def native_names(engine: str) -> Strategy[str]:
    """Options of the engine in some version, keys of their objects, and words that are none."""
    names: set[str] = set()
    for dialect in ADAPTERS[engine].SUPPORTED:
        table = load_flags(engine, dialect.name)
        names |= {spelling for flag in table.flags.values() for spelling in flag.spellings()}
        names |= set(table.config_keys)
    return st.sampled_from(sorted(names)) | st.text("abcz-_. ", max_size=6)


@functools.cache
def natives(engine: str) -> Strategy[dict[str, Any]]:
    """Also objects whose keys and values are anything."""
    keys = native_names(engine) | st.sampled_from(["speculative_config", "spec-type"])
    values = st.one_of(VALUES, st.dictionaries(native_names(engine), SCALARS, max_size=3))
    return st.dictionaries(keys, values, max_size=3)


@functools.cache
def profiles(engine: str) -> Strategy[tuple[Profile, ...]]:
    """One of each method, some with native options for this engine."""
    return st.tuples(*(_profiles(engine, method) for method in ("none", *OPTIONAL)))


def _profiles(engine: str, method: str) -> Strategy[Profile]:
    options, lossless = seldom(natives(engine)), seldom(st.just(False))
    parts = {"speculation": speculations(method), "options": options, "lossless": lossless}
    return st.fixed_dictionaries(parts).map(lambda data: _profile(engine, data))


def _profile(engine: str, data: dict[str, Any]) -> Profile:
    native = {engine: data["options"]} if data["options"] else {}
    is_lossless = data["lossless"] is None
    fields = {"speculation": data["speculation"], "lossless": is_lossless, "engine": native}
    return Profile.model_validate({"profile": "p", **fields}, strict=False)


@functools.cache
def checkpoints() -> Strategy[Checkpoint]:
    count, kinds = st.none() | st.integers(1, 64), st.sampled_from(get_args(HeadKind))
    layers = st.none() | st.lists(st.integers(0, 40), max_size=4).map(tuple)
    head = st.builds(Head, kinds, count, layers, count, count)
    return st.builds(
        Checkpoint,
        source=st.just("m"),
        form=st.sampled_from(["huggingface", "gguf"]),
        architecture=st.none() | st.sampled_from(["LlamaForCausalLM", "llama", "eagle3"]),
        layers=count,
        hidden=count,
        vocabulary_size=count,
        context=count,
        mtp_layers=st.integers(0, 3),
        mask_token=count,
        is_multimodal=st.booleans(),
        head=st.none() | head,
    )


def models() -> Strategy[Model]:
    names = st.sampled_from(sorted(ALL_DRAFTS))
    sources = st.sampled_from(["/m/head.gguf", "org/head", "/m/head"])
    some = seldom(st.dictionaries(names, sources, max_size=3))
    return st.builds(
        Model,
        name=st.just("small"),
        target=st.sampled_from(["/m/target.gguf", "org/target"]),
        context=st.none() | st.integers(16, 8192),
        drafts=some.map(lambda found: ALL_DRAFTS if found is None else found),
        revision=seldom(st.just("main")),
        facts=seldom(checkpoints()),
        draft_facts=st.dictionaries(names, checkpoints(), max_size=2),
    ).map(_with_known_facts)


def _with_known_facts(model: Model) -> Model:
    """Facts are read from drafts that are there, so that no other has any."""
    known = {name: f for name, f in model.draft_facts.items() if name in model.drafts}
    return replace(model, draft_facts=known)


@functools.cache
def workers(engine: str, version: str) -> Strategy[WorkerSpec]:
    """With and without drafts, facts and options of the fleet."""
    return st.builds(
        WorkerSpec,
        name=st.just("w"),
        engine_version=st.just(version),
        command=st.just(ADAPTERS[engine].COMMANDS[:1]),
        model=models(),
        port=st.just(8000),
        gpus=st.none() | st.lists(st.integers(0, 7), max_size=2).map(tuple),
        args=seldom(natives(engine)).map(lambda args: args or {}),
        env=st.dictionaries(st.sampled_from(["A", "B_C"]), WORDS, max_size=1),
        memory_gib=st.none() | st.floats(0.5, 80, width=16),
    )
