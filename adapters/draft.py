"""Which of a model's drafts a profile uses, whatever the engine."""

from adapters.launch import Model, WorkerSpec
from adapters.problem import Problem, did_you_mean
from adapters.profile import Profile, WithDraft


def draft_of(profile: Profile, model: Model) -> str | None:
    """Path or hub id of the draft weights, or None where the profile needs none."""
    name = profile.draft_name
    return model.drafts.get(name) if name else None


def draft_problems(profile: Profile, worker: WorkerSpec) -> list[Problem]:
    """The profile needs a draft that the model does not have."""
    name, model = profile.draft_name, worker.model
    if name is None or name in model.drafts:
        return []
    named = isinstance(profile.speculation, WithDraft) and profile.speculation.draft
    key = "draft" if named else "method"
    message = f"model {model.name!r} has no draft named {name!r}"
    hint = f"write models.{model.name}.drafts.{name} in the fleet: a path or a hub id"
    if model.drafts:
        hint += f", or use another ({did_you_mean(name, model.drafts)})"
    return [Problem(("speculation", key), message, hint, code="no-draft")]
