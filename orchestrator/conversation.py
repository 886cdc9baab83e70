"""Conversation: the messages of a request body, whichever API it speaks. Pure.

Chat completions, completions, responses, embeddings and Anthropic's messages all become roles and
texts. Texts stay as their JSON has them: see excerpt.py.
"""

from collections.abc import Iterable

import msgspec

from orchestrator.excerpt import JsonText

ABSENT = msgspec.Raw()  # a field that is not given

_JOINT = b"\\n"  # a line break, in JSON
_EMPTY = b'""'
_TEXT, _LIST = b'"['
_MEDIA = ("image", "input_image", "audio", "input_audio", "video", "input_video")
_MEDIA_KINDS = frozenset({*_MEDIA, *(f"{kind}_url" for kind in ("image", "audio", "video"))})


class Part(msgspec.Struct, frozen=True, gc=False):
    """A content block."""

    type: str | None = None
    text: msgspec.Raw = ABSENT
    content: msgspec.Raw = ABSENT  # of a tool's result


class Message(msgspec.Struct, frozen=True, gc=False):
    """A message as it stands in `messages`, or an item of `input`."""

    role: str | None = None
    content: msgspec.Raw = ABSENT
    type: str | None = None
    output: msgspec.Raw = ABSENT  # of a function call that was answered


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One message."""

    role: str
    text: JsonText
    has_media: bool = False


_parts = msgspec.json.Decoder(list[Part]).decode
_items = msgspec.json.Decoder(list[Message]).decode
_list = msgspec.json.Decoder(list[msgspec.Raw]).decode


def from_messages(messages: list[Message], system: msgspec.Raw) -> list[Entry]:
    """Of chat completions, or of Anthropic's API with its `system` beside the messages."""
    found = _instructions(system)
    for message in messages:
        content = memoryview(message.content)
        if content and content[0] == _TEXT:
            found.append(Entry(message.role or "", content))
        else:
            found += _entries(message.role or "", message.content)
    return found


def from_prompt(prompt: msgspec.Raw) -> list[Entry]:
    """A completion prompt, or what is to be embedded, is one message of the user."""
    content = memoryview(prompt)
    if _begins(content, _LIST):
        return [Entry("user", _joined(map(memoryview, _list(content))))]
    return [Entry("user", content if _begins(content, _TEXT) else _EMPTY)]


def from_input(given: msgspec.Raw, instructions: msgspec.Raw) -> list[Entry]:
    """Of the responses API: a text, or items some of which are messages."""
    found = _instructions(instructions)
    items = _read_items(given)
    if items is None:
        return found + from_prompt(given)
    for item in items:
        if item.role is not None:
            found += _entries(item.role, item.content)
        elif item.output is not ABSENT:
            found += _entries("tool", item.output)
    return found


def _read_items(given: msgspec.Raw) -> list[Message] | None:
    """The items of an `input` that is a list of objects."""
    if not _begins(memoryview(given), _LIST):
        return None
    try:
        return _items(given)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _instructions(given: msgspec.Raw) -> list[Entry]:
    if given is ABSENT or bytes(memoryview(given)[:4]) == b"null":
        return []
    return _entries("system", given)


def _entries(role: str, content: msgspec.Raw) -> list[Entry]:
    """A message, after the tools' results that stand among its blocks."""
    text = memoryview(content)
    if _begins(text, _TEXT):
        return [Entry(role, text)]
    if not _begins(text, _LIST):
        return [Entry(role, _EMPTY)]
    try:
        parts = _parts(content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        parts = []
    results = [part.content for part in parts if part.type == "tool_result"]
    found = [entry for result in results for entry in _entries("tool", result)]
    if len(results) < len(parts) or not parts:
        texts = (memoryview(part.text) for part in parts)
        has_media = any(part.type in _MEDIA_KINDS for part in parts)
        found.append(Entry(role, _joined(texts), has_media))
    return found


def _joined(values: Iterable[memoryview]) -> JsonText:
    """Those that are texts, as one."""
    texts = [value for value in values if _begins(value, _TEXT)]
    if len(texts) == 1:
        return texts[0]
    return b'"%b"' % _JOINT.join([text[1:-1] for text in texts])


def _begins(value: memoryview, byte: int) -> bool:
    return len(value) > 0 and value[0] == byte
