"""The memory of a draft: figures of published models, and what is said when it does not pay."""

from dataclasses import replace
from typing import Any

import pytest

from adapters.checkpoint import Checkpoint, Head
from adapters.fit.memory import Memory, describe, estimate, memory_problems, obstacle
from adapters.launch import Model, WorkerSpec
from adapters.problem import Problem, path_text
from adapters.profile import Profile

GIB = 1 << 30
# Shapes and sizes as published: Qwen/Qwen3-8B, Qwen/Qwen3-0.6B (config.json, bfloat16).
LARGE = Checkpoint(
    "/m/Qwen3-8B",
    "huggingface",
    architecture="Qwen3ForCausalLM",
    layers=36,
    hidden=4096,
    heads=32,
    kv_heads=8,
    head_dim=128,
    context=40960,
    dtype="bfloat16",
    weight_bytes=16_381_470_720,
)
SMALL = replace(
    LARGE, source="/m/Qwen3-0.6B", layers=28, hidden=1024, heads=16, weight_bytes=1_503_300_328
)
HEAD = replace(
    LARGE, layers=1, weight_bytes=800_000_000, head=Head("eagle3", 4096, (2, 18, 33), 32000)
)


def asked(
    method: str = "draft_model", gamma: int = 4, expect: dict[str, Any] | None = None, **keys: Any
) -> Profile:
    spec = {"method": method} if method == "none" else {"method": method, "gamma": gamma, **keys}
    data = {"profile": "p", "speculation": spec, "expect": expect or {}}
    return Profile.model_validate(data, strict=False)


def worker(
    target: Checkpoint | None = LARGE, draft: Checkpoint | None = SMALL, **fields: Any
) -> WorkerSpec:
    names = ("draft_model", "eagle3", "medusa", "mtp", "dflash")
    facts = dict.fromkeys(names, draft) if draft else {}
    model = Model(
        "large",
        "/m/target",
        fields.pop("context", 8192),
        dict.fromkeys(names, "/m/draft"),
        facts=target,
        draft_facts=facts,
    )
    return WorkerSpec("w", "1", ("engine",), model, 8000, **fields)


def memory(profile: Profile, spec: WorkerSpec) -> Memory:
    found = estimate(profile, spec)
    assert found is not None, obstacle(profile, spec)
    return found


def only(found: list[Problem]) -> Problem:
    assert len(found) == 1, found
    assert found[0].hint
    return found[0]


def test_qwen3_0_6b_for_8b_multiplies_the_cache_by_1_77() -> None:
    """SpecDecode-Bench gives 1.77 (2·36·8·128·2 and 2·28·8·128·2 bytes: 1.7778)."""
    found = memory(asked(), worker())
    assert found.target_token_bytes == 147_456
    assert found.draft_token_bytes == 114_688
    ratio = (found.target_token_bytes + found.draft_token_bytes) / found.target_token_bytes
    assert int(ratio * 100) / 100 == 1.77


def test_an_eagle3_head_costs_one_layer() -> None:
    found = memory(asked("eagle3"), worker(draft=HEAD))
    assert found.draft_token_bytes == 147_456 / 36
    assert found.draft_bytes == 800_000_000


def test_medusa_heads_keep_nothing() -> None:
    heads = Checkpoint("/m/h", "huggingface", weight_bytes=10**9, head=Head("medusa"))
    assert memory(asked("medusa"), worker(draft=heads)).draft_token_bytes == 0


def test_mtp_layers_of_the_target_are_loaded_only_for_it() -> None:
    target = replace(LARGE, mtp_layers=1, mtp_bytes=400_000_000)
    found = memory(asked("mtp"), worker(target))
    assert found.draft_bytes == pytest.approx(400_000_000)
    assert found.target_bytes == pytest.approx(
        LARGE.weight_bytes - 4e8 if LARGE.weight_bytes else 0
    )
    assert found.draft_token_bytes == 147_456 / 36
    plain = memory(asked("none"), worker(target))
    assert (plain.draft_bytes, plain.draft_token_bytes, plain.gain) == (0, 0, 1)


@pytest.mark.parametrize(
    ("args", "keys", "target", "draft"),
    [
        ({}, {}, 16, 16),
        ({"kv-cache-dtype": "fp8"}, {}, 8, 8),
        ({"kv_cache_dtype": "fp8"}, {"kv_cache_dtype": "bfloat16"}, 8, 16),
        ({"cache-type-k": "q8_0", "cache-type-v": "q8_0"}, {}, 8.5, 16),
        ({"-ctk": "q8_0", "-ctkd": "q4_0", "ctvd": "q4_0"}, {}, 12.25, 4.5),
        ({"kv_cache_config": {"dtype": "fp8"}}, {}, 8, 8),
        ({"dtype": "float32"}, {}, 32, 32),
    ],
)
def test_types_of_the_cache(
    args: dict[str, Any], keys: dict[str, Any], target: float, draft: float
) -> None:
    found = memory(asked(**keys), worker(args=args))
    assert found.target_token_bytes == 147_456 * target / 16
    assert found.draft_token_bytes == 114_688 * draft / 16


def test_a_type_nobody_knows_has_no_size() -> None:
    spec = worker(args={"kv-cache-dtype": "turboquant_k8v4"})
    assert estimate(asked(), spec) is None
    assert obstacle(asked(), spec) == "the type of its KV cache is not known here"


def test_only_the_options_of_the_workers_engine_count() -> None:
    data = {
        "profile": "p",
        "speculation": {"method": "draft_model", "gamma": 4},
        "engine": {"vllm": {"kv_cache_dtype": "fp8"}},
    }
    profile = Profile.model_validate(data)
    assert memory(profile, worker(engine="vllm")).target_token_bytes == 147_456 / 2
    assert memory(profile, worker(engine="sglang")).target_token_bytes == 147_456
    assert memory(profile, worker()).target_token_bytes == 147_456


def test_float32_folders_are_loaded_in_half() -> None:
    single = replace(LARGE, dtype="float32", weight_bytes=32 * GIB)
    assert memory(asked(), worker(single)).target_bytes == 16 * GIB
    told = worker(single, args={"dtype": "float32"})
    assert memory(asked(), told).target_bytes == 32 * GIB
    file = replace(single, form="gguf")
    assert memory(asked(), worker(file)).target_bytes == 32 * GIB


def test_keys_and_values_may_differ_in_width() -> None:
    assert memory(asked("none"), worker(replace(LARGE, value_dim=64))).target_token_bytes == (
        36 * 8 * (128 + 64) * 2
    )


@pytest.mark.parametrize(
    ("target", "draft", "words"),
    [
        (None, SMALL, "the target is not here to be read"),
        (LARGE, None, "the draft is not here to be read"),
        (replace(LARGE, cache="latent"), SMALL, "the target keeps a latent instead of keys"),
        (replace(LARGE, cache="sliding"), SMALL, "the target keeps a sliding window"),
        (LARGE, replace(SMALL, cache="hybrid"), "the draft keeps states of several kinds"),
        (replace(LARGE, weight_bytes=None), SMALL, "weights whose headers could not be read"),
        (LARGE, replace(SMALL, layers=None), "does not say how many layers"),
    ],
)
def test_what_has_no_simple_size_says_why(
    target: Checkpoint | None, draft: Checkpoint | None, words: str
) -> None:
    spec = worker(target, draft, memory_gib=24)
    assert estimate(asked(), spec) is None
    assert words in obstacle(asked(), spec)
    assert memory_problems(asked(), spec) == []


def test_a_draft_that_the_model_lacks() -> None:
    spec = replace(worker(), model=Model("large", "/m/target", 8192, facts=LARGE))
    assert obstacle(asked(), spec) == "the model has no such draft"
    assert estimate(asked(), spec) is None


def test_sequences_at_once() -> None:
    found = memory(asked(), worker(memory_gib=24))
    plain = (24 * GIB - 16_381_470_720) / (147_456 * 8192)
    both = (24 * GIB - 16_381_470_720 - 1_503_300_328) / ((147_456 + 114_688) * 8192)
    assert found.plain_sequences == pytest.approx(plain)
    assert found.draft_sequences == pytest.approx(both)
    assert found.gain == pytest.approx(5 / (1 + 4 * 1_503_300_328 / 16_381_470_720))
    assert found.throughput == pytest.approx(both / plain * found.gain)


@pytest.mark.parametrize(
    ("value", "size"),
    [(8 * GIB, 8 * GIB), ("8G", 8 * GIB), ("8g", 8e9), ("x", None), (True, None), ("8GG", None)],
)
def test_vllms_own_budget(value: object, size: float | None) -> None:
    args: dict[str, Any] = {"kv-cache-memory-bytes": value, "tensor-parallel-size": 2}
    found = memory(asked(), worker(args=args))
    assert found.plain_cache == found.draft_cache == (None if size is None else 2 * size)


@pytest.mark.parametrize(
    ("expect", "tokens"),
    [
        ({}, 5),
        ({"acceptance_rate": 0.5}, 3),
        ({"acceptance_length": 2.2}, 2.2),
        ({"acceptance_length": 2.2, "acceptance_rate": 0.9}, 2.2),
    ],
)
def test_tokens_of_a_step(expect: dict[str, float], tokens: float) -> None:
    assert memory(asked(expect=expect), worker()).tokens == tokens


def test_parallel_drafts_are_read_once() -> None:
    share = 1_503_300_328 / 16_381_470_720
    assert memory(asked(parallel=True), worker()).cost == pytest.approx(1 + share)
    assert memory(asked(), worker()).cost == pytest.approx(1 + 4 * share)


def test_a_target_that_does_not_fit() -> None:
    found = only(memory_problems(asked("none"), worker(memory_gib=12)))
    assert (found.code, path_text(found.path)) == ("memory-full", "models.large.target")
    assert "take 15.26 GiB, the worker has 12.00 GiB" in found.message
    hybrid = worker(replace(LARGE, cache="hybrid"), memory_gib=12)
    assert only(memory_problems(asked(), hybrid)).code == "memory-full"


def test_a_draft_that_does_not_fit() -> None:
    found = only(memory_problems(asked(), worker(memory_gib=16)))
    assert (found.code, path_text(found.path)) == (
        "memory-full",
        "models.large.drafts.draft_model",
    )
    assert "take 1.40 GiB on top of the target's 15.26 GiB" in found.message


def test_no_sequence_fits() -> None:
    found = only(memory_problems(asked("none"), worker(memory_gib=16, context=32768)))
    assert (found.code, path_text(found.path)) == ("memory-full", "models.large.context")
    assert "no room for a sequence of 32768 tokens beside the weights" in found.message
    assert "write models.large.context: 5414 or less" in found.hint
    spec = worker(memory_gib=18, context=16384)
    draft = only(memory_problems(asked(), spec))
    assert path_text(draft.path) == "models.large.drafts.draft_model"
    assert "leaves no room for a sequence of 16384 tokens" in draft.message


def test_a_draft_that_costs_more_than_it_gives() -> None:
    profile = asked(expect={"acceptance_length": 2.0})
    found = only(memory_problems(profile, worker(memory_gib=24)))
    assert (found.code, found.severity) == ("memory-cost", "warning")
    assert "3.7 sequences of 8192 tokens at once instead of 7.8" in found.message
    assert "at most 1.46 tokens for the time of one: x0.69" in found.message
    assert memory_problems(asked(), worker(memory_gib=80)) == []
    assert (
        memory_problems(
            asked("eagle3", expect={"acceptance_length": 2.0}), worker(draft=HEAD, memory_gib=24)
        )
        == []
    )


def test_a_cache_that_is_never_full_costs_nothing() -> None:
    profile = asked(expect={"acceptance_length": 2.0})
    assert memory_problems(profile, worker(memory_gib=24, args={"max-num-seqs": 3})) == []
    assert memory_problems(profile, worker(memory_gib=24, args={"max-num-seqs": 4}))


@pytest.mark.parametrize("size", [float("inf"), float("nan"), 1e308, 1e12])
def test_a_budget_without_bound_says_nothing(size: float) -> None:
    """What holds for full caches is not said of caches that no engine can fill."""
    profile = asked(expect={"acceptance_length": 1.0})
    assert memory_problems(profile, worker(memory_gib=size)) == []
    assert describe(memory(profile, worker(memory_gib=size))) == describe(memory(profile, worker()))


@pytest.mark.parametrize("size", [5e-324, 1e-9, 1.0])
def test_a_budget_below_the_weights(size: float) -> None:
    assert only(memory_problems(asked(), worker(memory_gib=size))).code == "memory-full"
    assert not any("nan" in line for line in describe(memory(asked(), worker(memory_gib=size))))


def test_numbers_too_large_to_divide_by() -> None:
    args = {"parallel": 10**400}
    assert only(memory_problems(asked(), worker(memory_gib=24, args=args))).code == "memory-full"


def test_without_a_budget_there_is_nothing_to_say() -> None:
    assert memory_problems(asked(expect={"acceptance_length": 1.0}), worker()) == []


def test_describe() -> None:
    assert describe(memory(asked(), worker(memory_gib=24))) == [
        "weights: target 15.26 GiB, draft 1.40 GiB",
        "KV cache a token: target 144.0 KiB, draft 112.0 KiB (x1.78)",
        "sequences of 8192 tokens at once: 7.8 without the draft, 3.7 with it",
        "at most 5.00 tokens in the time of 1.37 plain steps, when memory is the bound: x3.66",
        "with a full cache at most x1.73 of plain's throughput",
    ]
    assert len(describe(memory(asked(), worker()))) == 3


def test_without_room_for_a_sequence_there_is_no_throughput() -> None:
    lines = describe(memory(asked(), worker(memory_gib=17.5)))
    assert not any("throughput" in line for line in lines)


def test_describe_without_a_draft() -> None:
    lines = describe(memory(asked("none"), worker(memory_gib=24)))
    assert lines == [
        "weights: 15.26 GiB",
        "KV cache a token: 144.0 KiB",
        "sequences of 8192 tokens at once: 7.8",
    ]
    guessed = describe(memory(asked("ngram"), worker()))
    assert guessed[-1] == (
        "at most 5.00 tokens in the time of one plain step, when memory is the bound: x5.00"
    )


def test_slots_that_llama_cpp_reserves() -> None:
    args: dict[str, Any] = {"-np": 5}
    found = only(memory_problems(asked(), worker(memory_gib=24, args=args)))
    assert found.code == "memory-full"
    assert "the draft leaves no room for 5 sequences of 8192 tokens" in found.message
    assert "context: 6015 or less" in found.hint
    assert memory_problems(asked(), worker(memory_gib=24, args={**args, "kv_unified": True})) == []
