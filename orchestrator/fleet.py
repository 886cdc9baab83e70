"""Fleet: one YAML file that says which models, engines and workers there are and who gets what."""

import ipaddress
import re
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    Discriminator,
    Field,
    JsonValue,
    Tag,
    model_validator,
)

from adapters.profile import EngineName, Model, Name
from orchestrator.cors import CorsEntry
from orchestrator.gate.evidence import SUITES, Policy, Suite
from orchestrator.type_rule import TypeRule

Port: TypeAlias = Annotated[int, Field(ge=1, le=65535)]

_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_ADDRESS = re.compile(rf"(\[[0-9a-fA-F:.]+\]|{_LABEL}(?:\.{_LABEL})*):([0-9]{{1,5}})", re.ASCII)

_PORT = re.compile(r":[0-9]*$")


def _is_path(text: str) -> str:
    if "\0" in text or len(text) > 1024:
        raise ValueError("a path has no NUL and at most 1,024 characters")
    if text.startswith("-"):
        raise ValueError("engines would read it as an option: a path does not begin with '-'")
    return text


def engine_url(url: str) -> str:
    """`http://host:port` without a slash at its end. Raises ValueError on anything else.

    `https://host` is the usual port's.
    """
    scheme, _, rest = url.rstrip("/").partition("://")
    if scheme == "https" and not _PORT.search(rest):
        rest += ":443"
    try:
        is_address = split_address(rest)[1] > 0
    except ValueError:
        is_address = False
    if scheme not in ("http", "https") or not is_address:
        raise ValueError("an engine's address is written http://host:port, without a path")
    return f"{scheme}://{rest}"


def _is_address(text: str) -> str:
    split_address(text)
    return text


def split_address(text: str) -> tuple[str, int]:
    """`127.0.0.1:8400` or `[::1]:8400` as host and port. Raises ValueError."""
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match[2]) > 65535 or not _is_host(match[1]):
        raise ValueError("an address is written host:port, as in 127.0.0.1:8400")
    return match[1].strip("[]"), int(match[2])


def _is_host(text: str) -> bool:
    if not text.startswith("["):
        return True
    try:
        ipaddress.IPv6Address(text.strip("[]"))
    except ValueError:
        return False
    return True


def _shape(value: Any) -> str:
    """Which branch of a union of text and a mapping a value is meant for."""
    return "text" if isinstance(value, str) else "mapping"


Address: TypeAlias = Annotated[str, AfterValidator(_is_address)]
PathText: TypeAlias = Annotated[str, AfterValidator(_is_path)]
Url: TypeAlias = Annotated[str, AfterValidator(engine_url)]


EnginePath: TypeAlias = Annotated[str, Field(pattern=r"^/[A-Za-z0-9._~/-]{1,200}$")]
ServedName: TypeAlias = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]{1,256}$")]


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


class TimeoutEntry(Model):
    """The router's longest waits for a worker."""

    connect_s: float = Field(default=5, gt=0, le=3600, description="For a connection, in seconds.")
    first_byte_s: float = Field(
        default=600, gt=0, le=86400, description="For an answer's first byte, in seconds."
    )
    stream_s: float = Field(
        default=300, gt=0, le=86400, description="Between two reads of an answer, in seconds."
    )


class TlsEntry(Model):
    """The certificate that clients see; PEM files, beside the fleet file."""

    certificate: PathText = Field(description="The certificate, then those between it and a root.")
    key: PathText = Field(description="Its private key.")
    key_password_env: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        description="Environment variable with the password of an encrypted key.",
    )
    client_ca: PathText | None = Field(
        default=None, description="Clients must show a certificate that one of these signed."
    )
    admin: bool = Field(default=True, description="false: the admin port speaks plain HTTP.")


class TracesEntry(Model):
    """Spans of requests, sent to an OpenTelemetry collector."""

    endpoint: str = Field(
        pattern=r"^https?://[^\s?#]+$", description="OTLP/HTTP, as in http://127.0.0.1:4318."
    )
    sample: float = Field(
        default=0.1,
        ge=0,
        le=1,
        description="Share of the requests whose client does not decide it.",
    )
    headers_env: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        description="Environment variable with headers for the collector: name=value,name=value.",
    )


class RouterEntry(Model):
    """Where the router listens, and how long it waits."""

    listen: Address = "127.0.0.1:8400"
    admin: Address = "127.0.0.1:8401"
    type_header: bool = Field(default=True, description="Clients may name the type by header.")
    body_limit_mb: int = Field(default=32, ge=1, le=1024)
    log_prompts: bool = Field(
        default=False, description="Request bodies in the access log: clients' texts, in the clear."
    )
    paths: tuple[EnginePath, ...] = Field(
        default=(), description="Paths of engines that are passed on beside OpenAI's and others'."
    )
    cors: CorsEntry | None = Field(default=None, description="Web pages that may use the router.")
    tls: TlsEntry | None = Field(default=None, description="Clients come by HTTPS.")
    traces: TracesEntry | None = Field(default=None, description="Spans of requests.")
    timeouts: TimeoutEntry = TimeoutEntry()
    drain_s: float = Field(
        default=0,
        ge=0,
        le=3600,
        description="On SIGTERM, /health is 503 for so long, while everything is still served.",
    )
    grace_s: float = Field(
        default=30, ge=0, le=86400, description="Then running requests get so long to end."
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
