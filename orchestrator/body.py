"""Body: a request's JSON, decoded once into the few fields that conditions look at.

The rest is stepped over. A field of a wrong type is as if it were not there: the engine owns that
error.
"""

from collections.abc import Collection, Mapping
from functools import cache
from typing import Any, TypeAlias, cast

import msgspec
from msgspec.structs import fields as fields_of

from orchestrator.conversation import ABSENT, Message

Fields: TypeAlias = Mapping[str, msgspec.Raw]


class Body(msgspec.Struct, frozen=True):
    """None, or ABSENT: the field is not given. Raw ones are decoded by whoever needs them."""

    model: str | None = None
    stream: bool | None = None
    messages: list[Message] | None = None
    prompt: msgspec.Raw = ABSENT
    input: msgspec.Raw = ABSENT
    system: msgspec.Raw = ABSENT
    instructions: msgspec.Raw = ABSENT
    temperature: float | None = None
    top_p: float | None = None
    min_p: float | None = None
    n: float | None = None
    max_tokens: float | None = None
    max_completion_tokens: float | None = None
    max_output_tokens: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    repetition_penalty: float | None = None
    repeat_penalty: float | None = None
    response_format: msgspec.Raw = ABSENT
    text: msgspec.Raw = ABSENT
    tools: msgspec.Raw = ABSENT
    functions: msgspec.Raw = ABSENT
    logprobs: msgspec.Raw = ABSENT
    top_logprobs: msgspec.Raw = ABSENT
    logit_bias: msgspec.Raw = ABSENT
    metadata: msgspec.Raw = ABSENT
    lora: msgspec.Raw = ABSENT
    lora_path: msgspec.Raw = ABSENT
    lora_request: msgspec.Raw = ABSENT
    user: msgspec.Raw = ABSENT
    safety_identifier: msgspec.Raw = ABSENT
    prompt_cache_key: msgspec.Raw = ABSENT


class BodyReader:
    """Reads bodies. `more` are names of fields beside Body's that will be asked for."""

    def __init__(self, more: Collection[str] = ()) -> None:
        own = sorted(set(more) - {field.encode_name for field in fields_of(Body)})
        names = {f"more_{index}": name for index, name in enumerate(own)}
        self._kind = _extended(names) if names else Body
        # Raises what msgspec does where a known field has a wrong type, or the body is none.
        self.decode = msgspec.json.Decoder(self._kind).decode

    def sound_fields(self, source: bytes) -> tuple[Body, Fields]:
        """The fields that have the right type; and all fields, as they are.

        Raises ValueError when the body is not a JSON object.
        """
        given = scan(source)
        return self._kind(**_sound(self._kind, given)), given


def _extended(names: Mapping[str, str]) -> type[Body]:
    given = [(name, msgspec.Raw, ABSENT) for name in names]
    kind = msgspec.defstruct("Body", given, bases=(Body,), rename=dict(names), frozen=True)
    return cast(type[Body], kind)


def scan(source: bytes) -> Fields:
    """All top-level fields, still as JSON. Raises ValueError when it is not a JSON object."""
    try:
        return _scan(source)
    except msgspec.ValidationError:
        raise ValueError("the request body must be a JSON object") from None
    except msgspec.DecodeError as error:
        raise ValueError(f"the request body is not JSON: {error}") from None
    except (RecursionError, UnicodeDecodeError):
        raise ValueError("the request body is nested too deeply or is not UTF-8") from None


def decode(raw: msgspec.Raw | bytes) -> Any:
    """A value as data; None when it is absent, null or no valid JSON."""
    try:
        return _decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


_scan = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode = msgspec.json.Decoder().decode


@cache
def attributes(kind: type[Body]) -> Mapping[str, str]:
    """Name of a field in JSON → of its attribute."""
    return {field.encode_name: field.name for field in fields_of(kind)}


@cache
def _decoders(kind: type[Body]) -> Mapping[str, msgspec.json.Decoder[Any]]:
    return {field.encode_name: msgspec.json.Decoder(field.type) for field in fields_of(kind)}


def _sound(kind: type[Body], given: Fields) -> dict[str, Any]:
    """The known fields that have the right type."""
    decoders, names, found = _decoders(kind), attributes(kind), {}
    for name in given.keys() & names.keys():
        try:
            found[names[name]] = decoders[name].decode(given[name])
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            continue
    return found
