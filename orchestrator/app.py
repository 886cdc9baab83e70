"""Where objects are put together: a deployment becomes a router's configuration."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from adapters.problem import sort_problems
from orchestrator.address import split_address
from orchestrator.configuration import RouterConfig
from orchestrator.cors import Cors
from orchestrator.deployment import (
    Deployment,
    Member,
    profile_names,
    read_deployment,
)
from orchestrator.errors import InputError
from orchestrator.gate.admission import Standing, standing, unproven
from orchestrator.gate.certificate import certificate_folder
from orchestrator.keys import KeyEntry, key_file, read_keys
from orchestrator.pool import Upstream
from orchestrator.release import release_of
from orchestrator.reload import Reading
from orchestrator.router_entry import RouterEntry, TlsEntry
from orchestrator.service import Timeouts
from orchestrator.state import StateFolder
from orchestrator.tls import Tls, check
from orchestrator.trace import Traces
from orchestrator.worker import full_digest

MEGABYTE = 2**20


def router_config(deployment: Deployment, folder: StateFolder | None) -> RouterConfig:
    """The router of a fleet. With `folder`, workers on this machine are used while they are ready.

    Certificates are looked at once for admission, here; release hooks look again when asked.
    """
    fleet = deployment.require()
    standings = _standings(deployment)
    refusals = {name: None if s.is_pass else s.reason for name, s in standings.items()}
    routes = {name: fleet.hops(name) for name in fleet.routes}
    return RouterConfig(
        upstreams=tuple(
            _upstream(member, standings.get(member.name)) for member in deployment.members
        ),
        rules=fleet.types,
        routes=routes,
        models=tuple(fleet.models),
        names={name: model for model, entry in fleet.models.items() for name in entry.names},
        listen=split_address(fleet.router.listen),
        admin=split_address(fleet.router.admin),
        type_header=fleet.router.type_header,
        body_limit=fleet.router.body_limit_mb * MEGABYTE,
        worker_states=_states(folder, deployment) if folder else None,
        timeouts=_timeouts(fleet.router),
        release=release_of(deployment, refusals),
        log_prompts=fleet.router.log_prompts,
        cors=Cors(fleet.router.cors) if fleet.router.cors else None,
        paths=fleet.router.paths,
        keys=_keys(deployment),
        queue=fleet.router.queue,
        tls=_tls(fleet.router.tls, deployment.file.resolve().parent),
        admin_tls=fleet.router.tls is not None and fleet.router.tls.admin,
        traces=Traces(**fleet.router.traces.model_dump()) if fleet.router.traces else None,
    )


def _keys(deployment: Deployment) -> tuple[KeyEntry, ...] | None:
    """Raises InputError with all that is wrong with the file."""
    fleet = deployment.require()
    if fleet.router.keys is None:
        return None
    reading = read_keys(deployment.file, fleet.router.keys, fleet.models)
    if reading.value is None or not reading.is_usable:
        raise InputError(reading.problems)
    return reading.value.keys


def _tls(entry: TlsEntry | None, base: Path) -> Tls | None:
    if entry is None:
        return None
    authority = base / entry.client_ca if entry.client_ca else None
    return Tls(base / entry.certificate, base / entry.key, authority, entry.key_password_env)


@dataclass(frozen=True)
class FleetSource:
    """A fleet file and all that it names; `change` is what options say otherwise."""

    file: Path
    shown_as: str
    change: Callable[[RouterConfig], RouterConfig] = lambda config: config

    def read(self) -> Reading:
        """Reads all of it. Raises nothing: what is wrong stands in the reading."""
        deployment = read_deployment(self.file, self.shown_as)
        config, problems = None, sort_problems(deployment.problems)
        if deployment.is_usable:
            try:
                folder = StateFolder(deployment.file)
                config = self.change(router_config(deployment, folder))
                if config.tls is not None:
                    check(config.tls)
            except InputError as error:
                config = None
                problems = [*problems, *error.problems]
        return Reading(config, tuple(problems), tuple(_files(deployment)))


def _files(deployment: Deployment) -> Iterator[Path]:
    """What a router's configuration is read from, also where it is not there yet."""
    yield deployment.file
    fleet = deployment.fleet
    if fleet is None:
        return
    base = deployment.file.resolve().parent
    for name in profile_names(fleet):
        yield base / fleet.profiles / f"{name}.yaml"
    tls = _tls(fleet.router.tls, base)
    if tls is not None:
        yield from (file for file in (tls.certificate, tls.key, tls.client_ca) if file)
    if fleet.router.keys is not None:
        yield key_file(deployment.file, fleet.router.keys)
    if fleet.gate.required:
        yield base / fleet.gate.certificates
        yield from (base / key for key in fleet.gate.public_keys)


def _timeouts(entry: RouterEntry) -> Timeouts:
    waits = entry.timeouts
    return Timeouts(
        connect_s=waits.connect_s,
        first_byte_s=waits.first_byte_s,
        stream_s=waits.stream_s,
        worker_s=entry.queue.wait_s if entry.queue else Timeouts.worker_s,
        drain_s=entry.drain_s,
        grace_s=entry.grace_s,
    )


def _standings(deployment: Deployment) -> dict[str, Standing]:
    """What each worker's certificate comes to; nothing where the fleet asks for no certificate."""
    policy = deployment.require().gate
    if not policy.required:
        return {}
    folder = certificate_folder(deployment)
    return {member.name: standing(folder, member, policy) for member in deployment.members}


def _upstream(member: Member, found: Standing | None) -> Upstream:
    is_plain = not member.profile.is_speculating
    limits = dict(member.adapter.limits(member.profile, member.spec.engine_version))
    if found is not None and found.is_pass:
        limits |= unproven(found.certificate)
    return Upstream(
        name=member.name,
        profile=member.profile.profile,
        model=member.spec.model.name,
        engine=member.entry.engine,
        host=member.spec.host,
        port=member.spec.port,
        is_plain=is_plain,
        limits=limits,
        health=member.adapter.HEALTH,
        batch_limit=member.launch.batch_limit,
        in_flight_limit=member.entry.in_flight_limit,
        refused=None if found is None or found.is_pass else found.reason,
        answer_counts=member.adapter.ANSWER_COUNTS,
        is_secure=(member.entry.url or "").startswith("https:"),
    )


def _states(folder: StateFolder, deployment: Deployment) -> Callable[[], Mapping[str, str]]:
    """States as the supervisor wrote them; none without a supervisor: then health alone counts.

    Certificates were looked at for the launches in the files: a worker that runs another one is not
    ready for this router.
    """
    launches = {m.name: full_digest(m) for m in deployment.members if m.is_ours}

    def read() -> dict[str, str]:
        if not folder.is_locked():
            return {}
        states = folder.read_status().workers
        return {
            name: state.state if state.launch == launches.get(name) else "running another launch"
            for name, state in states.items()
        }

    return read
