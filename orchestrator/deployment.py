"""Deployment: a fleet with its profiles, engines and launches worked out, and every problem."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from adapters import ADAPTERS
from adapters.contract import Adapter
from adapters.launch import Launch, Model, WorkerSpec
from adapters.problem import Path as ProblemPath
from adapters.problem import Problem, degrade, did_you_mean, path_text
from adapters.profile import Profile
from adapters.reader import read_checkpoint
from adapters.reading import Reading, read_profile, with_problems
from adapters.worker_check import worker_problems
from orchestrator.errors import EngineError, InputError
from orchestrator.fleet import EngineEntry, Fleet, ModelEntry, WorkerEntry
from orchestrator.fleet_check import read_fleet
from orchestrator.gate.signature import is_available, load_public_key
from orchestrator.program import ask_version, find_command
from orchestrator.shipped import shipped
from orchestrator.weights import is_missing, locate

_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ash", "ksh", "fish", "env"})


@dataclass(frozen=True)
class Member:
    """One worker of a fleet, ready to launch (or, with `entry.url`, to be spoken to)."""

    entry: WorkerEntry
    profile: Profile
    engine: EngineEntry
    spec: WorkerSpec
    launch: Launch
    base: Path  # folder of the fleet file: relative paths count from it
    missing: str = ""  # why the engine cannot be started on this machine

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def adapter(self) -> Adapter:
        return ADAPTERS[self.entry.engine]

    @property
    def is_ours(self) -> bool:
        """Whether draftgate launches it."""
        return self.entry.url is None


@dataclass(frozen=True)
class Deployment:
    """What a fleet file comes to. `members` holds the workers that can be used."""

    file: Path
    fleet: Fleet | None
    members: tuple[Member, ...]
    problems: tuple[Problem, ...]

    @property
    def is_usable(self) -> bool:
        """Whether it may be acted on: nothing in its files is wrong."""
        return self.fleet is not None and not any(p.is_fatal for p in self.problems)

    def require(self) -> Fleet:
        """The fleet. Raises InputError with every problem when one of them is fatal."""
        if self.fleet is None or not self.is_usable:
            raise InputError(self.problems)
        return self.fleet

    def member(self, name: str) -> Member:
        """Raises InputError naming the workers there are."""
        for member in self.members:
            if member.name == name:
                return member
        hint = did_you_mean(name, [m.name for m in self.members])
        raise InputError(f"{self.file}: no worker {name!r}; {hint}")


@dataclass(frozen=True)
class _Engine:
    """An engine of the fleet as found on this machine."""

    entry: EngineEntry
    command: tuple[str, ...]
    version: str
    missing: str = ""
    launches: bool = True  # whether a worker of it is ours to start


def read_deployment(file: Path, shown_as: str | None = None) -> Deployment:
    """Read a fleet and all it names. Nothing is raised or started; engines tell their versions."""
    reading = read_fleet(file, shown_as)
    fleet = reading.value
    if fleet is None:
        return Deployment(file, None, (), tuple(reading.problems))
    base = file.resolve().parent
    profiles = {name: _find_profile(fleet, base, name) for name in profile_names(fleet)}
    reading = with_problems(reading, _missing_profiles(fleet, profiles))
    reading = with_problems(reading, _key_problems(fleet, base))
    names = sorted({str(w.engine) for w in fleet.workers})
    engines = {name: _find_engine(fleet, base, name) for name in names}
    reading = with_problems(reading, _engine_problems(engines, base))
    models = {name: _model(name, entry, base) for name, entry in fleet.models.items()}
    reading = with_problems(reading, _missing_weights(fleet, models))
    members: list[Member] = []
    for index, entry in enumerate(fleet.workers):
        profile, engine = profiles.get(entry.profile), engines[entry.engine]
        if profile and profile.value and entry.model in models:
            member = _member(models[entry.model], base, entry, profile.value, engine)
            reading, profile = _check_member(fleet, reading, profile, member, index)
            profiles[entry.profile] = profile
            members.append(replace(member, launch=_render(member, reading, profile)))
    problems = [*reading.problems, *(p for r in profiles.values() if r for p in r.problems)]
    return Deployment(file, fleet, tuple(members), tuple(problems))


def profile_names(fleet: Fleet) -> list[str]:
    """Profiles that workers or routes name."""
    routed = [hop.profile for name in fleet.routes for hop in fleet.hops(name)]
    return list(dict.fromkeys([*(w.profile for w in fleet.workers), *routed]))


def _find_profile(fleet: Fleet, base: Path, name: str) -> Reading[Profile] | None:
    """From the fleet's own folder first, then from those that come with draftgate."""
    own = base / fleet.profiles / f"{name}.yaml"
    for path in (own, shipped("profiles") / f"{name}.yaml"):
        if os.path.isfile(path):  # noqa: PTH113 — Path.is_file raises on names too long
            return _named(read_profile(path, _short(path)), name)
    return None


def _named(reading: Reading[Profile], name: str) -> Reading[Profile]:
    """Certificates, headers and metrics use the name in the file: it must be the file's own."""
    if reading.value is None or reading.value.profile == name:
        return reading
    message = f"{reading.value.profile!r} stands in the file of the profile {name!r}"
    hint = f"write profile: {name}"
    return with_problems(reading, [Problem(("profile",), message, hint, code="profile-name")])


def _short(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _missing_profiles(
    fleet: Fleet, profiles: Mapping[str, Reading[Profile] | None]
) -> list[Problem]:
    shipped_names = [path.stem for path in shipped("profiles").glob("*.yaml")]
    problems: list[Problem] = []
    for index, worker in enumerate(fleet.workers):
        if profiles[worker.profile] is None:
            message = f"no profile {worker.profile!r} in {fleet.profiles}/ or among the shipped"
            hint = did_you_mean(worker.profile, shipped_names)
            path = ("workers", index, "profile")
            problems.append(Problem(path, message, hint, code="no-profile"))
    return problems


def _model(name: str, entry: ModelEntry, base: Path) -> Model:
    """A model of the fleet, with what its local files say of it."""
    target = locate(entry.target, base)
    drafts = {key: locate(draft, base) for key, draft in entry.drafts.items()}
    found = {key: read_checkpoint(draft) for key, draft in drafts.items()}
    return Model(
        name=name,
        target=target,
        context=entry.context,
        drafts=drafts,
        revision=entry.revision,
        facts=read_checkpoint(target),
        draft_facts={key: facts for key, facts in found.items() if facts},
    )


def _find_engine(fleet: Fleet, base: Path, name: str) -> _Engine:
    adapter = ADAPTERS[name]
    entry = fleet.engines.get(name, EngineEntry())  # type: ignore[call-overload]
    launches = any(w.engine == name and w.url is None for w in fleet.workers)
    newest = adapter.SUPPORTED[-1].name
    try:
        command = find_command(adapter, entry.command, base)
        version = entry.version
        if version == "auto":
            version = ask_version(adapter, command) if launches else newest
        return _Engine(entry, command, version, launches=launches)
    except EngineError as error:
        version = newest if entry.version == "auto" else entry.version
        missing = str(error) if launches else ""
        return _Engine(entry, _as_configured(adapter, entry.command), version, missing, launches)


def _as_configured(adapter: Adapter, command: str) -> tuple[str, ...]:
    """The command of an engine that is not here, as the fleet has it."""
    return (adapter.COMMANDS[0] if command in ("auto", "embedded") else command,)


def _engine_problems(engines: Mapping[str, _Engine], base: Path) -> list[Problem]:
    """Paths in the fleet: an engine that is not here is a warning, so that CI can still check."""
    problems: list[Problem] = []
    for name, engine in engines.items():
        root = ("engines", name)
        problems += _command_problems(engine.entry.command, base, root)
        if engine.missing:
            message = f"{engine.missing}; checked as version {engine.version}"
            path = (*root, "command")
            problems.append(Problem(path, message, severity="warning", code="no-engine"))
        if not engine.launches and engine.entry.version == "auto":
            message = "workers elsewhere are not asked for their version"
            hint = f"write it; they are checked and certified as {engine.version} otherwise"
            path = (*root, "version")
            problem = Problem(path, message, hint, severity="warning", code="external-version")
            problems.append(problem)
        found = ADAPTERS[name].check_arguments(engine.entry.args, engine.version)
        problems += [_below((*root, "args"), p, (*root, "version")) for p in found]
        environment = ADAPTERS[name].check_environment(engine.entry.env, engine.version)
        problems += [_below((*root, "env"), p, (*root, "env")) for p in environment]
        problems += _inherited(ADAPTERS[name], engine, root)
    return problems


def _inherited(adapter: Adapter, engine: _Engine, root: tuple[str, ...]) -> list[Problem]:
    """Variables of our own environment that would bend the output of workers."""
    if not engine.launches:
        return []
    own = {name: value for name, value in os.environ.items() if name not in engine.entry.env}
    found = [p for p in adapter.check_environment(own, engine.version) if p.code == "lossy"]
    where = "draftgate's own environment, which workers inherit"
    return [
        replace(p, path=root, message=f"in {where}: {path_text(p.path)}: {p.message}")
        for p in found
    ]


def _missing_weights(fleet: Fleet, models: Mapping[str, Model]) -> list[Problem]:
    """Paths that lead nowhere: a warning, so that CI can check a fleet without its weights."""
    problems: list[Problem] = []
    for name, entry in fleet.models.items():
        places: list[tuple[ProblemPath, str]] = [
            (("models", name, "drafts", key), source) for key, source in models[name].drafts.items()
        ]
        if isinstance(entry.target, str):
            places.append((("models", name, "target"), models[name].target))
        for path, source in places:
            if is_missing(source):
                message = f"there is nothing at {source}"
                hint = "a path starts with /, . or ~ or ends in .gguf; put the weights there"
                problems.append(Problem(path, message, hint, "warning", "weights-missing"))
    return problems


def _key_problems(fleet: Fleet, base: Path) -> list[Problem]:
    """Public keys that no certificate can be checked with: nothing would ever be admitted."""
    path: ProblemPath = ("gate", "public_keys")
    if fleet.gate.public_keys and not is_available():
        message = "signatures cannot be checked here: the package cryptography is not installed"
        hint = "pip install 'draftgate[sign]'"
        return [Problem(path, message, hint, "warning", "no-signing")]
    problems: list[Problem] = []
    for index, name in enumerate(fleet.gate.public_keys):
        try:
            load_public_key(base / name)
        except InputError as error:
            message = f"certificates cannot be checked with it: {error}"
            hint = (
                "name the .pub that `draftgate certificate keygen` wrote, from this file's folder"
            )
            problems.append(Problem((*path, index), message, hint, code="public-key"))
    return problems


def _command_problems(command: str, base: Path, root: tuple[str, ...]) -> list[Problem]:
    """A command is one program: never a shell, never with the words that adapters write."""
    words = command.split()
    if len(words) < 2 or os.path.exists(base / os.path.expanduser(command)):  # noqa: PTH110, PTH111 — never raise
        return []
    path = (*root, "command")
    if Path(words[0]).name in _SHELLS:
        message = f"{command!r} runs the engine through a shell, which eats the quotes of its JSON"
        return [Problem(path, message, "write the engine's program", code="shell-command")]
    message = f"{command!r} has arguments: draftgate writes the subcommand and all options"
    hint = f"write {words[0]}, and options under args:"
    return [Problem(path, message, hint, code="entrypoint-repeated")]


def _below(root: tuple[str | int, ...], problem: Problem, whole: tuple[str, ...]) -> Problem:
    """An adapter's problem under its place in the fleet; one without a path concerns `whole`."""
    return replace(problem, path=(*root, *problem.path) if problem.path else whole)


def _member(
    model: Model, base: Path, entry: WorkerEntry, profile: Profile, engine: _Engine
) -> Member:
    host, port = "127.0.0.1", entry.port or 0
    if entry.url:
        parts = urlsplit(entry.url)
        host, port = parts.hostname or host, parts.port or port
    spec = WorkerSpec(
        name=entry.name,
        engine_version=engine.version,
        command=engine.command,
        model=model,
        port=port,
        host=host,
        gpus=entry.gpus,
        args={**engine.entry.args, **entry.args},
        env=engine.entry.env,
        memory_gib=entry.memory_gib or engine.entry.memory_gib,
        engine=entry.engine,
    )
    return Member(
        entry, profile, engine.entry, spec, Launch((), (), (), port), base, engine.missing
    )


def _check_member(
    fleet: Fleet, reading: Reading[Fleet], profile: Reading[Profile], member: Member, index: int
) -> tuple[Reading[Fleet], Reading[Profile]]:
    """The fleet's and the profile's readings with what the engine's adapter says of this worker."""
    version = member.spec.engine_version
    own = member.adapter.check_arguments(member.entry.args, version)
    placed = [_below(("workers", index, "args"), p, ()) for p in own if p.path]
    found = worker_problems(member.adapter, member.profile, member.spec)
    if fleet.degrade == "allow":
        found = degrade(found)
    asked_by = f" (worker {member.name}, {member.adapter.TITLE} {version})"
    found = [replace(p, message=p.message + asked_by) for p in found]
    placed += [p for p in found if p.path[:1] == ("models",)]  # paths of the fleet
    found = [p for p in found if p.path[:1] != ("models",)]
    return with_problems(reading, placed), with_problems(profile, found)


def _render(member: Member, reading: Reading[Fleet], profile: Reading[Profile]) -> Launch:
    """An empty launch where problems stand in the way: nothing may be started from it."""
    if any(p.is_fatal for p in [*reading.problems, *profile.problems]):
        return member.launch
    return member.adapter.render(member.profile, member.spec)
