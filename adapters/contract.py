"""The adapter contract: what every engine module offers, and how a running engine is spoken to."""

from collections.abc import Mapping
from typing import Protocol

from pydantic import JsonValue

from adapters.dialect import Dialect
from adapters.exchange import Candidate, Conversation, Generation, Identity, Proof
from adapters.launch import Launch, WorkerSpec
from adapters.problem import Problem
from adapters.profile import Profile


class Api(Protocol):
    """How a running engine is spoken to. Every function is a conversation: it does no I/O."""

    def identify(self) -> Conversation[Identity]:
        """What the engine says of itself, to know it from a stranger on the same port."""

    def complete(self, model: str) -> Conversation[str]:
        """A real, short completion: an engine that cannot do this is not ready."""

    def prove(self, model: str, profile: Profile) -> Conversation[Proof]:
        """Make the engine draft if it can, and say what its counters show."""

    def generate(self, model: str, request: Mapping[str, JsonValue]) -> Conversation[Generation]:
        """Greedy answer to one prompt line, as token ids. Fields of the line are passed on."""

    def candidates(self, model: str, ids: tuple[int, ...]) -> Conversation[tuple[Candidate, ...]]:
        """The likeliest next tokens after these ids, best first."""


class Adapter(Protocol):
    """One engine. Satisfied by modules (PEP 544); see docs/structure.md for adding one.

    COMMANDS are the programs that `command: auto` looks for; EMBEDDED is the module of ours that
    runs the engine where they are absent, and the package it needs. LIMITS maps a request field to
    why this engine cannot serve it while speculating.
    """

    TITLE: str
    SUPPORTED: tuple[Dialect, ...]
    COMMANDS: tuple[str, ...]
    EMBEDDED: tuple[str, str] | None
    HEALTH: str
    METRICS: Mapping[str, str]
    LIMITS: Mapping[str, str]
    api: Api

    def version_command(self, command: tuple[str, ...]) -> tuple[str, ...]:
        """The argv that prints the version of the engine behind `command`."""

    def read_version(self, output: str) -> str | None:
        """The version in that output."""

    def check(self, profile: Profile, worker: WorkerSpec) -> list[Problem]:
        """Everything this version refuses, ignores or does differently from what is asked."""

    def check_arguments(self, arguments: Mapping[str, JsonValue], version: str) -> list[Problem]:
        """Problems of engine options given outside a profile; paths start at the option."""

    def render(self, profile: Profile, worker: WorkerSpec) -> Launch:
        """The launch of a worker whose profile has no fatal problems."""
