"""Refusal: an answer of the router's own, in the form of the API that was asked.

OpenAI's error object, or Anthropic's, with a mark of its source.
"""

from dataclasses import dataclass

import msgspec

_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    502: "upstream_error",
    503: "unavailable_error",
}
# https://platform.claude.com/docs/en/api/errors; clients wait and ask again after an overload.
_ANTHROPIC_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}
_ANTHROPIC = "/v1/messages"  # how the paths of that API begin


@dataclass(frozen=True)
class Refusal:
    """Why a request is not served. `status` is the HTTP status, `code` OpenAI's error code."""

    status: int
    message: str
    code: str | None = None
    parameter: str | None = None
    allow: str | None = None  # value of the Allow header
    retry_after_s: int | None = None  # value of the Retry-After header

    def body(self, path: str = "") -> bytes:
        """The error object for a request to this path.

        Clients tell our errors from an engine's by `source`.
        """
        if path.startswith(_ANTHROPIC):
            return msgspec.json.encode({"type": "error", "error": self._for_anthropic()})
        fallback = "server_error" if self.status >= 500 else "invalid_request_error"
        error = {
            "message": self.message,
            "type": _TYPES.get(self.status, fallback),
            "param": self.parameter,
            "code": self.code,
            "source": "draftgate",
        }
        return msgspec.json.encode({"error": error})

    def _for_anthropic(self) -> dict[str, str | None]:
        fallback = "api_error" if self.status >= 500 else "invalid_request_error"
        return {
            "type": _ANTHROPIC_TYPES.get(self.status, fallback),
            "message": self.message,
            "code": self.code,
            "source": "draftgate",
        }
