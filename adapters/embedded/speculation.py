"""Flags of llama-server b11549 about speculation."""

from adapters.embedded.compound import (
    EXPERTS,
    cache_type,
    exact_row,
    first_layers,
    mask,
    overrides,
    span,
)
from adapters.embedded.kind import Flag, existing, processors, switch, toggle, value
from adapters.embedded.value import Read, choice, exact, layers, plain, real, whole, within

DRAFT_TYPES = ("draft-simple", "draft-eagle3", "draft-mtp", "draft-dflash", "draft-dspark")
NGRAM_TYPES = ("ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache")
TYPES = ("none", *DRAFT_TYPES, *NGRAM_TYPES)
sampling = choice(
    {"greedy": False, "probabilistic": True},
    "invalid value, must be one of: greedy, probabilistic",
)
size_n = within(1, 1024, "ngram size N must be between 1 and 1024 inclusive")
size_m = within(1, 1024, "ngram size M must be between 1 and 1024 inclusive")
min_hits = within(1, message="ngram min hits must be at least 1")
DEFAULT_SPECULATION: dict[str, object] = {
    "speculative.types": ["COMMON_SPECULATIVE_TYPE_NGRAM_MOD"],
    "speculative.ngram_mod.n_match": 24,
    "speculative.ngram_mod.n_min": 48,
    "speculative.ngram_mod.n_max": 64,
}


def types(text: str) -> list[str]:
    """Unites with the types of earlier flags; `none` cancels the list it stands in."""
    found: list[str] = []
    for name in text.split(","):
        if name not in TYPES:
            raise ValueError(f"unknown speculative type: {name}")
        member = "COMMON_SPECULATIVE_TYPE_" + name.upper().replace("-", "_")
        if name == "none":
            return [member]
        found.append(member)
    return found


def lookups(name: str) -> tuple[Flag, ...]:
    """The three numbers of one n-gram type."""
    flag, to = f"--spec-ngram-{name}", f"speculative.ngram_{name.replace('-', '_')}"
    return (
        value(f"{flag}-size-n", "N", f"{to}.size_n", size_n),
        value(f"{flag}-size-m", "N", f"{to}.size_m", size_m),
        value(f"{flag}-min-hits", "N", f"{to}.min_hits", min_hits),
    )


def draft(names: str, hint: str, name: str, read: Read, env: str = "") -> Flag:
    """A setting of the draft model."""
    return value(names, hint, f"speculative.draft.{name}", read, env and f"LLAMA_ARG_{env}")


def pool(batch: str, letter: str) -> tuple[Flag, ...]:
    """The threads of the draft model; `batch` tells those for whole batches."""
    to = f"cpuparams{batch.replace('-', '_')}"
    return (
        draft(
            f"--spec-draft-threads{batch} -t{letter}d --threads{batch}-draft",
            "N",
            f"{to}.n_threads",
            whole,
        ),
        processors(
            f"--spec-draft-cpu-mask{batch} -C{letter}d --cpu-mask{batch}-draft",
            "M",
            f"speculative.draft.{to}",
            mask,
        ),
        draft(
            f"--spec-draft-cpu-strict{batch} --cpu-strict{batch}-draft",
            "<0|1>",
            f"{to}.strict_cpu",
            whole,
        ),
        draft(f"--spec-draft-prio{batch} --prio{batch}-draft", "N", f"{to}.priority", within(0, 3)),
        draft(f"--spec-draft-poll{batch} --poll{batch}-draft", "<0|1>", f"{to}.poll", whole),
    )


SPECULATION: tuple[Flag, ...] = (
    value("--spec-type", ",".join(TYPES), "speculative.types", types, "LLAMA_ARG_SPEC_TYPE"),
    switch("--spec-default", "", sets=DEFAULT_SPECULATION),
    draft(
        "--spec-draft-model -md --model-draft", "FNAME", "mparams.path", plain, "SPEC_DRAFT_MODEL"
    ),
    draft("--spec-draft-n-max", "N", "n_max", within(0), "SPEC_DRAFT_N_MAX"),
    draft("--spec-draft-n-min", "N", "n_min", whole, "SPEC_DRAFT_N_MIN"),
    draft("--spec-draft-p-split --draft-p-split", "P", "p_split", real, "SPEC_DRAFT_P_SPLIT"),
    draft("--spec-draft-p-min --draft-p-min", "P", "p_min", real, "SPEC_DRAFT_P_MIN"),
    toggle(
        "--spec-draft-backend-sampling",
        "--no-spec-draft-backend-sampling",
        "speculative.draft.backend_sampling",
        "LLAMA_ARG_SPEC_DRAFT_BACKEND_SAMPLING",
    ),
    draft(
        "--spec-draft-sampling",
        "{greedy,probabilistic}",
        "probabilistic",
        sampling,
        "SPEC_DRAFT_SAMPLING",
    ),
    draft("--spec-draft-device -devd --device-draft", "<dev1,dev2,..>", "devices", plain),
    draft(
        "--spec-draft-ngl -ngld --gpu-layers-draft --n-gpu-layers-draft",
        "N",
        "n_gpu_layers",
        layers,
        "N_GPU_LAYERS_DRAFT",
    ),
    draft(
        "--spec-draft-type-k -ctkd --cache-type-k-draft",
        "TYPE",
        "cache_type_k",
        cache_type,
        "SPEC_DRAFT_CACHE_TYPE_K",
    ),
    draft(
        "--spec-draft-type-v -ctvd --cache-type-v-draft",
        "TYPE",
        "cache_type_v",
        cache_type,
        "SPEC_DRAFT_CACHE_TYPE_V",
    ),
    *pool("", ""),
    *pool("-batch", "b"),
    processors(
        "--spec-draft-cpu-range -Crd --cpu-range-draft",
        "lo-hi",
        "speculative.draft.cpuparams",
        span,
    ),
    draft(
        "--spec-draft-override-tensor -otd --override-tensor-draft",
        "<tensor name pattern>=<buffer type>,...",
        "tensor_buft_overrides",
        overrides,
    ),
    switch(
        "--spec-draft-cpu-moe -cmoed --cpu-moe-draft",
        "speculative.draft.tensor_buft_overrides",
        "LLAMA_ARG_SPEC_DRAFT_CPU_MOE",
        [f"{EXPERTS}=CPU"],
    ),
    draft(
        "--spec-draft-n-cpu-moe --spec-draft-ncmoe -ncmoed --n-cpu-moe-draft",
        "N",
        "tensor_buft_overrides",
        first_layers(EXPERTS),
        "SPEC_DRAFT_N_CPU_MOE",
    ),
    *lookups("simple"),
    *lookups("map-k"),
    *lookups("map-k4v"),
    value(
        "--spec-ngram-mod-n-min",
        "N",
        "speculative.ngram_mod.n_min",
        within(0, 1024, "ngram n-min must be between 0 and 1024 inclusive"),
    ),
    value(
        "--spec-ngram-mod-n-max",
        "N",
        "speculative.ngram_mod.n_max",
        within(0, 1024, "ngram n-max must be between 0 and 1024 inclusive"),
    ),
    value("--spec-ngram-mod-n-match", "N", "speculative.ngram_mod.n_match", size_n),
    existing("-lcs --lookup-cache-static", "speculative.ngram_cache.lookup_cache_static"),
    existing("-lcd --lookup-cache-dynamic", "speculative.ngram_cache.lookup_cache_dynamic"),
    value(
        "--spec-synth-len",
        "L",
        "speculative.synth_len",
        exact,
        "LLAMA_ARG_SPEC_SYNTH_LEN",
    ),
    value(
        "--spec-synth-rates",
        "P0,P1,...",
        "speculative.synth_rates",
        exact_row,
        "LLAMA_ARG_SPEC_SYNTH_RATES",
    ),
)
