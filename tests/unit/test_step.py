"""What one step of a worker holds, where engines differ."""

from collections.abc import Mapping
from typing import Any

import pytest

from adapters import ADAPTERS
from adapters.checkpoint import Checkpoint
from adapters.launch import Model, WorkerSpec


def logit_type(engine: str, args: Mapping[str, Any], **facts: Any) -> str | None:
    adapter = ADAPTERS[engine]
    checkpoint = Checkpoint("/m/target", "huggingface", **facts)
    model = Model("small", "/m/target", facts=checkpoint)
    version = adapter.SUPPORTED[-1].name
    spec = WorkerSpec("w", version, (adapter.COMMANDS[0],), model, 8000, args=args)
    return adapter.logit_type(spec)


@pytest.mark.parametrize(
    ("engine", "args", "facts", "expected"),
    [
        ("vllm", {"dtype": "half"}, {"dtype": "bfloat16"}, "float16"),
        ("vllm", {"dtype": "auto"}, {"dtype": "bfloat16"}, "bfloat16"),
        ("vllm", {}, {"dtype": "float32"}, None),  # by the device
        ("vllm", {"hf-overrides": {"head_dtype": "float32"}}, {"dtype": "bfloat16"}, "float32"),
        ("vllm", {"hf-overrides": "{}"}, {"dtype": "bfloat16"}, "bfloat16"),
        ("vllm", {}, {"dtype": "float8_e4m3fn"}, None),
        ("sglang", {}, {"dtype": "float32"}, "float16"),
        (
            "sglang",
            {},
            {"dtype": "float32", "architecture": "Gemma3ForCausalLM"},
            "bfloat16",
        ),
        ("sglang", {"enable-fp32-lm-head": True}, {"dtype": "bfloat16"}, "float32"),
        ("tensorrt_llm", {}, {"dtype": "float32"}, None),
        ("llama_cpp", {}, {"dtype": "float16"}, "float32"),
        ("llama_cpp", {}, {"quantization": "Q4_K"}, None),
        ("llama_cpp", {}, {}, None),
    ],
)
def test_the_type_in_which_logits_are_rounded(
    engine: str, args: Mapping[str, Any], facts: Mapping[str, Any], expected: str | None
) -> None:
    assert logit_type(engine, args, **facts) == expected


@pytest.mark.parametrize(
    ("engine", "args", "expected"),
    [
        ("vllm", {}, None),  # by the device's memory
        ("vllm", {"max-num-seqs": 8, "max-num-active-seqs": 4}, 4),
        ("llama_cpp", {}, 4),
        ("llama_cpp", {"parallel": -1}, 4),
        ("sglang", {}, None),
        ("tensorrt_llm", {}, 2048),
    ],
)
def test_the_most_requests_at_once(
    engine: str, args: Mapping[str, Any], expected: int | None
) -> None:
    assert ADAPTERS[engine].most_at_once(args) == expected


def test_a_wide_step_holds_one_request_of_that_many_rows() -> None:
    assert ADAPTERS["vllm"].wide_arguments(5) == {
        "max-num-seqs": 1,
        "max-num-batched-tokens": 5,
    }
    sglang = ADAPTERS["sglang"].wide_arguments(5)
    assert sglang is not None
    assert (sglang["chunked-prefill-size"], sglang["max-running-requests"]) == (5, 1)


def test_every_plain_llama_server_can_be_asked_so_and_no_tensorrt_llm() -> None:
    assert ADAPTERS["llama_cpp"].wide_arguments(5) == {}
    assert ADAPTERS["tensorrt_llm"].wide_arguments(5) is None
