"""Which decoding class runs a method, and what sets the classes of one version apart.

Sources: llmapi/llm_args.py of the 1.2 line (copy at deepinfra/TensorRT-LLM 00e8cf79) and of the
1.3 and 1.4 candidates (NVIDIA/TensorRT-LLM 00043967), _torch/speculative/interface.py 00b6d5a2.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from adapters.dialect import Dialect, choose_dialect, release
from adapters.profile import DraftModel, Profile

TITLE: Final = "TensorRT-LLM"
SUPPORTED: tuple[Dialect, ...] = (
    Dialect("1.2", (1, 2), (1, 3)),
    Dialect("1.3", (1, 3), (1, 5)),  # the 1.4.0 candidates are configured in the same words
)

# How a key of draft_len_schedule is read: as the first batch of its range ("lower"), as the last
# one ("upper"), or one way in one place and the other in another ("either"). None: not read.
Reading: TypeAlias = Literal["lower", "upper", "either"]
Backend: TypeAlias = Literal["pytorch", "tensorrt"]


@dataclass(frozen=True)
class Decoder:
    """One decoding class. `kind` is its `decoding_type` as the file must spell it.

    In a one-engine decoder draft and target are one model: sampling is its own, and so are the
    parameters of a request that it takes.
    """

    kind: str
    is_one_engine: bool = True
    reading: Reading | None = None
    backend: Backend = "pytorch"

    def step_tokens(self, gamma: int, tree_tokens: int | None = None) -> int:
        """Tokens of the budget that one request takes per step: PARD also passes its masks."""
        return 2 * gamma if self.kind == "PARD" else 1 + (tree_tokens or gamma)


_PARD: Final = Decoder("PARD", reading="upper")
_OLD: Final[Mapping[str, Decoder]] = {
    "ngram": Decoder("NGram", False, "lower"),
    "draft_model": Decoder("DraftTarget", False, "lower"),
    "eagle3": Decoder("Eagle3"),
    "mtp": Decoder("MTP"),
    "eagle": Decoder("Eagle", False, backend="tensorrt"),
    "medusa": Decoder("Medusa", False, backend="tensorrt"),
    "lookahead": Decoder("Lookahead", False, backend="tensorrt"),
}
_NEW: Final[Mapping[str, Decoder]] = {
    # PR #10860 made keys upper bounds, but the host-side drafter still reads them as lower ones.
    "ngram": Decoder("NGram", False, "either"),
    "draft_model": Decoder("Draft_Target", reading="upper"),
    "eagle3": Decoder("Eagle3", reading="upper"),
    "mtp": Decoder("MTP", reading="upper"),
    "suffix": Decoder("SA", reading="upper"),
    "dflash": Decoder("DFlash", reading="upper"),
    "dspark": Decoder("DSpark"),
}
DECODERS: Final[Mapping[str, Mapping[str, Decoder]]] = MappingProxyType({"1.2": _OLD, "1.3": _NEW})


def is_too_old(version: str) -> bool:
    """trtllm-serve before 1.2 has no --config, and classes that take unknown keys in silence."""
    number = release(version)
    return number is not None and number < SUPPORTED[0].since


def dialect_of(version: str) -> str:
    return choose_dialect(SUPPORTED, version)[0].name


def decoder_of(profile: Profile, version: str) -> Decoder | None:
    """The class for the profile's method, or None where this version has none."""
    dialect, spec = dialect_of(version), profile.speculation
    if isinstance(spec, DraftModel) and spec.parallel and dialect != "1.2":
        return _PARD
    return DECODERS[dialect].get(spec.method)
