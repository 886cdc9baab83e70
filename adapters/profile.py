"""Profile: one engine-neutral speculation setting, as its YAML file says it.

Words: gamma is the number of tokens guessed per verify step (Leviathan et al., arXiv 2211.17192);
a schedule gives gamma by batch size; lookup lengths are in tokens.
"""

import re
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, WithJsonSchema
from pydantic.dataclasses import dataclass

EngineName: TypeAlias = Literal["vllm", "tensorrt_llm", "sglang", "llama_cpp"]
NAME_PATTERN = r"^[a-z0-9][a-z0-9._-]{0,62}$"
Name: TypeAlias = Annotated[str, Field(pattern=NAME_PATTERN)]

# vLLM's V1 sampler asserts at most 128 drafted tokens a step (0.32.0); no engine goes further.
LARGEST_GAMMA = 128
Gamma: TypeAlias = Annotated[int, Field(ge=1, le=LARGEST_GAMMA)]

_BATCH = re.compile(r"([1-9][0-9]{0,5})(?:-([1-9][0-9]{0,5})|(\+))?")
_BATCH_WORDS = "a batch range is written 5, 5-16 or 17+"


@dataclass(frozen=True)
class Batch:
    """A range of batch sizes in requests, both ends included; `last` None is open."""

    first: int
    last: int | None

    def __str__(self) -> str:
        if self.last is None:
            return f"{self.first}+"
        return str(self.first) if self.last == self.first else f"{self.first}-{self.last}"


def parse_batch(value: Any) -> Batch:
    """`5`, `"5-16"` or `"17+"` as a range. Raises ValueError on anything else."""
    match = _BATCH.fullmatch(str(value)) if isinstance(value, int | str) else None
    if isinstance(value, bool) or match is None:
        raise ValueError(_BATCH_WORDS)
    first, last, is_open = match.groups()
    batch = Batch(int(first), None if is_open else int(last or first))
    if batch.last is not None and batch.last < batch.first:
        raise ValueError(f"the range ends ({batch.last}) before it starts ({batch.first})")
    return batch


class Model(BaseModel):
    """What every part of a file has in common: frozen, strict, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Tier(Model):
    """One line of a schedule."""

    batch: Annotated[
        Batch,
        BeforeValidator(parse_batch),
        WithJsonSchema(
            {
                "anyOf": [
                    {"type": "string", "pattern": f"^{_BATCH.pattern}$"},
                    {"type": "integer", "minimum": 1},
                ],
                "description": "Batch sizes: 5, 5-16 or 17+ (the last one).",
            }
        ),
    ]
    gamma: int = Field(ge=0, le=LARGEST_GAMMA, description="Tokens guessed per step; 0 is off.")


class Plain(Model):
    """No speculation: the baseline, and the refuge at high load."""

    method: Literal["none"]


class Drafted(Model):
    """What all speculation methods share."""

    gamma: Gamma = Field(description="Tokens guessed per verify step.")
    schedule: tuple[Tier, ...] | None = Field(
        default=None, min_length=1, description="Batch size to gamma: no gaps, the last range open."
    )


class Lookup(Model):
    """Lengths, in tokens, of the tail that n-gram lookup searches for."""

    min: int = Field(default=2, ge=1, le=1024, description="Shortest tail that counts as a match.")
    max: int = Field(default=4, ge=1, le=1024, description="Longest tail tried, first.")


class Ngram(Drafted):
    """Prompt lookup: copy what followed the same tokens earlier (Saxena, 2023)."""

    method: Literal["ngram"]
    lookup: Lookup = Lookup(min=2, max=4)
    pool: Literal["request", "shared"] | None = Field(
        default=None,
        description="Where matches are looked for: this request's tokens, or what all requests "
        "left. Default: this request's where the engine can, else its own way.",
    )
    device: Literal["cpu", "gpu"] = Field(default="cpu", description="Where matches are found.")


class Suffix(Drafted):
    """Suffix trees over this and earlier requests (SuffixDecoding, arXiv 2411.04975)."""

    method: Literal["suffix"]
    max_depth: int = Field(default=24, ge=1, description="Depth of the tree, in tokens.")
    cached_requests: int = Field(
        default=10000, ge=0, description="Answers kept; 0: this request only."
    )
    max_factor: float = Field(default=1.0, ge=0, description="Guess at most factor x match length.")
    min_probability: float = Field(
        default=0.1, ge=0, le=1, description="Least estimated probability."
    )


class Lookahead(Drafted):
    """Jacobi windows of the target itself (Lookahead decoding, arXiv 2402.02057).

    gamma is the n-gram size less one: the most guesses one step can accept.
    """

    method: Literal["lookahead"]
    window: int = Field(ge=1, description="Window size W, in tokens.")
    candidates: int = Field(ge=1, description="Verification set size G, in n-grams.")


class Custom(Drafted):
    """A proposer of your own, loaded by the engine from its environment."""

    method: Literal["custom"]
    proposer: str = Field(
        pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$", description="module.Class of the proposer."
    )


CacheType: TypeAlias = Literal[
    "auto",
    "float32",
    "float16",
    "bfloat16",
    "fp8",
    "fp8_e4m3",
    "fp8_e5m2",
    "q8_0",
    "q5_1",
    "q5_0",
    "q4_1",
    "q4_0",
    "iq4_nl",
]


class WithDraft(Drafted):
    """A method that needs weights of its own: `draft` names one of the model's `drafts`."""

    draft: Name | None = Field(
        default=None, description="A key of the model's drafts; default: method."
    )
    tensor_parallel: int | None = Field(
        default=None, ge=1, description="Draft's tensor parallel size."
    )
    kv_cache_dtype: CacheType | None = Field(
        default=None, description="Type of the draft's KV cache; default: the engine's."
    )


class Tree(Model):
    """A tree of guesses, verified in one step (SpecInfer, arXiv 2305.09781; EAGLE-2, 2406.16858).

    gamma is its depth.
    """

    branches: int = Field(ge=2, le=64, description="Guesses tried at each node.")
    tokens: int = Field(ge=2, le=512, description="Guessed tokens in the whole tree.")


class DraftModel(WithDraft):
    """A smaller model of the same vocabulary guesses (arXiv 2211.17192).

    Distilled drafts (DistillSpec, arXiv 2310.08461; AdaSPEC, 2510.19779) are ordinary checkpoints.
    """

    method: Literal["draft_model"]
    parallel: bool = Field(
        default=False, description="All guesses in one pass, with mask tokens (PARD, 2504.18583)."
    )
    other_vocabulary: bool = Field(
        default=False, description="The draft has other tokens; the engine translates them."
    )


class Eagle(WithDraft):
    """An EAGLE or EAGLE-2 head trained for this target (arXiv 2401.15077, 2406.16858)."""

    method: Literal["eagle"]
    tree: Tree | None = Field(default=None, description="Left out: a chain of gamma guesses.")


class Eagle3(WithDraft):
    """An EAGLE-3 head trained for this target (arXiv 2503.01840)."""

    method: Literal["eagle3"]
    tree: Tree | None = Field(default=None, description="Left out: a chain of gamma guesses.")
    parallel: bool = Field(
        default=False, description="All guesses in one pass, by a head trained for it (P-EAGLE)."
    )


class Mtp(WithDraft):
    """The target's own multi-token-prediction layers (DeepSeek-V3, arXiv 2412.19437)."""

    method: Literal["mtp"]


class Medusa(WithDraft):
    """Several heads, each guessing one position further (arXiv 2401.10774)."""

    method: Literal["medusa"]


class MlpSpeculator(WithDraft):
    """A chain of small MLPs on the target's last state (arXiv 2404.19124)."""

    method: Literal["mlp_speculator"]


class Dflash(WithDraft):
    """A block-diffusion drafter: a block of guesses in one pass (DFlash)."""

    method: Literal["dflash"]


class Dspark(WithDraft):
    """A block drafter with a Markov head (DSpark); its layers may be in the target."""

    method: Literal["dspark"]


Speculation: TypeAlias = Annotated[
    Plain
    | Ngram
    | Suffix
    | DraftModel
    | Eagle
    | Eagle3
    | Mtp
    | Medusa
    | MlpSpeculator
    | Dflash
    | Dspark
    | Lookahead
    | Custom,
    Field(discriminator="method"),
]
# Methods whose weights may be part of the target's own checkpoint.
BUNDLED = (Mtp, Dspark)


class Expect(Model):
    """What was measured for this profile; alarms compare with it."""

    acceptance_rate: float | None = Field(
        default=None, ge=0, le=1, description="Accepted / drafted."
    )
    acceptance_length: float | None = Field(
        default=None, ge=1, le=LARGEST_GAMMA + 1, description="Tokens per verify step."
    )


class Profile(Model):
    """One profile file."""

    profile: Name = Field(description="The profile's name; fleets and routes use it.")
    description: str = ""
    speculation: Speculation
    lossless: bool = Field(
        default=True, description="false admits settings that change the output."
    )
    expect: Expect = Expect(acceptance_rate=None, acceptance_length=None)
    engine: dict[EngineName, dict[str, JsonValue]] = Field(
        default_factory=dict,
        description="Native options by engine; checked against the engine's own.",
    )

    @property
    def is_speculating(self) -> bool:
        return not isinstance(self.speculation, Plain)

    @property
    def draft_name(self) -> str | None:
        """The key under the model's `drafts` that this profile needs, or None."""
        spec = self.speculation
        if isinstance(spec, BUNDLED):
            return spec.draft
        return (spec.draft or spec.method) if isinstance(spec, WithDraft) else None
