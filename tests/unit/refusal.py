"""Refusal cases: files that hold a profile, the worker it is for, and what must be said of it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import msgspec
import yaml

from adapters import ADAPTERS
from adapters.checkpoint import Checkpoint
from adapters.document import parse_document
from adapters.launch import Model, WorkerSpec
from adapters.problem import Problem
from adapters.profile import EngineName, Profile
from adapters.reading import read_model, with_problems
from adapters.schedule import profile_problems
from adapters.worker_check import worker_problems

FOLDER = Path(__file__).parent.parent / "refusals"
DASHES = "-" * 10 + "\n"
DRAFTS = {
    "draft_model": "org/draft",
    "eagle": "org/eagle",
    "eagle3": "org/eagle3",
    "medusa": "org/medusa",
    "mlp_speculator": "org/mlp",
    "dflash": "org/dflash",
    "dspark": "org/dspark",
}


@dataclass(frozen=True)
class Case:
    """`source` names where the fact is from; `shown` says how the engine itself shows it."""

    file: Path
    engine: str
    version: str
    source: str
    profile: str
    worker: Mapping[str, Any]
    shown: Mapping[str, Any]
    expected: str

    @property
    def name(self) -> str:
        return f"{self.file.parent.name}/{self.file.stem}"

    def spec(self) -> WorkerSpec:
        """The worker: defaults, and what the case says of it."""
        model = dict(self.worker.get("model", {}))
        facts = model.pop("facts", None)
        draft_facts = model.pop("draft_facts", {})
        drafts = {**DRAFTS, **model.pop("drafts", {})}
        made = Model(**{"name": "small", "target": "org/target", "context": 4096, **model})
        read = {name: _checkpoint(data, drafts[name]) for name, data in draft_facts.items()}
        made = replace(made, drafts=drafts, draft_facts=read)
        if facts:
            made = replace(made, facts=_checkpoint(facts, made.target))
        fields = {key: value for key, value in self.worker.items() if key != "model"}
        command = (ADAPTERS[self.engine].COMMANDS[0],)
        spec = WorkerSpec("worker-0", self.version, command, made, 8000)
        return replace(spec, engine=cast(EngineName, self.engine), **fields)

    def _problems(self, profile: Profile, spec: WorkerSpec) -> list[Problem]:
        """Pairing and memory count where the case gives facts to judge by."""
        adapter = ADAPTERS[self.engine]
        if spec.model.facts or spec.model.draft_facts:
            return worker_problems(adapter, profile, spec)
        return adapter.check(profile, spec)

    def outcome(self) -> str:
        """Every problem in file order; options and environment of the worker after the profile."""
        adapter, spec = ADAPTERS[self.engine], self.spec()
        reading = read_model(parse_document(self.profile, "profile.yaml"), Profile)
        if reading.value is not None:
            found = profile_problems(reading.value) + self._problems(reading.value, spec)
            reading = with_problems(reading, found)
        lines = sorted(reading.problems, key=lambda p: (str(p.place), p.message))
        lines += [
            *(
                replace(p, path=("args", *p.path))
                for p in adapter.check_arguments(spec.args, self.version)
            ),
            *(
                replace(p, path=("env", *p.path))
                for p in adapter.check_environment(spec.env, self.version)
            ),
        ]
        return "".join(f"{'error: ' if p.is_fatal else ''}{p}\n" for p in lines)


def _checkpoint(data: Mapping[str, Any], source: str) -> Checkpoint:
    return msgspec.convert({"source": source, "form": "huggingface", **data}, Checkpoint)


def read_case(file: Path) -> Case:
    """Raises ValueError on a key that no case has."""
    head, _, expected = file.read_text().partition(DASHES)
    data = yaml.safe_load(head)
    unknown = set(data) - {"source", "profile", "worker", "shown"}
    if unknown or not data.get("source"):
        raise ValueError(f"{file}: unknown keys {sorted(unknown)}, or no source")
    engine, _, version = file.parent.name.rpartition("-")
    worker, shown = data.get("worker", {}), data.get("shown", {})
    return Case(file, engine, version, data["source"], data["profile"], worker, shown, expected)


def cases(pattern: str = "*") -> list[Case]:
    return [read_case(file) for file in sorted(FOLDER.glob(f"{pattern}/*.txt"))]
