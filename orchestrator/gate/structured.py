"""What structured suites ask for where no prompt brings a schema or a tool of its own."""

from collections.abc import Mapping
from typing import Any, Final

SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "language": {"type": "string", "enum": ["English", "German", "French", "code", "other"]},
        "is_question": {"type": "boolean"},
        "has_numbers": {"type": "boolean"},
    },
    "required": ["language", "is_question", "has_numbers"],
    "additionalProperties": False,
}
FORMAT: Final[Mapping[str, Any]] = {
    "type": "json_schema",
    "json_schema": {"name": "description", "schema": SCHEMA},
}
TOOL: Final[Mapping[str, Any]] = {
    "type": "function",
    "function": {
        "name": "remember",
        "description": "Keeps what the user said.",
        "parameters": SCHEMA,
    },
}
