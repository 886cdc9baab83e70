"""A batch-size schedule as SGLang's adaptive speculation, or as one gamma within the router's care.

Each range is a slot with one candidate, so that nothing is left to adapt (adaptive_spec_params.py
of 0.5.13 to 0.5.23). A batch is rounded up to the next size of the decode graphs' list before its
slot is looked up: the last batch of every range has to be in that list.
"""

import json
from dataclasses import dataclass
from itertools import chain
from typing import Final, Literal, TypeAlias

from pydantic import JsonValue

from adapters.launch import FILES
from adapters.option import whole
from adapters.problem import Path, Problem
from adapters.profile import Drafted, Eagle, Eagle3, Mtp, Tier
from adapters.schedule import SCHEDULE, fixed_batch_limit, fixed_gamma
from adapters.setting import Setting
from adapters.sglang.given import Given

FILE: Final = "adaptive.json"
# max_running_requests of every algorithm where none is given (arg_groups/speculative_hook.py).
REQUESTS: Final = 48
# The largest graph of decoding that SGLang makes unasked (arg_groups/memory_hook.py, 0.5.23).
_LARGEST_GRAPH: Final = 512
# Far above the 4,096 requests that SGLang ever makes room for unasked (pool_configurator.py).
MOST_REQUESTS: Final = 65_536

# slots: the engine follows the schedule; fixed: it has one gamma for all sizes that it may see.
Form: TypeAlias = Literal["slots", "fixed"]


@dataclass(frozen=True)
class Plan:
    """How a schedule is run: `gamma` is the largest that the engine will be asked for.

    `obstacle` says why the engine cannot follow it by itself, empty where it can or need not.
    """

    form: Form
    gamma: int
    batch_limit: int | None = None
    obstacle: str = ""


def plan_of(spec: Drafted, given: Given) -> Plan:
    if not spec.schedule:
        return Plan("fixed", spec.gamma)
    limit, first = fixed_batch_limit(spec), fixed_gamma(spec)
    if limit is None:
        return Plan("fixed", first or spec.gamma)
    obstacle = _obstacle(spec, given)
    if obstacle:
        return Plan("fixed", first or spec.gamma, limit, obstacle)
    return Plan("slots", max(tier.gamma for tier in spec.schedule))


def _obstacle(spec: Drafted, given: Given) -> str:
    """Why adaptive speculation would be switched off, or refused; empty where it works."""
    if not isinstance(spec, Eagle | Eagle3 | Mtp):
        return "SGLang changes gamma for eagle, eagle3 and mtp only"
    if isinstance(spec, Eagle | Eagle3) and spec.tree:
        return "SGLang changes gamma for chains only, not for trees"
    if not given.since(0, 5, 13):
        return f"SGLang {given.version} cannot tie gamma to the batch size (0.5.13 can)"
    if not given.since(0, 5, 14) and any(tier.gamma == 0 for tier in spec.schedule or ()):
        return f"SGLang {given.version} cannot stop drafting by batch size (0.5.14 can)"
    return _option_obstacle(given)


def _option_obstacle(given: Given) -> str:
    """adaptive_unsupported_reason; with LoRA and HiSparse SGLang refuses to start."""
    if given.is_attention_parallel:
        return "SGLang cannot change gamma under DP attention"
    switches = ("enable-multi-layer-eagle", "enable-two-batch-overlap", "enable-pdmux")
    for name in (*switches, "enable-hisparse"):
        if given.is_on(name):
            return f"SGLang cannot change gamma with {name}"
    return "SGLang cannot change gamma with LoRA" if given.has_lora else ""


def schedule_settings(spec: Drafted, given: Given, plan: Plan) -> list[Setting]:
    """Nothing without a schedule."""
    if not spec.schedule:
        return []
    if plan.form == "fixed":
        how = f"one gamma, {plan.gamma}"
        if plan.batch_limit:
            how += f"; the router keeps this pool within {plan.batch_limit} at once"
        return [Setting(SCHEDULE, "", None, how)]
    how = f"{FILE}: a slot for each range, with its gamma as the only candidate"
    found = [
        Setting(SCHEDULE, "speculative-adaptive", True, how),
        Setting(SCHEDULE, "speculative-adaptive-config", f"{FILES}/{FILE}", how),
    ]
    if not given.has(_graph_option(given)) and not _is_graphless(given):
        sizes: list[int] = graph_sizes(spec.schedule, given)
        name = given.name(_graph_option(given))
        how = "the engine's usual sizes with the last batch of every range: it rounds batches up"
        found.append(Setting(SCHEDULE, name, [*sizes], how))
    return found


def adaptive_file(tiers: tuple[Tier, ...]) -> str:
    """The slots as JSON, a line each."""
    slots = (f'  "{tier.batch.first}": {{"candidate_steps": [{tier.gamma}]}}' for tier in tiers)
    return "{\n" + ",\n".join(slots) + "\n}\n"


def graph_sizes(tiers: tuple[Tier, ...], given: Given) -> list[int]:
    """Batch sizes to capture, up to the most requests at once or the largest graph.

    A batch above the last one is not rounded. The ladder is SGLang's own for speculation
    (generate_decode_cuda_graph_batch_sizes, 0.5.23).
    """
    most = min(given.whole("max-running-requests", REQUESTS), MOST_REQUESTS)
    most = min(most, given.whole(_largest_option(given), _LARGEST_GRAPH))
    ladder = chain(range(1, 9), range(10, 33, 2), range(40, 65, 4), range(72, 257, 8))
    ladder = chain(ladder, range(272, most + 1, 16))
    ends = (tier.batch.last for tier in tiers if tier.batch.last)
    return sorted({size for size in (*ladder, *ends, most) if 0 < size <= most})


def schedule_problems(spec: Drafted, given: Given, plan: Plan) -> list[Problem]:
    if not spec.schedule:
        return []
    if fixed_gamma(spec) == 0:
        message = (
            "the first range says 0: with one request at a time nothing is drafted, so that the "
            "worker can never prove that it speculates"
        )
        hint = "start the schedule with a gamma above 0, or use method none"
        return [Problem(SCHEDULE, message, hint, code="schedule-first")]
    if plan.form == "slots":
        return _config_problems(given) or _graph_problems(spec.schedule, given)
    if plan.batch_limit is None:
        return []
    limit = plan.batch_limit
    message = (
        f"{plan.obstacle}: it runs gamma {plan.gamma}, and the router keeps this profile "
        f"within {limit} request{'s' if limit > 1 else ''} at once"
    )
    hint = "give the route a next profile for larger batches"
    return [Problem(SCHEDULE, message, hint, severity="warning", code="schedule-by-router")]


def _config_problems(given: Given) -> list[Problem]:
    """parse_cuda_graph_config: this option's keys win over every other option's."""
    option = "cuda-graph-config"
    if not _says_decode(given.get(option)):
        return []
    message = (
        f"{option} wins over every other option for graphs: SGLang would round batches up by it, "
        "not by the sizes that the schedule needs"
    )
    hint = "remove its decode; cuda-graph-bs-decode and disable-decode-cuda-graph may be written"
    return [Problem(_place(option, given), message, hint, code="schedule-graphs")]


def _says_decode(value: JsonValue) -> bool:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return False
    return isinstance(value, dict) and bool(value.get("decode"))


def _place(option: str, given: Given) -> Path:
    """Where the profile has the option; a fleet's is in the schedule's way."""
    path = given.path(option)
    return path if path[0] == "engine" else SCHEDULE


def _graph_problems(tiers: tuple[Tier, ...], given: Given) -> list[Problem]:
    """Graph sizes of the user's own that make ranges begin too early."""
    sizes = _own_graphs(given)
    if not sizes or _is_graphless(given):
        return []
    ends = (tier.batch.last for tier in tiers if tier.batch.last)
    missing = [end for end in ends if end not in sizes and end < max(sizes)]
    if not missing:
        return []
    option = _graph_option(given)
    message = (
        f"{option} lacks {', '.join(map(str, missing))}: SGLang rounds a batch up to the next size "
        "in it, so that the range after it begins too early"
    )
    hint = "add these sizes, or leave the option out: draftgate writes a list that fits"
    path = _place(option, given)
    return [Problem(path, message, hint, severity="lost", code="schedule-graphs")]


def _graph_option(given: Given) -> str:
    is_split = given.table.find("cuda-graph-bs-decode") is not None
    return "cuda-graph-bs-decode" if is_split else "cuda-graph-bs"


def _largest_option(given: Given) -> str:
    is_split = given.table.find("cuda-graph-max-bs-decode") is not None
    return "cuda-graph-max-bs-decode" if is_split else "cuda-graph-max-bs"


def _own_graphs(given: Given) -> list[int]:
    value = given.get(_graph_option(given))
    items = value if isinstance(value, list) else [value]
    sizes = (whole({"size": item}, "size", 0) for item in items)
    return [size for size in sizes if size > 0]


def _is_graphless(given: Given) -> bool:
    """Batches are rounded by graphs of decoding only; a backend's name wins over both switches
    (parse_cuda_graph_config)."""
    backend = given.get("cuda-graph-backend-decode")
    if backend is not None:
        return backend == "disabled"
    return given.is_on("disable-cuda-graph") or given.is_on("disable-decode-cuda-graph")
