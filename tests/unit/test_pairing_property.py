"""Whatever facts there are of any pair: no rule raises, and all of them say what to do."""

from typing import Any, get_args

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapters.checkpoint import CacheForm, Checkpoint, Head, HeadKind, Vocabulary
from adapters.fit.memory import describe, estimate, memory_problems, obstacle
from adapters.fit.pairing import pairing_problems
from adapters.launch import Model, WorkerSpec
from adapters.profile import EngineName, Profile

METHODS = ("draft_model", "eagle", "eagle3", "mtp", "medusa", "mlp_speculator", "dflash", "dspark")
COUNTS = st.none() | st.integers(0, 64) | st.integers(0, 2**40)
TOKENS = st.lists(st.none() | st.text(max_size=3), max_size=6).map(tuple)
IDS = st.frozensets(st.integers(0, 6), max_size=4)
HEADS = st.builds(
    Head,
    kind=st.sampled_from(get_args(HeadKind)),
    target_hidden=COUNTS,
    layers=st.none() | st.lists(st.integers(0, 70), max_size=4).map(tuple),
    vocabulary_size=COUNTS,
    length=COUNTS,
)
FACTS = st.builds(
    Checkpoint,
    source=st.just("m"),
    form=st.sampled_from(["huggingface", "gguf"]),
    architecture=st.none() | st.just("Llama"),
    layers=COUNTS,
    hidden=COUNTS,
    kv_heads=COUNTS,
    head_dim=COUNTS,
    value_dim=COUNTS,
    cache=st.sampled_from(get_args(CacheForm)),
    context=COUNTS,
    vocabulary_size=COUNTS,
    dtype=st.none() | st.sampled_from(["float32", "bfloat16", "float8_e4m3fn"]),
    quantization=st.none() | st.just("fp8"),
    weight_bytes=COUNTS,
    mtp_layers=st.integers(0, 3),
    mtp_bytes=st.integers(0, 64),
    block=COUNTS,
    mask_token=COUNTS,
    head=st.none() | HEADS,
    vocabulary=st.none()
    | st.builds(Vocabulary, TOKENS, special=IDS, added=IDS, bos=COUNTS, eos=COUNTS),
    silent=st.just(()) | st.just(("no tokenizer.json in the folder",)),
)
SPECULATION = st.fixed_dictionaries(
    {"method": st.sampled_from(METHODS), "gamma": st.integers(1, 16)},
    optional={"draft": st.just("a"), "kv_cache_dtype": st.sampled_from(["fp8", "q8_0", "auto"])},
)
BUDGETS = st.floats(0, exclude_min=True) | st.just(float("nan"))
ENGINES = st.none() | st.sampled_from(get_args(EngineName))
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "kv-cache-dtype": st.sampled_from(["auto", "fp8", "unknown"]),
        "-ctk": st.sampled_from(["f16", "q4_0"]),
        "max_num_seqs": st.integers(-1, 300) | st.just(10**400),
        "tensor-parallel-size": st.sampled_from([1, 8, 10**400]),
        "parallel": st.integers(-1, 9) | st.just(10**400),
        "kv-cache-memory-bytes": st.sampled_from(["8G", "x", "", 1 << 30, None, 1.5]),
        "dtype": st.sampled_from(["auto", "float32", "half", 3]),
    },
)


def profile_of(speculation: dict[str, object], length: float | None) -> Profile:
    data = {"profile": "p", "speculation": speculation, "expect": {"acceptance_length": length}}
    return Profile.model_validate(data)


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    profile=st.builds(profile_of, SPECULATION, st.none() | st.floats(1, 20)),
    options=OPTIONS,
    sizes=st.tuples(
        st.none() | st.floats(0.1, 100) | BUDGETS, st.none() | st.integers(16, 1 << 20), ENGINES
    ),
    target=st.none() | FACTS,
    draft=st.none() | FACTS,
)
def test_any_pair(
    profile: Profile,
    options: dict[str, Any],
    sizes: tuple[float | None, int | None, EngineName | None],
    target: Checkpoint | None,
    draft: Checkpoint | None,
) -> None:
    facts = dict.fromkeys(("a", *METHODS), draft) if draft else {}
    drafts = dict.fromkeys(("a", *METHODS), "/m/draft")
    model = Model("small", "/m/target", sizes[1], drafts, facts=target, draft_facts=facts)
    worker = WorkerSpec(
        "w", "1", ("e",), model, 1, args=options, memory_gib=sizes[0], engine=sizes[2]
    )
    for problem in [*pairing_problems(profile, worker), *memory_problems(profile, worker)]:
        assert problem.message
        assert "nan" not in problem.message
        assert problem.hint
        assert problem.code
        assert problem.path[0] in ("models", "speculation")
    memory = estimate(profile, worker)
    assert (memory is None) == bool(obstacle(profile, worker))
    if memory is not None:
        assert all(describe(memory))
        assert not any("nan" in line or "inf" in line for line in describe(memory))
        assert memory.gain > 0
