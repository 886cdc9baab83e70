"""Talking to an engine without doing I/O: a conversation yields calls and receives replies.

Adapters write conversations; orchestrator/wire.py holds them over HTTP. So what is asked of an
engine, and how its answer is read, is tested without one and written once per engine.
"""

import functools
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, Final, ParamSpec, TypeAlias, TypeVar

import msgspec

P = ParamSpec("P")
T = TypeVar("T")


# A model folder's generation_config.json changes even greedy output (repetition_penalty), so every
# sampling field of an OpenAI-style request is written out.
GREEDY: Final[Mapping[str, Any]] = {
    "temperature": 0,
    "top_p": 1,
    "top_k": 0,
    "repetition_penalty": 1,
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "seed": 0,
}


def greedy(request: Mapping[str, Any], defaults: Mapping[str, Any] = GREEDY) -> dict[str, Any]:
    """A prompt line's own fields over the defaults, but always at temperature 0.

    How the answer is sent is no matter of the line's: `stream` is left out.
    """
    fields = {name: value for name, value in request.items() if not name.startswith("stream")}
    return {**defaults, **fields, "temperature": 0}


class EngineAnswerError(Exception):
    """The engine answered, but not with what its version is known to answer."""


@dataclass(frozen=True)
class Call:
    """One HTTP request; a body means POST with JSON, none means GET."""

    path: str
    body: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Reply:
    """What came back: status and body text."""

    call: Call
    status: int
    text: str

    def json(self) -> Any:
        """The body as data. Raises EngineAnswerError when the call failed or this is not JSON."""
        self.require_ok()
        try:
            return msgspec.json.decode(self.text)
        except (msgspec.DecodeError, RecursionError) as error:
            message = f"{self.call.path} answered no JSON: {self.text[:200]!r}"
            raise EngineAnswerError(message) from error

    def require_ok(self) -> str:
        """The body text of a successful answer; raises EngineAnswerError otherwise."""
        if self.status != 200:
            excerpt = " ".join(self.text[:300].split())
            raise EngineAnswerError(f"{self.call.path} answered {self.status}: {excerpt}")
        return self.text


Conversation: TypeAlias = Generator[Call, Reply, T]


def conversation(start: Callable[P, Conversation[T]]) -> Callable[P, Conversation[T]]:
    """Turns what reading an unforeseen answer raises into EngineAnswerError.

    Whatever listens on a port may answer anything: JSON of another shape is no bug of ours.
    """

    @functools.wraps(start)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> Conversation[T]:
        try:
            return (yield from start(*args, **kwargs))
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            message = f"an answer of an unknown shape ({type(error).__name__}: {error})"
            raise EngineAnswerError(message) from error

    return guarded


@dataclass(frozen=True)
class Identity:
    """What a running engine says of itself. `models` are names it serves; `weights` is the
    path or id that it loaded them from, `context` the longest prompt and answer together in
    tokens, where the engine tells."""

    version: str | None
    models: tuple[str, ...]
    weights: str | None = None
    context: int | None = None


@dataclass(frozen=True)
class Proof:
    """What shows whether drafts are made. None: the engine has no such counter."""

    drafted: int | None
    accepted: int | None
    detail: str = ""


@dataclass(frozen=True)
class Generation:
    """One answer as token ids. `prompt_ids` are the ids the engine really read.

    `drafted` and `accepted` are what the engine counted for this answer, where it tells.
    `own_margins` (How.own_margins): per token, nats by which the best of its own log-probabilities
    exceeds it; 0 where it is the best. None where the engine gives no usable ones.
    """

    prompt_ids: tuple[int, ...]
    ids: tuple[int, ...]
    text: str
    finish_reason: str
    seconds: float = 0.0
    drafted: int | None = None
    accepted: int | None = None
    own_margins: tuple[float, ...] | None = None


@dataclass(frozen=True)
class How:
    """How an answer is asked for: as a stream, with its own log-probabilities, with the engine's
    prompt cache left on (off by default where the engine has that switch)."""

    stream: bool = False
    own_margins: bool = False
    keep_cache: bool = False


AS_USUAL: Final = How()


@dataclass(frozen=True)
class Draws:
    """`count` answers of `length` tokens at a temperature, nothing cut (top_p 1, no top_k).

    Each of them is drawn with a seed of its own, counted up from `seed`.
    """

    count: int
    length: int
    temperature: float
    seed: int


@dataclass(frozen=True)
class Scored:
    """A given token, teacher-forced: its log-probability, and the best token's, in nats."""

    token: int
    logprob: float
    best: int
    best_logprob: float


@dataclass(frozen=True)
class Candidate:
    """A next token and its log-probability in nats."""

    token: int
    logprob: float
    text: str = ""


def field(data: Any, *path: str | int) -> Any:
    """`data[path[0]][path[1]]…`; raises EngineAnswerError naming the path when it is not there."""
    here = data
    for part in path:
        try:
            here = here[part]
        except (KeyError, IndexError, TypeError) as error:
            where = ".".join(str(p) for p in path)
            message = f"the engine's answer has no {where}: {str(data)[:200]}"
            raise EngineAnswerError(message) from error
    return here
