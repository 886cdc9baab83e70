"""A refusal has the form of the API that was asked."""

import json
from typing import Any

import pytest

from orchestrator.refusal import Refusal


def error(status: int, path: str) -> Any:
    return json.loads(Refusal(status, "why", "code", "model").body(path))


@pytest.mark.parametrize("path", ["", "/v1/chat/completions", "/v1/responses", "/v1/message"])
def test_openai_is_told_an_error_object(path: str) -> None:
    assert error(404, path) == {
        "error": {
            "message": "why",
            "type": "not_found_error",
            "param": "model",
            "code": "code",
            "source": "draftgate",
        }
    }


@pytest.mark.parametrize(
    "path", ["/v1/messages", "/v1/messages/count_tokens", "/v1/messages/batches"]
)
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (405, "invalid_request_error"),
        (408, "invalid_request_error"),
        (413, "request_too_large"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (502, "api_error"),
        (503, "overloaded_error"),
        (504, "timeout_error"),
    ],
)
def test_anthropic_is_told_a_typed_object(path: str, status: int, kind: str) -> None:
    told = {"type": kind, "message": "why", "code": "code", "source": "draftgate"}
    assert error(status, path) == {"type": "error", "error": told}
