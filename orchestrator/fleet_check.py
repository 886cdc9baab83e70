"""Reading a fleet file, and the mistakes between its parts that no single field can see."""

import re
from collections.abc import Iterator
from pathlib import Path as FilePath

from adapters.dialect import release
from adapters.document import read_document
from adapters.problem import Path, Problem, did_you_mean
from adapters.reading import Reading, read_model, with_problems
from orchestrator.address import split_address
from orchestrator.fleet import Fleet


def read_fleet(file: FilePath, shown_as: str | None = None) -> Reading[Fleet]:
    """Read and check one fleet file by itself: without profiles and engines."""
    reading = read_model(read_document(file, shown_as), Fleet)
    if reading.value is None:
        return reading
    return with_problems(reading, list(_problems(reading.value)))


# A key or a token in the singular: MAX_TOKENS counts, HF_TOKEN opens.
_SECRET = re.compile(
    r"(?i)(^|_)(api_?keys?|secrets?|password|passwd|credentials?)(_|$)|(^|_)(keys?|token)$"
)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def _problems(fleet: Fleet) -> Iterator[Problem]:
    yield from _names(fleet)
    yield from _versions(fleet)
    yield from _environments(fleet)
    yield from _workers(fleet)
    yield from _ports(fleet)
    yield from _types(fleet)
    yield from _routes(fleet)
    yield from _refuges(fleet)
    yield from _queue(fleet)


def _names(fleet: Fleet) -> Iterator[Problem]:
    """A name that clients send means one model."""
    seen = {model: f"models.{model}" for model in fleet.models}
    for model, entry in fleet.models.items():
        for index, name in enumerate(entry.names):
            path: Path = ("models", model, "names", index)
            if name in seen:
                message = f"{name!r} is {seen[name]} already"
                yield Problem(path, message, "give each name to one model", code="name-twice")
            seen.setdefault(name, f"models.{model}.names[{index}]")


def _workers(fleet: Fleet) -> Iterator[Problem]:
    seen: dict[str, int] = {}
    for index, worker in enumerate(fleet.workers):
        root: Path = ("workers", index)
        if worker.name in seen:
            message = f"workers[{seen[worker.name]}] is named {worker.name!r} too"
            hint = "give each worker its own name"
            yield Problem((*root, "name"), message, hint, code="worker-twice")
        seen.setdefault(worker.name, index)
        if worker.model not in fleet.models:
            hint = did_you_mean(worker.model, fleet.models)
            message = f"no model {worker.model!r} under models:"
            rests_on = (("models",),)
            yield Problem((*root, "model"), message, hint, code="no-model", rests_on=rests_on)
        if worker.port is None and worker.url is None:
            hint = "port: to launch it here, or url: where it already runs"
            message = "neither port nor url is given"
            yield Problem((*root, "port"), message, hint, code="no-address", rests_on=(root,))
        if worker.port is not None and worker.url is not None:
            hint = "port: to launch it here, or url: where it already runs"
            message = "both port and url are given"
            yield Problem((*root, "url"), message, hint, code="two-addresses")


def _versions(fleet: Fleet) -> Iterator[Problem]:
    for engine, entry in fleet.engines.items():
        if entry.version != "auto" and release(entry.version) is None:
            message = f"{entry.version!r} is not a version"
            hint = "write its number, or auto: the engine itself is asked then"
            yield Problem(("engines", engine, "version"), message, hint, code="bad-version")


def _environments(fleet: Fleet) -> Iterator[Problem]:
    for engine, entry in fleet.engines.items():
        for name, value in entry.env.items():
            path: Path = ("engines", engine, "env", name)
            if not _VARIABLE.fullmatch(name) or "\0" in value:
                message = f"{name!r} is no environment variable that a process can have"
                hint = "letters, digits and _, and no NUL in its value"
                yield Problem(path, message, hint, code="bad-variable")
            elif _SECRET.search(name):
                message = f"{name} looks like a secret, which would be shown in logs and reports"
                hint = "set it in draftgate's own environment: workers inherit it"
                yield Problem(path, message, hint, code="secret")


def _ports(fleet: Fleet) -> Iterator[Problem]:
    taken: dict[int, str] = {}
    for key in ("listen", "admin"):
        port = split_address(getattr(fleet.router, key))[1]
        if port and port in taken:
            message = f"port {port} is {taken[port]}'s"
            yield Problem(("router", key), message, "use another port", code="port-twice")
        taken.setdefault(port, f"router.{key}")
    for index, worker in enumerate(fleet.workers):
        if worker.port is None:
            continue
        if worker.port in taken:
            path = ("workers", index, "port")
            message = f"port {worker.port} is {taken[worker.port]}'s"
            yield Problem(path, message, "use another port", code="port-twice")
        taken.setdefault(worker.port, worker.name)


def _types(fleet: Fleet) -> Iterator[Problem]:
    last = len(fleet.types) - 1
    for index, rule in enumerate(fleet.types):
        path: Path = ("types", index)
        is_open = rule.when is None or not rule.when.model_dump(exclude_none=True)
        if is_open and index < last:
            message = f"{rule.type!r} matches everything, so that the rules after it never do"
            rests_on = (path, (*path, "when"))
            hint = "move it to the end"
            yield Problem(path, message, hint, code="type-order", rests_on=rests_on)
        if not is_open and index == last:
            message = "no rule matches everything; other requests get the type 'default'"
            hint, whole = "end with a rule without when:", (("types",),)
            code = "type-open-end"
            yield Problem(path, message, hint, severity="warning", code=code, rests_on=whole)


def _routes(fleet: Fleet) -> Iterator[Problem]:
    types = {rule.type for rule in fleet.types} | {"default"}
    served = {worker.profile for worker in fleet.workers}
    for name in fleet.routes:
        if name not in types:
            hint = did_you_mean(name, types)
            message = f"no type {name!r} under types:"
            rests_on: tuple[Path, ...] = (("types",),)
            yield Problem(("routes", name), message, hint, code="no-type", rests_on=rests_on)
        for index, hop in enumerate(fleet.hops(name)):
            if hop.profile not in served:
                message = f"no worker has the profile {hop.profile!r}"
                hint = did_you_mean(hop.profile, served)
                path: Path = ("routes", name, index)
                rests_on = (("workers",),)
                yield Problem(path, message, hint, code="route-unserved", rests_on=rests_on)
    for index, rule in enumerate(fleet.types):
        if rule.type not in fleet.routes:
            message = f"type {rule.type!r} has no route: it is served plain"
            hint = f"write routes.{rule.type}"
            path, rests_on = ("types", index, "type"), (("routes",),)
            code = "type-unrouted"
            yield Problem(path, message, hint, severity="warning", code=code, rests_on=rests_on)


def _queue(fleet: Fleet) -> Iterator[Problem]:
    """Without a limit no worker is ever full."""
    if fleet.router.queue is not None and not any(w.in_flight_limit for w in fleet.workers):
        message = "no worker has an in_flight_limit, so that no request ever waits"
        hint = "give workers the in_flight_limit beyond which requests shall wait"
        rests_on: tuple[Path, ...] = (("workers",),)
        path: Path = ("router", "queue")
        yield Problem(path, message, hint, "warning", "queue-idle", rests_on=rests_on)


def _refuges(fleet: Fleet) -> Iterator[Problem]:
    """Every model needs a plain worker: at high load, and for what speculation cannot serve."""
    for model in fleet.models:
        path: Path = ("models", model)
        rests_on: tuple[Path, ...] = (("workers",),)
        profiles = {w.profile for w in fleet.workers if w.model == model}
        if not profiles:
            message = f"no worker serves model {model!r}"
            code = "model-unserved"
            yield Problem(path, message, severity="warning", code=code, rests_on=rests_on)
        elif "plain" not in profiles:
            message = f"model {model!r} has no worker with the profile plain"
            hint = "without it there is no baseline for the gate and no refuge at high load"
            code = "no-plain"
            yield Problem(path, message, hint, severity="warning", code=code, rests_on=rests_on)
