"""Type rule: a condition set of a fleet file, and the request type that it stands for."""

import re
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Discriminator, Field, Tag, WithJsonSchema

from adapters.profile import Model, Name
from orchestrator.language import LANGUAGES
from orchestrator.pattern import compile_pattern

_COMPARISON = re.compile(r"(>=|<=|>|<|==)\s*(-?[0-9]+(?:\.[0-9]+)?)")


def _compiles(pattern: str) -> str:
    compile_pattern(pattern)
    return pattern


def _is_comparison(text: str) -> str:
    if not _COMPARISON.fullmatch(text):
        raise ValueError('a comparison is written ">=0.3"; <=, >, < and == are the others')
    return text


def _is_language(text: str) -> str:
    if text not in LANGUAGES:
        raise ValueError(f"not a language that is told apart; those are {', '.join(LANGUAGES)}")
    return text


def _lora_shape(value: object) -> str:
    return "flag" if isinstance(value, bool) else "names"


Pattern: TypeAlias = Annotated[str, AfterValidator(_compiles)]
Comparison: TypeAlias = Annotated[
    str,
    AfterValidator(_is_comparison),
    WithJsonSchema({"type": "string", "pattern": f"^{_COMPARISON.pattern}$"}),
]


Language: TypeAlias = Annotated[
    str,
    AfterValidator(_is_language),
    WithJsonSchema({"type": "string", "enum": list(LANGUAGES)}),
]
Intent: TypeAlias = Literal["edit", "extract", "summarize", "translate"]
Lora: TypeAlias = Annotated[
    Annotated[bool, Tag("flag")] | Annotated[tuple[str, ...], Tag("names")],
    Discriminator(_lora_shape),
]


class When(Model):
    """Conditions of a request type; all that are given must hold."""

    response_format: tuple[str, ...] | None = None
    temperature: Comparison | None = None
    top_p: Comparison | None = None
    min_p: Comparison | None = None
    n: Comparison | None = Field(default=None, description="Answers asked for; 1 where not said.")
    max_tokens: Comparison | None = None
    prompt_chars: Comparison | None = Field(default=None, description="Characters of all messages.")
    turns: Comparison | None = Field(default=None, description="Number of messages.")
    fenced: Comparison | None = Field(default=None, description="Share of text in code fences.")
    overlap: Comparison | None = Field(
        default=None, description="Share of the text that repeats what stood in it before."
    )
    last_user: Pattern | None = Field(default=None, description="Searched: RE2 syntax.")
    system: Pattern | None = Field(default=None, description="Searched: RE2 syntax.")
    intent: tuple[Intent, ...] | None = Field(
        default=None, description="What the last user message asks to do with a text."
    )
    language: tuple[Language, ...] | None = Field(
        default=None, description="Of the last user message; a guess."
    )
    model: tuple[str, ...] | None = None
    lora: Lora | None = Field(
        default=None, description="Adapters asked for beside the model: whether any, or which."
    )
    tools: bool | None = None
    stream: bool | None = None
    logprobs: bool | None = None
    penalties: bool | None = None
    logit_bias: bool | None = None
    images: bool | None = Field(default=None, description="Images, sounds or videos.")


class TypeRule(Model):
    """A request type; the first rule that matches decides."""

    type: Name
    when: When | None = Field(default=None, description="Left out: matches everything.")


def compare(comparison: str, value: float) -> bool:
    """Whether `value` satisfies a comparison such as `>=0.3`. Raises ValueError: not one."""
    match = _COMPARISON.fullmatch(comparison)
    if match is None:
        raise ValueError(f"not a comparison: {comparison}")
    bound = float(match[2])
    return {
        ">=": value >= bound,
        "<=": value <= bound,
        ">": value > bound,
        "<": value < bound,
        "==": value == bound,
    }[match[1]]
