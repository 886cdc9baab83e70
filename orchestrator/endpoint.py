"""Endpoint: the paths that clients may use, and what the router makes of each."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

Use: TypeAlias = Literal["generate", "other", "own"]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """generate: has a request type; other: goes to a worker, without one; own: answered here."""

    methods: tuple[str, ...]
    use: Use


_GENERATE = Endpoint(("POST",), "generate")
_OTHER = Endpoint(("POST",), "other")
_OWN = Endpoint(("GET", "HEAD"), "own")
_ANY = Endpoint(("GET", "HEAD", "POST"), "other")

# Below it, each model has a path of its own.
MODELS = "/v1/models"
HEALTH = "/health"
# OpenAI's, Anthropic's, and what the engines added to them. Paths that one engine lacks are that
# engine's own 404.
ENDPOINTS: Mapping[str, Endpoint] = {
    "/v1/chat/completions": _GENERATE,
    "/v1/completions": _GENERATE,
    "/v1/responses": _GENERATE,
    "/v1/messages": _GENERATE,
    "/v1/messages/count_tokens": _OTHER,
    "/v1/embeddings": _OTHER,
    "/tokenize": _OTHER,
    "/detokenize": _OTHER,
    MODELS: _OWN,
    HEALTH: _OWN,
}


def endpoints(allowed: Iterable[str]) -> dict[str, Endpoint]:
    """All paths of a router, with those that its fleet allows beside them."""
    return {**dict.fromkeys(allowed, _ANY), **ENDPOINTS}
