"""What a profile means and how each engine says it. Pure: no process, no network, no clock."""

from collections.abc import Mapping
from typing import Final

import adapters.llama_cpp
import adapters.sglang
import adapters.tensorrt_llm
import adapters.vllm
from adapters.contract import Adapter

ADAPTERS: Final[Mapping[str, Adapter]] = {
    "llama_cpp": adapters.llama_cpp,
    "sglang": adapters.sglang,
    "tensorrt_llm": adapters.tensorrt_llm,
    "vllm": adapters.vllm,
}
