"""Fleet: one YAML file that says which models, engines and workers there are and who gets what."""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    Discriminator,
    Field,
    JsonValue,
    Tag,
    model_validator,
)

from adapters.profile import EngineName, Model, Name
from orchestrator.address import PathText, Url
from orchestrator.gate.evidence import SUITES, Policy, Suite
from orchestrator.router_entry import RouterEntry
from orchestrator.type_rule import TypeRule

Port: TypeAlias = Annotated[int, Field(ge=1, le=65535)]

ServedName: TypeAlias = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]{1,256}$")]


def _shape(value: Any) -> str:
    """Which branch of a union of text and a mapping a value is meant for."""
    return "text" if isinstance(value, str) else "mapping"


class Package(Model):
    """Weights that a Python package carries and can assemble into one file."""

    package: str = Field(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*$", description="Importable name.")
    file: str = Field(pattern=r"^[^/\\]+$", description="Name of the assembled file.")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$", description="Digest the file must have.")
    convert: Literal["float32", "bfloat16"] | None = Field(
        default=None,
        description="Convert to a Hugging Face folder of this type, for engines without GGUF.",
    )


class ModelEntry(Model):
    """A model by its short name: the name clients send as `model`."""

    target: Annotated[
        Annotated[PathText, Tag("text")] | Annotated[Package, Tag("mapping")], Discriminator(_shape)
    ] = Field(description="A path, a hub id, or a package.")
    revision: str | None = Field(default=None, description="Hub revision of the target.")
    context: int | None = Field(default=None, ge=16, description="Served context, in tokens.")
    drafts: dict[Name, PathText] = Field(
        default_factory=dict, description="Draft models and heads by name."
    )
    names: tuple[ServedName, ...] = Field(
        default=(),
        description="Other names that clients may send and its workers know, as of LoRA adapters.",
    )


class EngineEntry(Model):
    """How an engine is started on this machine."""

    version: str = Field(default="auto", description="auto asks the engine itself.")
    command: str = Field(default="auto", description="A binary or a python; auto looks for one.")
    args: dict[str, JsonValue] = Field(
        default_factory=dict, description="Native options for every worker."
    )
    env: dict[str, str] = Field(
        default_factory=dict, description="Environment for every worker; no secrets."
    )
    memory_gib: float | None = Field(
        default=None,
        gt=0,
        le=1e6,
        description="For weights and KV cache, over all devices of one worker, in GiB.",
    )
    start_timeout_s: float = Field(
        default=600, gt=0, le=7200, description="Longest start, in seconds."
    )


class WorkerEntry(Model):
    """One engine process. With `url` somebody else runs it: it is routed to, never launched."""

    name: Name
    engine: EngineName
    model: Name
    profile: Name
    port: Port | None = None
    url: Url | None = None
    gpus: tuple[int, ...] | None = Field(default=None, description="CUDA device numbers.")
    memory_gib: float | None = Field(
        default=None, gt=0, le=1e6, description="For weights and KV cache of this worker, in GiB."
    )
    in_flight_limit: int | None = Field(
        default=None, ge=1, le=10**6, description="Most requests at once that the router gives it."
    )
    args: dict[str, JsonValue] = Field(
        default_factory=dict, description="Native options for this worker only."
    )


class Until(Model):
    """When a route's profile is left for the next one."""

    in_flight: int = Field(ge=1, description="Requests at once in the profile's pool.")
    back_at: int | None = Field(
        default=None,
        ge=0,
        description="It is used again at or below this; default: three quarters of in_flight.",
    )

    @model_validator(mode="after")
    def _has_distance(self) -> "Until":
        if self.back_at is not None and self.back_at >= self.in_flight:
            raise ValueError("back_at is below in_flight, or the pool would be left at once again")
        return self


class Hop(Model):
    """One step of a route."""

    profile: Name
    until: Until | None = None
    share: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="A canary: the part of the clients that get this profile, always the same.",
    )
    affinity: bool = Field(
        default=False,
        description="Prompts that begin alike go to the same worker, for its prefix cache.",
    )


Step: TypeAlias = Annotated[
    Annotated[Name, Tag("text")] | Annotated[Hop, Tag("mapping")], Discriminator(_shape)
]


class GatePolicy(Model):
    """What must be shown before a speculating worker gets requests."""

    required: bool = True
    policy: Policy = Field(
        default="strict",
        description="strict: any difference that plain does not show itself fails. "
        "numerics: explained ties and near-ties pass, within forks_per_1000.",
    )
    suites: tuple[Suite, ...] = Field(
        default=SUITES, min_length=1, description="What is asked, and must have been."
    )
    prompts: PathText = Field(default="prompts", description="A JSONL file or a folder of them.")
    certificates: PathText = Field(
        default="certificates", description="Folder, beside the fleet file."
    )
    reports: PathText = Field(
        default="reports", description="Folder of reports and raw answers, beside the fleet file."
    )
    public_keys: tuple[PathText, ...] = Field(
        default=(), description="Certificates must be signed by one of these; none: unsigned too."
    )
    min_tokens: int = Field(
        default=1000, ge=1, description="Fewer tokens compared with plain: inconclusive."
    )
    forks_per_1000: float = Field(
        default=10, gt=0, le=1000, description="Most forks per 1,000 tokens that numerics admits."
    )
    concurrency: int = Field(
        default=16, ge=1, le=1024, description="Most requests at once that the gate asks."
    )
    alpha: float = Field(
        default=0.01,
        gt=0,
        lt=0.5,
        description="The most that faultless sampled output may fail by chance.",
    )
    detectable: float = Field(
        default=0.1,
        gt=0,
        lt=1,
        description="Total variation distance of sampled output to be seen with 80 % probability.",
    )
    side_by_side: bool = Field(
        default=True,
        description="false: the gate runs one engine at a time, for want of memory.",
    )


class Fleet(Model):
    """One fleet file."""

    fleet: Name
    models: dict[Name, ModelEntry] = Field(min_length=1)
    engines: dict[EngineName, EngineEntry] = Field(default_factory=dict)
    workers: tuple[WorkerEntry, ...] = Field(min_length=1)
    types: tuple[TypeRule, ...] = ()
    routes: dict[Name, tuple[Step, ...]] = Field(default_factory=dict)
    profiles: PathText = Field(
        default="profiles", description="Folder of profiles, beside the fleet file."
    )
    degrade: Literal["refuse", "allow"] = Field(
        default="refuse", description="allow: keys an engine cannot honour are warnings."
    )
    gate: GatePolicy = GatePolicy()
    router: RouterEntry = RouterEntry()

    def hops(self, request_type: str) -> tuple[Hop, ...]:
        """The route of a type as hops."""
        route = self.routes.get(request_type, ())
        return tuple(h if isinstance(h, Hop) else Hop(profile=h, until=None) for h in route)
