"""Type rule: a condition set of a fleet file, and the request type that it stands for."""

import re
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, Field, WithJsonSchema

from adapters.profile import Model, Name
from orchestrator.pattern import compile_pattern

_COMPARISON = re.compile(r"(>=|<=|>|<|==)\s*(-?[0-9]+(?:\.[0-9]+)?)")


def _compiles(pattern: str) -> str:
    compile_pattern(pattern)
    return pattern


def _is_comparison(text: str) -> str:
    if not _COMPARISON.fullmatch(text):
        raise ValueError('a comparison is written ">=0.3"; <=, >, < and == are the others')
    return text


Pattern: TypeAlias = Annotated[str, AfterValidator(_compiles)]
Comparison: TypeAlias = Annotated[
    str,
    AfterValidator(_is_comparison),
    WithJsonSchema({"type": "string", "pattern": f"^{_COMPARISON.pattern}$"}),
]


class When(Model):
    """Conditions of a request type; all that are given must hold."""

    response_format: tuple[str, ...] | None = None
    temperature: Comparison | None = None
    max_tokens: Comparison | None = None
    prompt_chars: Comparison | None = Field(default=None, description="Characters of all messages.")
    turns: Comparison | None = Field(default=None, description="Number of messages.")
    fenced: Comparison | None = Field(
        default=None, description="Share of characters in code fences."
    )
    overlap: Comparison | None = Field(default=None, description="Share of repeated word 4-grams.")
    last_user: Pattern | None = Field(default=None, description="Searched: RE2 syntax.")
    system: Pattern | None = Field(default=None, description="Searched: RE2 syntax.")
    model: tuple[str, ...] | None = None
    tools: bool | None = None
    stream: bool | None = None


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
