"""The adapter contract: what every engine module offers, and how a running engine is spoken to."""

from collections.abc import Mapping
from typing import Protocol

from pydantic import JsonValue

from adapters.dialect import Dialect
from adapters.exchange import (
    AS_USUAL,
    Candidate,
    Conversation,
    Draws,
    Generation,
    How,
    Identity,
    Proof,
    Scored,
)
from adapters.launch import Launch, WorkerSpec
from adapters.problem import Problem
from adapters.profile import Profile
from adapters.setting import Setting


class Api(Protocol):
    """How a running engine is spoken to. Every function is a conversation: it does no I/O."""

    def identify(self) -> Conversation[Identity]:
        """What the engine says of itself, to know it from a stranger on the same port."""

    def complete(self, model: str) -> Conversation[str]:
        """A real, short completion: an engine that cannot do this is not ready."""

    def prove(self, model: str, profile: Profile) -> Conversation[Proof]:
        """Make the engine draft if it can, and say what its counters show."""

    def generate(
        self, model: str, request: Mapping[str, JsonValue], how: How = AS_USUAL
    ) -> Conversation[Generation]:
        """Greedy answer to one prompt line, as token ids.

        The line's own fields win over the greedy defaults, but for the temperature.
        """

    def candidates(
        self, model: str, ids: tuple[int, ...], count: int = 20
    ) -> Conversation[tuple[Candidate, ...]]:
        """The `count` likeliest next tokens after these ids at temperature 1, best first."""

    def score(
        self, model: str, ids: tuple[int, ...], start: int
    ) -> Conversation[tuple[Scored, ...] | None]:
        """Every id from position `start` on, teacher-forced; None: the engine cannot."""

    def wide(
        self, model: str, ids: tuple[int, ...], width: int
    ) -> Conversation[tuple[Candidate, ...] | None]:
        """The likeliest next tokens after these ids, computed `width` rows at once as a verify step
        does, by an engine without a drafter (launched with `wide_arguments`). None where the engine
        did not work so."""

    def sample(
        self, model: str, ids: tuple[int, ...], draws: Draws
    ) -> Conversation[tuple[tuple[int, ...], ...]]:
        """Sampled continuations as token ids, one for each draw.

        One that ended is shorter; the token that ended it is its last id.
        """


class Adapter(Protocol):
    """One engine. Satisfied by modules (PEP 544); see docs/structure.md for adding one.

    METRICS holds the counters it has, by the names of metric.py; METRICS_PATH is where they are
    served. ANSWER_COUNTS says where its answers tell numbers of tokens beside OpenAI's usage:
    object.field for completion, drafted and accepted. PACKAGES are the Python distributions that
    the engine may come in. COMMANDS are the programs that `command: auto` looks for; EMBEDDED is
    the module of ours that runs the engine where they are absent, and the package it needs.
    """

    TITLE: str
    SUPPORTED: tuple[Dialect, ...]
    COMMANDS: tuple[str, ...]
    PACKAGES: tuple[str, ...]
    EMBEDDED: tuple[str, str] | None
    HEALTH: str
    METRICS: Mapping[str, str]
    METRICS_PATH: str
    ANSWER_COUNTS: Mapping[str, str]
    api: Api

    def version_commands(self, command: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
        """Argvs that make the engine behind `command` tell its version, in order of preference."""

    def read_version(self, output: str) -> str | None:
        """The version in the output of one of them, or None where it tells none."""

    def limits(self, profile: Profile, version: str) -> Mapping[str, str]:
        """Request fields that this version cannot serve while speculating so, and why."""

    def most_at_once(self, args: Mapping[str, JsonValue]) -> int | None:
        """The most requests that a worker with these options decodes at once; None: not known."""

    def wide_arguments(self, width: int) -> Mapping[str, JsonValue] | None:
        """Options for a plain worker that scores `width` rows a step (Api.wide): none where every
        plain worker can; None where the engine cannot be made to."""

    def logit_type(self, worker: WorkerSpec) -> str | None:
        """float32, bfloat16 or float16: the type in which this worker's logits are rounded; None:
        not known."""

    def check(self, profile: Profile, worker: WorkerSpec) -> list[Problem]:
        """Everything this version refuses, ignores or does differently from what is asked."""

    def check_arguments(self, arguments: Mapping[str, JsonValue], version: str) -> list[Problem]:
        """Problems of engine options given outside a profile; paths start at the option."""

    def check_environment(self, environment: Mapping[str, str], version: str) -> list[Problem]:
        """Problems of environment variables for the engine; paths start at the variable."""

    def settings(self, profile: Profile, worker: WorkerSpec) -> tuple[Setting, ...]:
        """The profile's speculation in this engine's words, key by key: what `render` writes.

        A key that `check` refuses may have none; every other key of `speculation` has one.
        """

    def render(self, profile: Profile, worker: WorkerSpec) -> Launch:
        """The launch of a worker whose profile has no fatal problems."""
