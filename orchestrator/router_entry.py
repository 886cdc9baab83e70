"""Router entry: the part of a fleet file that says how the router listens, waits and lets in."""

from typing import Annotated, TypeAlias

from pydantic import Field

from adapters.profile import Model
from orchestrator.address import Address, PathText
from orchestrator.cors import CorsEntry

EnginePath: TypeAlias = Annotated[str, Field(pattern=r"^/[A-Za-z0-9._~/-]{1,200}$")]


class QueueEntry(Model):
    """Requests that wait for a worker, by turns among callers."""

    size: int = Field(default=256, ge=1, le=100_000, description="Most requests that wait.")
    wait_s: float = Field(default=30, gt=0, le=3600, description="Longest wait, in seconds.")
    bodies_mb: int = Field(
        default=64, ge=1, le=65_536, description="Most that their bodies take, in MiB."
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
    keys: PathText | None = Field(
        default=None,
        description="File of API keys, beside the fleet file; none: all are served.",
    )
    queue: QueueEntry | None = Field(
        default=None, description="Requests wait where every worker has its in_flight_limit."
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
