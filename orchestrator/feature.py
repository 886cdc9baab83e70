"""Feature: what a request body tells, each worked out when it is first asked for."""

from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, AnyStr, Generic, TypeVar

import msgspec

from orchestrator.body import Body, BodyReader, Fields, attributes, decode, scan
from orchestrator.conversation import ABSENT, Entry, from_input, from_messages, from_prompt
from orchestrator.excerpt import EXCERPT_BYTES, characters, decoded_all, excerpt, measure
from orchestrator.intent import intents
from orchestrator.language import language
from orchestrator.overlap import overlap

T = TypeVar("T")

_JOINT = b"\\n"
_INSTRUCTING = ("system", "developer")
_FENCED_BYTES = 16384
_HEAD_BYTES = 1024
_HARDLY_LESS = 0.95
_SHORT = 16  # bytes; no longer value is empty
_NONE: frozenset[str] = frozenset()


class Lazy(Generic[T]):
    """A property that is computed once. functools.cached_property takes a lock each time."""

    def __init__(self, read: Callable[[Any], T]) -> None:
        self._read = read
        self._name = read.__name__

    def __get__(self, instance: object, owner: type) -> T:
        value = self._read(instance)
        instance.__dict__[self._name] = value
        return value


class Features:
    """One request body."""

    def __init__(self, body: Body, given: Fields | None, source: bytes) -> None:
        self.body = body
        self.model = body.model
        self._source = source
        self._given = given

    @Lazy
    def fields(self) -> Fields:
        """All top-level fields, still as JSON. Costs another pass over the body."""
        return scan(self._source) if self._given is None else self._given

    def get(self, name: str) -> Any:
        """A field as data; None when it is absent, null or no valid JSON."""
        attribute = attributes(type(self.body)).get(name)
        if attribute is not None and self._given is None:
            value = getattr(self.body, attribute)
            if isinstance(value, msgspec.Raw):
                return None if value is ABSENT else decode(value)
            if name != "messages":
                return value
        raw = self.fields.get(name)
        return None if raw is None else decode(raw)

    def is_set(self, name: str) -> bool:
        """Whether a field asks for something: not null, false, 0 or empty."""
        attribute = attributes(type(self.body)).get(name)
        if attribute is None or self._given is not None:
            raw = self.fields.get(name)
            return raw is not None and _asks(raw)
        return _asks(getattr(self.body, attribute))

    def set_among(self, names: Collection[str]) -> frozenset[str]:
        """Those of `names` that are set."""
        wanted = frozenset(names)
        known = _known(type(self.body), wanted)
        if known is None or self._given is not None:
            return frozenset(name for name in wanted if self.is_set(name))
        read, absent = known
        return _NONE if read(self.body) == absent else frozenset(filter(self.is_set, wanted))

    @property
    def temperature(self) -> float | None:
        return self.body.temperature

    @property
    def stream(self) -> bool:
        return self.body.stream is True

    @property
    def top_p(self) -> float | None:
        return self.body.top_p

    @property
    def min_p(self) -> float | None:
        return self.body.min_p

    @property
    def n(self) -> float:
        """Every engine makes one answer where nothing is said."""
        return 1.0 if self.body.n is None else self.body.n

    @property
    def max_tokens(self) -> float | None:
        body = self.body
        given = (body.max_completion_tokens, body.max_output_tokens, body.max_tokens)
        return next((value for value in given if value is not None), None)

    @property
    def tools(self) -> bool:
        return self.is_set("tools") or self.is_set("functions")

    @property
    def logprobs(self) -> bool:
        """`logprobs: 0` of the completions API asks for those of the tokens themselves."""
        given = self.body.logprobs
        return self.is_set("top_logprobs") or self.is_set("logprobs") or bytes(given) == b"0"

    @property
    def logit_bias(self) -> bool:
        return self.is_set("logit_bias")

    @property
    def penalties(self) -> bool:
        """Whether a penalty is given that changes something."""
        body = self.body
        added = body.frequency_penalty or body.presence_penalty
        return bool(added) or not {body.repetition_penalty, body.repeat_penalty} <= {None, 1.0}

    @property
    def response_format(self) -> str:
        """OpenAI's default is text. The responses API has it in `text.format`."""
        if self.body.response_format is not ABSENT:
            found = decode(self.body.response_format)
        elif self.body.text is not ABSENT:
            text = decode(self.body.text)
            found = text.get("format") if isinstance(text, dict) else None
        else:
            return "text"
        kind = found.get("type") if isinstance(found, dict) else None
        return kind if isinstance(kind, str) else "text"

    @Lazy
    def lora(self) -> frozenset[str]:
        """Adapters asked for beside the model's name: names, paths, or numbers as text."""
        body = self.body
        if body.lora is ABSENT and body.lora_path is ABSENT and body.lora_request is ABSENT:
            return _NONE
        given = (decode(body.lora), decode(body.lora_path), decode(body.lora_request))
        return frozenset(name for value in given for name in _adapters(value))

    @property
    def named_type(self) -> str | None:
        """The type that the client names in `metadata.draftgate_type`."""
        if self.body.metadata is ABSENT:
            return None
        metadata = decode(self.body.metadata)
        found = metadata.get("draftgate_type") if isinstance(metadata, dict) else None
        return found if isinstance(found, str) else None

    @Lazy
    def messages(self) -> Sequence[Entry]:
        """Every message, whichever API the body speaks; see conversation.py."""
        body = self.body
        if body.messages is not None:
            return from_messages(body.messages, body.system)
        if body.prompt is not ABSENT:
            return from_prompt(body.prompt)
        return from_input(body.input, body.instructions)

    @Lazy
    def texts(self) -> list[str] | None:
        """The texts of all messages; None where they are long: then they stay as JSON."""
        if len(self._source) > EXCERPT_BYTES and self._size() > EXCERPT_BYTES:
            return None
        return decoded_all([entry.text for entry in self.messages])

    def _size(self) -> int:
        """Of all texts, in bytes of JSON."""
        return sum([len(entry.text) for entry in self.messages])

    @Lazy
    def _text(self) -> str | None:
        """All of it as one, where it is short."""
        return None if self.texts is None else "\n".join(self.texts)

    @property
    def turns(self) -> float:
        return float(len(self.messages))

    @property
    def images(self) -> bool:
        """Whether a message has an image, a sound or a video."""
        return any(entry.has_media for entry in self.messages)

    @property
    def prompt_chars(self) -> float:
        """Of all messages; estimated where they are long."""
        if self._text is not None:
            return float(len(self._text) - max(0, len(self.messages) - 1))
        return sum(characters(entry.text) for entry in self.messages)

    @property
    def fenced(self) -> float:
        """Share of the text between ``` and ```; an open fence lasts to its message's end.

        Of a long message its first _FENCED_BYTES count.
        """
        if self._text is not None and self.texts is not None:
            return _fenced(self.texts, "```") if "```" in self._text else 0.0
        return _fenced([bytes(entry.text[1:_FENCED_BYTES]) for entry in self.messages], b"```")

    @property
    def overlap(self) -> float:
        """Share of the text that repeats what stood in it before; see overlap.py."""
        text = self._text
        if text is not None:
            data = text.encode()
            return overlap(data, text, len(data) / max(1, len(text)))
        longest = max(self.messages, key=_length).text
        return overlap(self._whole(), *measure(longest))

    def _whole(self) -> bytes:
        """All texts; or the body as it stands where it holds hardly anything else."""
        if self._size() > len(self._source) * _HARDLY_LESS:
            return self._source
        return _JOINT.join([entry.text[1:-1] for entry in self.messages])

    @Lazy
    def last_user(self) -> str | None:
        """Text of the user's last message, as much as excerpt.py gives."""
        messages, texts = self.messages, self.texts
        for place in range(len(messages) - 1, -1, -1):
            if messages[place].role == "user":
                return excerpt(messages[place].text) if texts is None else texts[place]
        return None

    @Lazy
    def system(self) -> str | None:
        """Text of the system and developer messages, as much as excerpt.py gives."""
        found = [entry.text[1:-1] for entry in self.messages if entry.role in _INSTRUCTING]
        return excerpt(b'"%b"' % _JOINT.join(found)) if found else None

    @property
    def language(self) -> str:
        return language(self.last_user or "")

    @property
    def intent(self) -> frozenset[str]:
        return intents(self.last_user or "")

    @property
    def head(self) -> bytes | None:
        """How the prompt begins, as JSON has it: a conversation's turns share it. None: no text."""
        found = b""
        for entry in self.messages:
            found += entry.role.encode() + bytes(entry.text[:_HEAD_BYTES])
            if len(found) >= _HEAD_BYTES:
                break
        return found[:_HEAD_BYTES] if any(len(entry.text) > 2 for entry in self.messages) else None


class FeatureReader(BodyReader):
    """Reads bodies. `more` are fields that `set_among` and `is_set` will be asked for."""

    def features(self, source: bytes) -> Features:
        """The features of a request body. Raises ValueError when it is not a JSON object."""
        try:
            body, given = self.decode(source), None
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            body, given = self.sound_fields(source)
        return Features(body, given, source)


read_features = FeatureReader().features


@lru_cache(maxsize=64)
def _known(
    kind: type[Body], names: frozenset[str]
) -> tuple[Callable[[Body], Any], tuple[Any, ...]] | None:
    """What reads these fields at once, and what it gives where none is there."""
    known = attributes(kind)
    if not names or not names <= known.keys():
        return None
    found = [known[name] for name in names]
    read = attrgetter(*(found if len(found) > 1 else found * 2))
    return read, read(kind())


def _asks(value: Any) -> bool:
    if not isinstance(value, msgspec.Raw):
        return bool(value)
    return value is not ABSENT and (len(memoryview(value)) > _SHORT or bool(decode(value)))


def _length(entry: Entry) -> int:
    return len(entry.text)


def _fenced(texts: Sequence[AnyStr], fence: AnyStr) -> float:
    inside = sum([len(part) for text in texts for part in text.split(fence)[1::2]])
    return inside / sum(map(len, texts)) if inside else 0.0


def _adapters(value: Any) -> list[str]:
    """Names in what engines call lora, lora_path or lora_request; a scale of 0 is none."""
    if isinstance(value, list):
        return [name for one in value for name in _adapters(one)]
    if isinstance(value, str):
        return [value] if value else []
    if not isinstance(value, dict) or value.get("scale") == 0:
        return []
    given = (value.get(key) for key in ("lora_name", "name", "id", "lora_path"))
    return [str(one) for one in given if isinstance(one, str | int)][:1]
