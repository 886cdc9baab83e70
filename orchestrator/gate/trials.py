"""Trials of a fleet's workers, and of engines that somebody else started."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from typing import Any
from uuid import uuid4

from orchestrator import __version__
from orchestrator.deployment import Deployment, Member
from orchestrator.errors import InputError, OrchestratorError
from orchestrator.gate.admission import objection, shortfall
from orchestrator.gate.case import Subject
from orchestrator.gate.certificate import (
    PARTIAL,
    certificate_folder,
    certificate_path,
    make_certificate,
    require_writable,
    write_certificate,
)
from orchestrator.gate.endpoint import Endpoint, find_endpoint
from orchestrator.gate.evidence import Trial
from orchestrator.gate.host import Host, hosting
from orchestrator.gate.journal import RunFolder
from orchestrator.gate.pair import launch_diff, require_pair
from orchestrator.gate.prompt import prompts_digest
from orchestrator.gate.run import Settings, plan_for, plan_of_urls, run_key
from orchestrator.gate.signature import SigningKey, load_key, load_public_key
from orchestrator.gate.subject import subject
from orchestrator.gate.trial import Baseline, BootWide, Candidate, Gate
from orchestrator.state import StateFolder

Pair = tuple[Member, Sequence[Member]]  # a baseline and its candidates

_ANSWERS = "answers"
# Of an engine whose gamma nobody tells: a verify step is this wide at least in most profiles.
_USUAL_GAMMA = 4


async def try_fleet(
    deployment: Deployment,
    folder: StateFolder,
    pairs: Sequence[Pair],
    settings: Settings,
) -> list[Trial]:
    """Gate every candidate of every baseline, and write certificates.

    Raises InputError when a pair cannot be compared, OrchestratorError when nothing can be written,
    EngineError when an engine does not start or does not answer.
    """
    for baseline, candidates in pairs:
        for candidate in candidates:
            require_pair(baseline, candidate, settings.is_control)
    require_writable(certificate_folder(deployment))  # before minutes of work, not after
    key = _signing_key(deployment, settings)
    trials: list[Trial] = []
    async with hosting(deployment, folder, settings.say) as host:
        for baseline, candidates in pairs:
            found = await _try_pair(host, (baseline, candidates), settings)
            for candidate, trial in zip(candidates, found, strict=True):
                if not settings.is_control:
                    trial = _certified(trial, (baseline, candidate), deployment, key)
                trials.append(trial)
    return trials


def _signing_key(deployment: Deployment, settings: Settings) -> SigningKey | None:
    """Raises InputError for a key that the fleet's public keys do not accept."""
    key = load_key(settings.sign_key) if settings.sign_key else None
    base, names = deployment.file.resolve().parent, deployment.require().gate.public_keys
    accepted = {load_public_key(base / name).fingerprint for name in names}
    if accepted and key is None and not settings.is_control:
        settings.say(
            "gate.public_keys asks for a signature: without --sign-key nothing is admitted"
        )
    if accepted and key and key.public.fingerprint not in accepted:
        message = f"--sign-key {settings.sign_key} is the private half of none of gate.public_keys"
        hint = f"sign with the key of {' or '.join(names)}, or add this one's .pub there"
        raise InputError(f"{message}: {hint}")
    return key


def _certified(
    trial: Trial, pair: tuple[Member, Member], deployment: Deployment, key: SigningKey | None
) -> Trial:
    """The trial with its certificate written, and a note where this fleet does not admit it.

    A pass that shows less than the fleet asks for stands beside one that shows enough.
    """
    baseline, candidate = pair
    folder, policy = certificate_folder(deployment), deployment.require().gate
    path, data = certificate_path(folder, candidate), make_certificate(trial, baseline, candidate)
    before = objection(folder, candidate, policy)
    written = write_certificate(path.with_name(f"{path.stem}{PARTIAL}"), data, key)
    short = shortfall(written, candidate, policy) if trial.verdict == "pass" else None
    if short is None or before is not None:
        written.unlink(missing_ok=True)
        written = write_certificate(path, data, key)
    notes = trial.notes
    if short:  # first: a terminal shows few
        told = f"this fleet does not admit the worker by this certificate: {short}"
        stands = (f"the one that does, {path.name}, stands",) if before is None else ()
        notes = (told, *stands, *notes)
    return replace(trial, certificate=str(written), notes=notes)


async def _try_pair(host: Host, pair: Pair, settings: Settings) -> list[Trial]:
    baseline, candidates = pair
    if any(candidate.name == baseline.name for candidate in candidates):
        settings = replace(settings, side_by_side=False)  # one port, one process at a time
    members = [baseline, *candidates]
    host.prepare(members)
    before = [subject(member) for member in members]
    # Nobody knows what somebody else starts at the same address: such a run is never gone on with.
    asked_of = [s if m.is_ours else [s, uuid4().hex] for m, s in zip(members, before, strict=True)]
    asked = (__version__, _asked(settings))
    names = [baseline.name, *(_folder_name(c, baseline) for c in candidates)]
    keys = [run_key(*asked, *asked_of)]
    # Of all candidates together: their number decides what questions are called (run.agreed).
    keys += [run_key(*asked, *asked_of, other) for other in asked_of[1:]]
    with _folders(settings, names, keys) as folders:
        gate = Gate(
            Baseline(lambda: host.running(baseline), _wide(host, baseline), folders[0]),
            [
                _candidate(host, (baseline, candidate), folder, settings)
                for candidate, folder in zip(candidates, folders[1:], strict=True)
            ],
            settings,
        )
        trials = await gate.run()
        _require_unchanged(members, before)
        plain = str(folders[0].path)
    return [_completed(trial, settings, plain) for trial in trials]


def _completed(trial: Trial, settings: Settings, plain_answers: str) -> Trial:
    return replace(
        trial,
        prompts_digest=prompts_digest(settings.prompts),
        prompts_source=settings.prompts_source,
        plain_answers_folder=plain_answers,
    )


def _require_unchanged(members: Sequence[Member], before: Sequence[dict[str, Any]]) -> None:
    """What was proved is what is certified: files may be replaced while the gate runs."""
    for member, was in zip(members, before, strict=True):
        now = subject(member)
        names = [name for name in was if now[name] != was[name]]
        if names:
            message = f"{member.name}: {', '.join(names)} changed while the gate ran"
            raise OrchestratorError(f"{message}: nothing is certified; run it again")


def _folder_name(candidate: Member, baseline: Member) -> str:
    return candidate.name if candidate.name != baseline.name else f"{candidate.name}-control"


def _asked(settings: Settings) -> list[Any]:
    """What of the settings decides which questions are asked."""
    prompts = [(prompt.id, prompt.type, prompt.request) for prompt in settings.prompts]
    return [prompts, sorted(settings.suites), settings.concurrency, settings.is_control]


@contextmanager
def _folders(
    settings: Settings, names: Sequence[str], keys: Sequence[str]
) -> Iterator[list[RunFolder]]:
    """Folders of raw answers, this process's own for the block."""
    with ExitStack() as stack:
        folders = []
        for name, key in zip(names, keys, strict=True):
            folder = RunFolder(settings.reports / name / _ANSWERS, key)
            stack.callback(folder.close)
            if folder.is_resumed:
                settings.say(f"{name}: going on with an unfinished run, in {folder.path}")
            folders.append(folder)
        yield folders


def _wide(host: Host, baseline: Member) -> BootWide:
    def boot(width: int) -> AbstractAsyncContextManager[Endpoint] | None:
        arguments = baseline.adapter.wide_arguments(width)
        if not arguments or not baseline.is_ours:
            return None
        return host.running_wide(baseline, arguments)

    return boot


def _candidate(
    host: Host,
    pair: tuple[Member, Member],
    folder: RunFolder,
    settings: Settings,
) -> Candidate:
    baseline, candidate = pair
    about = Subject(
        candidate=candidate.name,
        baseline=baseline.name,
        adapter=candidate.adapter,
        profile=candidate.profile.profile,
        version=candidate.spec.engine_version,
        logit_type=candidate.adapter.logit_type(candidate.spec),
        launch_diff=launch_diff(baseline, candidate),
    )
    return Candidate(
        about,
        boot=lambda: host.running(candidate),
        planned=lambda context: plan_for(candidate, settings, context),
        folder=folder,
    )


async def try_urls(baseline: str, candidate: str, settings: Settings) -> Trial:
    """Gate engines that somebody else started; no certificate: their launch is not known.

    Raises InputError when they cannot be compared.
    """
    if baseline.rstrip("/") == candidate.rstrip("/") and not settings.is_control:
        raise InputError("baseline and candidate are the same engine; it would equal itself")
    first, second = await find_endpoint(baseline), await find_endpoint(candidate)
    if first.adapter is not second.adapter:
        message = f"baseline is {first.adapter.TITLE}, candidate is {second.adapter.TITLE}"
        raise InputError(f"{message}: output of different engines is not comparable")
    key = run_key(uuid4().hex)  # never gone on with: who listens there may be another one by then
    names = [_url_name(baseline), f"{_url_name(candidate)}-candidate"]
    with _folders(settings, names, [key, key]) as folders:
        gate = Gate(
            Baseline(lambda: _given(first), lambda _: None, folders[0]),
            [
                Candidate(
                    Subject(candidate, baseline, second.adapter, profile=""),
                    boot=lambda: _given(second),
                    planned=lambda context: plan_of_urls(settings, context, _USUAL_GAMMA),
                    folder=folders[1],
                )
            ],
            settings,
        )
        trial = (await gate.run())[0]
    return _completed(trial, settings, str(folders[0].path))


@asynccontextmanager
async def _given(endpoint: Endpoint) -> AsyncIterator[Endpoint]:
    """An endpoint that lives before and after the arm."""
    yield endpoint


def _url_name(url: str) -> str:
    """`http://127.0.0.1:8501` as the name of a folder."""
    return url.rstrip("/").partition("://")[2].replace(":", "-").replace("/", "-")
