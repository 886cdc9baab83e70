"""Excerpt: text of a request as its JSON has it, and as much of it decoded as conditions look at.

A body of 128 KB takes longer to decode, or to copy, than to classify, so that long texts stay where
they are. Pure.
"""

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

# A JSON string with its quotes.
JsonText: TypeAlias = bytes | memoryview

# Bytes of JSON. A longer text is searched in its beginning and its end, half of these each.
EXCERPT_BYTES = 8192
# Longer texts are measured by their beginning.
COUNTED_BYTES = 16384

# Stands for what was left out; no expression crosses it by way of white space alone.
GAP = " … "

_HALF = EXCERPT_BYTES // 2
_MEASURED = 2048
_NEAR = 128  # bytes in which a space to cut at is looked for
_LONGEST_ESCAPE = 12  # bytes: a surrogate pair
_decode = msgspec.json.Decoder(str).decode


def decoded(text: JsonText) -> str | None:
    """The text of a JSON string; None where it is none."""
    try:
        return _decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def decoded_all(texts: Sequence[JsonText]) -> list[str]:
    """Of each; empty where it is no text."""
    try:
        return [_decode(text) for text in texts]
    except (msgspec.DecodeError, UnicodeDecodeError):
        return [decoded(text) or "" for text in texts]


def measure(text: JsonText) -> tuple[str, float]:
    """The beginning of a long text, and how many bytes of JSON make a character there."""
    beginning = _longest(bytes(text[1 : _MEASURED + 1]), 0)
    return beginning, _MEASURED / max(1, len(beginning))


def excerpt(text: JsonText) -> str:
    """The whole text, or its beginning and end with GAP between; empty where it is no text."""
    if len(text) <= EXCERPT_BYTES:
        return decoded(text) or ""
    return f"{_beginning(bytes(text[1:_HALF]))}{GAP}{_end(bytes(text[-_HALF:-1]))}"


def characters(text: JsonText) -> float:
    """How many there are; estimated beyond COUNTED_BYTES."""
    if len(text) <= COUNTED_BYTES:
        return float(len(decoded(text) or ""))
    return (len(text) - 2) / measure(text)[1]


def _beginning(part: bytes) -> str:
    space = part.rfind(b" ", len(part) - _NEAR)
    return _longest(part[:space] if space >= 0 else part, 0)


def _end(part: bytes) -> str:
    start = part.find(b" ", 0, _NEAR) + 1 or max(0, part.find(b"\\", 0, _LONGEST_ESCAPE))
    return _longest(part[start:], 1)


def _longest(part: bytes, side: int) -> str:
    """A part that was cut out anywhere, without what an escape or a character lost to the cut."""
    for lost in range(_LONGEST_ESCAPE):
        found = decoded(b'"%b"' % (part[lost:] if side else part[: len(part) - lost]))
        if found is not None:
            return found
    return ""
