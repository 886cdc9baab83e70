"""Refusal: an answer of the router's own, as OpenAI's error object with a mark of its source."""

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


@dataclass(frozen=True)
class Refusal:
    """Why a request is not served. `status` is the HTTP status, `code` OpenAI's error code."""

    status: int
    message: str
    code: str | None = None
    parameter: str | None = None
    allow: str | None = None  # value of the Allow header
    retry_after_s: int | None = None  # value of the Retry-After header

    def body(self) -> bytes:
        """The error object. Clients tell our errors from an engine's by `source`."""
        fallback = "server_error" if self.status >= 500 else "invalid_request_error"
        error = {
            "message": self.message,
            "type": _TYPES.get(self.status, fallback),
            "param": self.parameter,
            "code": self.code,
            "source": "draftgate",
        }
        return msgspec.json.encode({"error": error})
