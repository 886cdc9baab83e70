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


class WithDraft(Drafted):
    """A method that needs weights of its own: `draft` names one of the model's `drafts`."""

    draft: Name | None = Field(
        default=None, description="A key of the model's drafts; default: method."
    )
    tensor_parallel: int | None = Field(
        default=None, ge=1, description="Draft's tensor parallel size."
    )


class DraftModel(WithDraft):
    """A smaller model of the same vocabulary guesses (arXiv 2211.17192)."""

    method: Literal["draft_model"]


class Eagle3(WithDraft):
    """An EAGLE-3 head trained for this target (arXiv 2503.01840)."""

    method: Literal["eagle3"]


class Mtp(WithDraft):
    """The target's own multi-token-prediction layers (DeepSeek-V3, arXiv 2412.19437)."""

    method: Literal["mtp"]


Speculation: TypeAlias = Annotated[
    Plain | Ngram | Suffix | DraftModel | Eagle3 | Mtp, Field(discriminator="method")
]


class Expect(Model):
    """What was measured for this profile; alarms compare with it."""

    acceptance_rate: float | None = Field(
        default=None, ge=0, le=1, description="Accepted / drafted."
    )
    acceptance_length: float | None = Field(
        default=None, ge=1, description="Tokens per verify step."
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
        if isinstance(spec, Mtp):
            return spec.draft
        return (spec.draft or spec.method) if isinstance(spec, WithDraft) else None
