"""Pair: a profile's draft and its target, with what their files say of them."""

from dataclasses import dataclass

from adapters.checkpoint import Checkpoint
from adapters.launch import Model, WorkerSpec
from adapters.problem import Path
from adapters.profile import EngineName, Profile, WithDraft


@dataclass(frozen=True)
class Pair:
    """`name` is the draft's key under the model's `drafts`, None where the target holds it itself.

    Facts are None for weights that are not local, the engine where nobody named one.
    """

    spec: WithDraft
    method: str
    model: Model
    name: str | None
    target: Checkpoint | None
    draft: Checkpoint | None
    engine: EngineName | None = None

    @property
    def draft_path(self) -> Path:
        return ("models", self.model.name, "drafts", self.name or self.method)

    @property
    def target_path(self) -> Path:
        return ("models", self.model.name, "target")

    @property
    def context(self) -> int | None:
        """Longest sequence served, in tokens: the fleet's, else what the target was made for."""
        return self.model.context or (self.target.context if self.target else None)


def pair_of(profile: Profile, worker: WorkerSpec) -> Pair | None:
    """The pair, or None for a method without weights and for a draft that the model lacks."""
    spec, model, name = profile.speculation, worker.model, profile.draft_name
    if not isinstance(spec, WithDraft) or (name is not None and name not in model.drafts):
        return None
    draft = model.draft_facts.get(name) if name is not None else None
    method = profile.speculation.method
    return Pair(spec, method, model, name, model.facts, draft, worker.engine)
