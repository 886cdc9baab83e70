"""Flags of llama-server b11549 for the sampling that a request gets unless it says otherwise."""

import math

from adapters.embedded.compound import schema
from adapters.embedded.kind import Flag, also, file, switch, value
from adapters.embedded.value import Read, plain, real, unsigned, whole, within

CHARACTERS = {
    "d": "dry",
    "k": "top_k",
    "y": "typ_p",
    "p": "top_p",
    "s": "top_n_sigma",
    "m": "min_p",
    "t": "temperature",
    "x": "xtc",
    "i": "infill",
    "e": "penalties",
    "a": "adaptive_p",
}


def sampler_names(text: str) -> str:
    return ";".join(CHARACTERS.get(character, character) for character in text)


def temperature(text: str) -> float:
    return max(real(text), 0.0)


def finite(name: str) -> Read:
    def read(text: str) -> float:
        number = real(text)
        if not math.isfinite(number):
            raise ValueError(f"error: {name} must be finite\n")
        return number

    return read


def repeat_penalty(text: str) -> float:
    number = real(text)
    if not math.isfinite(number) or number <= 0:
        raise ValueError("error: repeat-penalty must be finite and greater than 0\n")
    return number


def dry_base(text: str) -> float:
    """llama-server drops a base below 1 without a word; here that is a fault."""
    number = real(text)
    if number < 1:
        raise ValueError("dry-base must be at least 1")
    return number


def repeat_window(text: str) -> dict[str, object]:
    size = whole(text)
    if size < 0:
        raise ValueError(f"error: invalid repeat-last-n = {size}\n")
    return {
        "sampling.penalty_last_n": size,
        "sampling.n_prev": max(64, size),
        "sampling.user_sampling_config": frozenset({"PENALTY_LAST_N"}),
    }


def dry_window(text: str) -> int:
    size = whole(text)
    if size < 0:
        raise ValueError(f"error: invalid dry-penalty-last-n = {size}\n")
    return size


def grammar(text: str) -> dict[str, object]:
    return {
        "sampling.grammar.type": "COMMON_GRAMMAR_TYPE_USER",
        "sampling.grammar.grammar": text,
    }


def schema_grammar(text: str) -> dict[str, object]:
    return {
        "sampling.grammar.type": "COMMON_GRAMMAR_TYPE_OUTPUT_FORMAT",
        "sampling.grammar.grammar": schema(text),
    }


def chosen(names: str, hint: str, to: str, read: Read, env: str = "") -> Flag:
    """A setting that the model file's own recommendation must not replace."""
    mark = {"sampling.user_sampling_config": frozenset({to.upper()})}
    return value(names, hint, "", also(f"sampling.{to}", read, mark), env)


SAMPLING: tuple[Flag, ...] = (
    chosen("--samplers", "SAMPLERS", "samplers", plain),
    value("-s --seed", "SEED", "sampling.seed", unsigned),
    value("--sampler-seq --sampling-seq", "SEQUENCE", "sampling.samplers", sampler_names),
    switch("--ignore-eos", "sampling.ignore_eos"),
    chosen("--temp --temperature", "N", "temp", temperature, "LLAMA_ARG_TEMPERATURE"),
    chosen("--top-k", "N", "top_k", whole, "LLAMA_ARG_TOP_K"),
    chosen("--top-p", "N", "top_p", real, "LLAMA_ARG_TOP_P"),
    chosen("--min-p", "N", "min_p", real, "LLAMA_ARG_MIN_P"),
    chosen("--xtc-probability", "N", "xtc_probability", real),
    chosen("--xtc-threshold", "N", "xtc_threshold", real),
    value("--typical --typical-p", "N", "sampling.typ_p", real),
    value("--repeat-last-n", "N", "", repeat_window),
    chosen("--repeat-penalty", "N", "penalty_repeat", repeat_penalty, "LLAMA_ARG_REPEAT_PENALTY"),
    value(
        "--presence-penalty",
        "N",
        "sampling.penalty_present",
        finite("presence-penalty"),
        "LLAMA_ARG_PRESENCE_PENALTY",
    ),
    value(
        "--frequency-penalty",
        "N",
        "sampling.penalty_freq",
        finite("frequency-penalty"),
        "LLAMA_ARG_FREQUENCY_PENALTY",
    ),
    value("--dry-multiplier", "N", "sampling.dry_multiplier", real),
    value("--dry-base", "N", "sampling.dry_base", dry_base),
    value("--dry-allowed-length", "N", "sampling.dry_allowed_length", whole),
    value("--dry-penalty-last-n", "N", "sampling.dry_penalty_last_n", dry_window),
    value("--adaptive-target", "N", "sampling.adaptive_target", real),
    value("--adaptive-decay", "N", "sampling.adaptive_decay", real),
    value("--dynatemp-range", "N", "sampling.dynatemp_range", real),
    value("--dynatemp-exp", "N", "sampling.dynatemp_exponent", real),
    chosen("--mirostat", "N", "mirostat", whole),
    chosen("--mirostat-lr", "N", "mirostat_eta", real),
    chosen("--mirostat-ent", "N", "mirostat_tau", real),
    value("--grammar", "GRAMMAR", "", grammar),
    file("--grammar-file", "", grammar),
    value("-j --json-schema", "SCHEMA", "", schema_grammar),
    file("-jf --json-schema-file", "", schema_grammar),
    switch("-bs --backend-sampling", "sampling.backend_sampling", "LLAMA_ARG_BACKEND_SAMPLING"),
    value(
        "--reasoning-budget",
        "N",
        "sampling.reasoning_budget_tokens",
        within(-1),
        "LLAMA_ARG_THINK_BUDGET",
    ),
    value(
        "--reasoning-budget-message",
        "MESSAGE",
        "sampling.reasoning_budget_message",
        plain,
        "LLAMA_ARG_THINK_BUDGET_MESSAGE",
    ),
)
