"""Options that do not go with one another, or not with this profile's speculation."""

import re
from collections.abc import Callable
from typing import Final

from pydantic import JsonValue

from adapters.option import merge
from adapters.problem import Path, Problem
from adapters.schedule import SCHEDULE
from adapters.tensorrt_llm.given import TOKENS_DEFAULT, chosen_backend, file_keys, table_of, under
from adapters.tensorrt_llm.settings import Case

_METHOD: Path = ("speculation", "method")
_GAMMA: Path = ("speculation", "gamma")
# Issue #15022, crash with xgrammar at length 0; mended by PR #15023 after 1.3.0rc15.
_GUIDED_CRASH: Final = (15, "1.3.0rc16")
_TREE_REJECTION: Final = 32  # kMaxTriedPerLevel of dynamicTreeKernels.cu
_NO_REJECTION: Final = frozenset({"NGram", "SA"})
# Of these decoders rejection sampling is refused beside guided decoding and context parallelism.
_PLAIN_REJECTION: Final = frozenset({"PARD", "DFlash", "DSpark", "Draft_Target"})


def combination_problems(case: Case) -> list[Problem]:
    problems: list[Problem] = []
    for judge in _JUDGES:
        problems += judge(case)
    return problems


def _parallel(case: Case) -> list[Problem]:
    """Feature matrix: speculation goes neither with pipeline parallelism nor with Helix."""
    problems = []
    if case.given.whole("pipeline_parallel_size", 1) > 1:
        message = "TensorRT-LLM does not speculate with pipeline_parallel_size above 1"
        hint = "use tensor_parallel_size, or method none"
        problems.append(Problem(_METHOD, message, hint, code="pipeline-parallel"))
    if case.given.whole("context_parallel_size", 1) > 1:
        message = "TensorRT-LLM does not speculate with context_parallel_size above 1"
        problems.append(Problem(_METHOD, message, "leave it at 1", code="context-parallel"))
    return problems


def _backend(case: Case) -> list[Problem]:
    """A backend, or a key of one, that the method's is not."""
    needed, chosen = case.decoder.backend, chosen_backend(case.profile, case.worker)
    if chosen not in (None, needed):
        message = f"{case.decoder.kind} of TensorRT-LLM runs on the {needed} backend, not {chosen}"
        return [Problem(_METHOD, message, "remove backend: it follows the method", code="backend")]
    table = table_of(case.worker.engine_version)
    others = set(file_keys(table, None)) - set(file_keys(table, needed))
    wrong = sorted(others & set(map(under, merge(table, case.worker.args))))
    message = f"the {needed} backend, which {case.decoder.kind} needs, has no {', '.join(wrong)}"
    return [Problem(_METHOD, message, "give it to other workers", code="backend")] if wrong else []


def _overlap(case: Case) -> list[Problem]:
    """The engine switches it off for host-side drafters, with a warning in its log (PR #6676)."""
    if case.decoder.is_one_engine or case.given.file.get("disable_overlap_scheduler") is not False:
        return []
    message = f"{case.decoder.kind} of TensorRT-LLM does not run with the overlap scheduler"
    hint = "remove disable_overlap_scheduler: it is set for this method"
    return [Problem(_METHOD, message, hint, code="overlap-scheduler")]


def _lora(case: Case) -> list[Problem]:
    if not any(case.given.file.get(key) for key in ("enable_lora", "lora_config")):
        return []
    message = "TensorRT-LLM's feature matrix has LoRA with speculation as untested"
    hint = "gate it with your adapters before you trust it"
    return [Problem(_METHOD, message, hint, severity="warning", code="lora")]


def _sampler(case: Case) -> list[Problem]:
    if case.given.file.get("sampler_type") != "TRTLLMSampler":
        return []
    message = "TRTLLMSampler does not speculate: only the Torch sampler does"
    return [Problem(_METHOD, message, "remove sampler_type", code="sampler")]


def _attention(case: Case) -> list[Problem]:
    problems = []
    backend = case.given.file.get("attn_backend")
    if case.decoder.is_one_engine and backend not in (None, "TRTLLM"):
        message = f"the verify kernels are those of attn_backend TRTLLM, not {backend}"
        hint = "remove attn_backend, or measure first"
        problems.append(
            Problem(_METHOD, message, hint, severity="warning", code="attention-backend")
        )
    if case.plan.lengths and case.given.file.get("enable_attention_dp") is True:
        message = "with enable_attention_dp every rank reads the schedule by its own batch"
        hint = "write the ranges for one rank's share of the requests"
        problems.append(
            Problem(SCHEDULE, message, hint, severity="warning", code="schedule-attention-dp")
        )
    return problems


def _budget(case: Case) -> list[Problem]:
    """Only where one of the two was chosen: by default they do not go together anyway."""
    if not {"max_batch_size", "max_num_tokens"} & set(case.given.file):
        return []
    tree = getattr(case.spec, "tree", None)
    each = case.decoder.step_tokens(case.plan.gamma, tree.tokens if tree else None)
    budget, batch = case.given.whole("max_num_tokens", TOKENS_DEFAULT), case.given.batch_size
    if batch * each <= budget:
        return []
    message = (
        f"each request takes {each} tokens of a step: max_num_tokens {budget} is enough for "
        f"{budget // each} requests, not for max_batch_size {batch}"
    )
    hint = f"write max_num_tokens: {batch * each}"
    return [Problem(_GAMMA, message, hint, severity="warning", code="token-budget")]


def _guided(case: Case) -> list[Problem]:
    if not case.given.file.get("guided_decoding_backend") or not case.spec.schedule:
        return []
    candidate = re.search(r"1\.3\.0rc(\d+)", case.worker.engine_version)
    is_broken = candidate is not None and int(candidate[1]) <= _GUIDED_CRASH[0]
    if not is_broken or all(tier.gamma for tier in case.spec.schedule):
        return []
    message = "guided decoding with a schedule that reaches 0 ends this version's start (#15022)"
    hint = f"use {_GUIDED_CRASH[1]} or newer, or end the schedule at 1"
    return [Problem(SCHEDULE, message, hint, code="guided-schedule")]


def _rejection(case: Case) -> list[Problem]:
    """TorchLlmArgs.validate_speculative_config refuses these while it starts."""
    if case.given.extra.get("use_rejection_sampling") is not True:
        return []
    kind, reason = case.decoder.kind, ""
    tree = getattr(case.spec, "tree", None)
    if kind in _NO_REJECTION:
        reason = f"{kind} has no probabilities of its guesses"
    elif case.given.extra.get("sa_config") is not None:
        reason = "sa_config has no probabilities of its guesses"
    elif tree and tree.branches > _TREE_REJECTION:
        reason = f"trees have at most {_TREE_REJECTION} branches then"
    elif kind in _PLAIN_REJECTION and case.given.file.get("guided_decoding_backend"):
        reason = "guided_decoding_backend is set"
    if not reason:
        return []
    path: Path = ("engine", "tensorrt_llm", "speculative_config", "use_rejection_sampling")
    message = f"TensorRT-LLM refuses rejection sampling here: {reason}"
    return [Problem(path, message, "remove it", code="rejection-sampling")]


def _graphs(case: Case) -> list[Problem]:
    graphs = case.given.file.get("cuda_graph_config", {})
    if not isinstance(graphs, dict) or case.plan.lengths is None:
        return []
    largest = _largest_graph(graphs)
    beyond = [t for t in case.spec.schedule if t.gamma and t.batch.first > largest]
    if not beyond:
        return []
    message = f"batches above {largest} have no CUDA graph: {beyond[0].batch} guesses slowly"
    hint = "raise cuda_graph_config.max_batch_size"
    return [Problem(SCHEDULE, message, hint, severity="warning", code="schedule-graphs")]


def _largest_graph(graphs: dict[str, JsonValue]) -> int:
    sizes = graphs.get("batch_sizes")
    if isinstance(sizes, list) and sizes:
        return max(size for size in sizes if isinstance(size, int))
    chosen = graphs.get("max_batch_size")
    return chosen if isinstance(chosen, int) and chosen else 128


_JUDGES: Final[tuple[Callable[[Case], list[Problem]], ...]] = (
    _backend,
    _overlap,
    _parallel,
    _lora,
    _sampler,
    _attention,
    _budget,
    _guided,
    _rejection,
    _graphs,
)
