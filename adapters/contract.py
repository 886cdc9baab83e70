"""The adapter contract: what every engine module offers, and how a running engine is spoken to."""

from collections.abc import Mapping
from typing import Protocol

from pydantic import JsonValue

from adapters.dialect import Dialect
from adapters.exchange import Candidate, Conversation, Generation, Identity, Proof
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

    def generate(self, model: str, request: Mapping[str, JsonValue]) -> Conversation[Generation]:
        """Greedy answer to one prompt line, as token ids. Fields of the line are passed on."""

    def candidates(self, model: str, ids: tuple[int, ...]) -> Conversation[tuple[Candidate, ...]]:
        """The likeliest next tokens after these ids, best first."""


class Adapter(Protocol):
    """One engine. Satisfied by modules (PEP 544); see docs/structure.md for adding one.

    METRICS holds the counters it has, by the names of metric.py; METRICS_PATH is where they are
    served. COMMANDS are the programs that `command: auto` looks for; EMBEDDED is the module of
    ours that runs the engine where they are absent, and the package it needs.
    """

    TITLE: str
    SUPPORTED: tuple[Dialect, ...]
    COMMANDS: tuple[str, ...]
    EMBEDDED: tuple[str, str] | None
    HEALTH: str
    METRICS: Mapping[str, str]
    METRICS_PATH: str
    api: Api

    def version_commands(self, command: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
        """Argvs that make the engine behind `command` tell its version, in order of preference."""

    def read_version(self, output: str) -> str | None:
        """The version in the output of one of them, or None where it tells none."""

    def limits(self, profile: Profile, version: str) -> Mapping[str, str]:
        """Request fields that this version cannot serve while speculating so, and why."""

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
