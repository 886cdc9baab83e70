"""Asked: everything that is asked of one vLLM worker, in one record for the rules to read."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from pydantic import JsonValue

from adapters.dialect import Dialect, choose_dialect
from adapters.flag import FlagTable, named_flags
from adapters.launch import WorkerSpec
from adapters.option import Options, merge
from adapters.problem import Path
from adapters.profile import Drafted, Profile

TITLE = "vLLM"
SUPPORTED: tuple[Dialect, ...] = (
    Dialect("0.31", (0, 31), (0, 32)),
    Dialect("0.32", (0, 32), (0, 33)),
    Dialect("0.33", (0, 33), (0, 34)),
)
METHOD: Final[Path] = ("speculation", "method")
EXTRA: Final[Path] = ("engine", "vllm", "speculative_config")
_KEY = "speculative_config"

Runner: TypeAlias = Literal["V1", "V2"]

# vllm/config/vllm.py, _get_v2_model_runner_unsupported_features: 0.31 ran both n-gram methods on V1
# only; the classes of medusa and mlp_speculator are gone in 0.33.
_ONLY_V1: Final[Mapping[str, frozenset[str]]] = {
    "0.31": frozenset({"ngram", "suffix", "medusa", "custom"}),
    "0.32": frozenset({"suffix", "medusa", "custom"}),
    "0.33": frozenset({"suffix", "custom"}),
}
_RUNNER_VARIABLE = "VLLM_USE_V2_MODEL_RUNNER"
_SUFFIXES: Final[Mapping[str, int]] = {
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "t": 10**12,
    "K": 2**10,
    "M": 2**20,
    "G": 2**30,
    "T": 2**40,
}


@dataclass(frozen=True)
class Asked:
    """A profile on a worker; `options` are the profile's native ones under the fleet's."""

    profile: Profile
    worker: WorkerSpec

    @functools.cached_property
    def dialect(self) -> str:
        return choose_dialect(SUPPORTED, self.worker.engine_version)[0].name

    @functools.cached_property
    def table(self) -> FlagTable:
        return named_flags("vllm", self.dialect, TITLE, self.worker.engine_version)

    @functools.cached_property
    def native(self) -> Options:
        """The profile's own options, without the speculative config."""
        given = self.profile.engine.get("vllm", {})
        return {name: value for name, value in given.items() if name != _KEY}

    @property
    def given_extra(self) -> JsonValue:
        """`speculative_config` as the profile has it, whatever it is."""
        return self.profile.engine.get("vllm", {}).get(_KEY, {})

    @functools.cached_property
    def extra(self) -> Options:
        """Its keys as vLLM reads them, dashes as underscores."""
        given = self.given_extra
        if not isinstance(given, dict):
            return {}
        return {name.replace("-", "_"): value for name, value in given.items()}

    @functools.cached_property
    def options(self) -> Mapping[str, JsonValue]:
        return merge(self.table, self.native, self.worker.args)

    @property
    def method(self) -> str:
        return self.profile.speculation.method

    @property
    def drafted(self) -> Drafted | None:
        spec = self.profile.speculation
        return spec if isinstance(spec, Drafted) else None

    @property
    def is_parallel(self) -> bool:
        """Whether an EAGLE head or a draft model guesses all tokens in one pass."""
        asked = getattr(self.profile.speculation, "parallel", False)
        return bool(asked) or self.extra.get("parallel_drafting") is True

    @property
    def translates_vocabulary(self) -> bool:
        return bool(getattr(self.profile.speculation, "other_vocabulary", False))

    @property
    def is_on_cpu(self) -> bool:
        return "cpu" in self.worker.engine_version.partition("+")[2]

    @property
    def runner_asked(self) -> Runner | None:
        """The model runner that the environment forces."""
        value = self.worker.env.get(_RUNNER_VARIABLE, "").strip().lower()
        if value in ("1", "true"):
            return "V2"
        return "V1" if value in ("0", "false") else None

    @property
    def needs_v1(self) -> bool:
        """Whether the V2 runner lacks what the profile asks for."""
        lacking = _ONLY_V1[self.dialect]
        return self.method in lacking or self.is_parallel or self.translates_vocabulary

    @property
    def is_on_v1(self) -> bool:
        """Whether the V1 runner is certain; elsewhere V2 is vLLM's choice on GPUs since 0.29."""
        return self.is_on_cpu or self.runner_asked == "V1" or self.needs_v1


def size(options: Options, name: str) -> int | None:
    """A merged option as a whole number, `8K` as 8192 and `8k` as 8000; None where it is absent."""
    value = options.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    text = value.strip() if isinstance(value, str) else ""
    factor = _SUFFIXES.get(text[-1:], 1)
    try:
        return int(float(text[:-1] if text[-1:] in _SUFFIXES else text) * factor)
    except (ValueError, OverflowError):
        return None
