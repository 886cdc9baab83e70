"""Launch: what starts one worker, as data. Rendering writes nothing and starts nothing."""

import hashlib
import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pydantic import JsonValue

from adapters.checkpoint import Checkpoint
from adapters.profile import EngineName

GPU_VARIABLE = "CUDA_VISIBLE_DEVICES"
# Stands in arguments for the folder that holds the launch's files, until there is one.
FILES = "@files"


@dataclass(frozen=True)
class Model:
    """The weights a worker serves. Targets and drafts are local paths or hub ids.

    `facts` and `draft_facts` hold what the files of local ones say; a hub id has none.
    """

    name: str
    target: str
    context: int | None = None  # tokens
    drafts: Mapping[str, str] = field(default_factory=dict)
    revision: str | None = None
    facts: Checkpoint | None = None
    draft_facts: Mapping[str, Checkpoint] = field(default_factory=dict)


@dataclass(frozen=True)
class WorkerSpec:
    """What an adapter needs to know of one worker. `command` is the resolved engine program."""

    name: str
    engine_version: str
    command: tuple[str, ...]
    model: Model
    port: int
    host: str = "127.0.0.1"
    gpus: tuple[int, ...] | None = None
    args: Mapping[str, JsonValue] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    memory_gib: float | None = None  # for weights and KV cache, over all its devices
    engine: EngineName | None = None

    def environment(self) -> dict[str, str]:
        """The variables this worker adds to the inherited ones; `gpus: []` hides every GPU."""
        if self.gpus is None:
            return dict(self.env)
        return {**self.env, GPU_VARIABLE: ",".join(str(gpu) for gpu in self.gpus)}


@dataclass(frozen=True)
class Launch:
    """`command` starts the engine, `arguments` configure it, `address` says where it listens.

    `batch_limit` is the largest number of requests at once for which this launch does what the
    profile's schedule says; None when the engine follows the schedule itself. `files` are texts by
    name; arguments refer to one as `@files/name` until `placed` says where they are. `served_name`
    is what the engine calls its model where it cannot be told the fleet's name.
    """

    command: tuple[str, ...]
    arguments: tuple[str, ...]
    address: tuple[str, ...]
    port: int
    host: str = "127.0.0.1"
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    image: str | None = None
    batch_limit: int | None = None
    served_name: str | None = None

    @property
    def argv(self) -> tuple[str, ...]:
        return self.command + self.arguments + self.address

    def placed(self, folder: str) -> "Launch":
        """The launch with its files in this folder."""
        places = {f"{FILES}/{name}": f"{folder}/{name}" for name in self.files}
        return replace(self, arguments=tuple(places.get(a, a) for a in self.arguments))

    def text(self) -> str:
        """The golden form: one argument a line, then env and files."""
        lines = [shlex.quote(argument) for argument in self.argv]
        lines += [f"env {name}={shlex.quote(value)}" for name, value in sorted(self.env.items())]
        for name, content in sorted(self.files.items()):
            lines += [f"file {name}", *(f"  {line}" for line in content.splitlines())]
        if self.batch_limit is not None:
            lines.append(f"batch-limit {self.batch_limit}")
        return "\n".join(lines) + "\n"

    def shell(self) -> str:
        """The command as a user can paste it into a shell."""
        env = [f"{name}={shlex.quote(value)}" for name, value in sorted(self.env.items())]
        return " ".join([*env, shlex.join(self.argv)])

    def digest(self, stand_ins: Mapping[str, str] | None = None) -> str:
        """SHA-256 over `content`, as JSON with sorted keys."""
        content = json.dumps(self.content(stand_ins), sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()

    def content(self, stand_ins: Mapping[str, str] | None = None) -> dict[str, JsonValue]:
        """What decides the output: not the program's path, address or GPU numbers.

        `stand_ins` replaces machine-dependent values (paths of weights) by stable names, so that a
        launch proved on one machine is known again on another.
        """
        names = stand_ins or {}
        return {
            "arguments": [_stable(argument, names) for argument in self.arguments],
            "env": {name: value for name, value in self.env.items() if name != GPU_VARIABLE},
            "files": {name: _stable(text, names) for name, text in self.files.items()},
        }


def _stable(argument: str, stand_ins: Mapping[str, str]) -> str:
    """The text with each machine-dependent value replaced, inside JSON too."""
    for value in sorted(stand_ins, key=len, reverse=True):  # a path may begin with another one
        escaped = json.dumps(value)[1:-1]
        argument = argument.replace(escaped, stand_ins[value]).replace(value, stand_ins[value])
    return argument
