"""Admin: the router's own port for operators: health, status, metrics, release hooks."""

import contextlib
import ssl
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from orchestrator.access_log import LostLines
from orchestrator.counts import Counts
from orchestrator.dispatch import Dispatch
from orchestrator.release import CONFIRMING, LARGEST_BODY, ROLLBACK, HookError, Release
from orchestrator.reload import Reload, ReloadCollector
from orchestrator.tally import TallyCollector
from orchestrator.trace import SpanCounts


class AdminServer(uvicorn.Server):
    """uvicorn on a loop that somebody else owns: signals are not its business."""

    def __init__(self, app: Starlette, tls: ssl.SSLContext | None = None) -> None:
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=1,
        )
        config.load()
        config.ssl = tls  # the data port's own, so that a new certificate is seen here too
        super().__init__(config)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@dataclass(frozen=True)
class View:
    """What the admin port tells of, as it is when it is asked: a reload changes all but `reload`.

    `refresh` brings the counts of other processes up to date.
    """

    dispatch: Callable[[], Dispatch]
    counts: Callable[[], Counts]
    release: Callable[[], Release | None] = lambda: None
    reload: Reload | None = None
    refresh: Callable[[], Awaitable[None]] | None = None


class _Counts(Collector):
    """What is counted, of whatever dispatch is in use."""

    def __init__(self, view: View) -> None:
        self._view = view

    def collect(self) -> Iterable[Metric]:
        counts = self._view.counts()
        yield from TallyCollector(counts.tally, self._view.dispatch().standing).collect()
        if counts.spans is not None:
            yield from SpanCounts(counts.spans).collect()
        if counts.lost_lines is not None:
            yield from LostLines(counts.lost_lines).collect()

    def describe(self) -> Iterable[Metric]:
        return ()


def admin_app(view: View) -> Starlette:
    """The admin application over what the router knows."""
    registry = CollectorRegistry()
    registry.register(_Counts(view))
    if view.reload:
        registry.register(ReloadCollector(view.reload))

    async def health(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def status(_: Request) -> Response:
        await _refresh(view)
        told = status_of(view.dispatch())
        return JSONResponse(told | {"reload": view.reload.status()} if view.reload else told)

    async def metrics(_: Request) -> Response:
        await _refresh(view)
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    routes = [Route("/health", health), Route("/status", status), Route("/metrics", metrics)]
    return Starlette(routes=[*routes, *(release_routes(view.release) if view.release() else ())])


async def _refresh(view: View) -> None:
    if view.refresh is not None:
        await view.refresh()


def release_routes(release: Callable[[], Release | None]) -> list[Route]:
    """What Argo Rollouts and Flagger ask: docs/ci.md."""

    async def gate(request: Request) -> Response:
        return await _answer(_tell(release, request.path_params.get("profile")))

    def hook(kind: str) -> Route:
        async def confirm(request: Request) -> Response:
            return await _answer(_confirm(release, kind, request))

        return Route(f"/flagger/{kind}", confirm, methods=["POST"])

    hooks = [hook(kind) for kind in (*CONFIRMING, ROLLBACK)]
    return [Route("/gate", gate), Route("/gate/{profile}", gate), *hooks]


def _now(release: Callable[[], Release | None]) -> Release:
    found = release()
    if found is None:
        raise HookError(404, "this router has no release hooks any more")
    return found


async def _tell(
    release: Callable[[], Release | None], profile: str | None
) -> tuple[int, dict[str, Any]]:
    return 200, await _now(release).tell(profile)


async def _confirm(
    release: Callable[[], Release | None], kind: str, request: Request
) -> tuple[int, dict[str, Any]]:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > LARGEST_BODY:
            raise HookError(413, f"a hook has at most {LARGEST_BODY} bytes")
    return await _now(release).confirm(kind, bytes(body))


async def _answer(answer: Awaitable[tuple[int, dict[str, Any]]]) -> Response:
    try:
        status, data = await answer
    except HookError as error:
        return JSONResponse({"error": str(error)}, error.status)
    return JSONResponse(data, status)


def status_of(dispatch: Dispatch) -> dict[str, Any]:
    """The router's view of its workers, and what it has counted."""
    standing, tally = dispatch.standing, dispatch.tally
    states, in_flight = standing.states, standing.in_flight
    upstreams = [
        {
            "name": upstream.name,
            "profile": upstream.profile,
            "model": upstream.model,
            "engine": upstream.engine,
            "address": f"{upstream.host}:{upstream.port}",
            "state": states[upstream.name],
            "in_flight": in_flight[upstream.name],
            "is_plain": upstream.is_plain,
            "batch_limit": upstream.batch_limit,
            "refused": upstream.refused,
        }
        for upstream in standing.upstreams.values()
    ]
    return {
        "upstreams": upstreams,
        "unserved_models": standing.unserved(),
        "requests": {
            "type": tally.requests_by(0),
            "profile": tally.requests_by(1),
            "worker": tally.requests_by(2),
            "status": tally.requests_by(3),
        },
        "picks": {kind: count for (kind,), count in tally.picks.items()},
        "waiting": tally.waiting,
        "callers": None if dispatch.callers is None else dispatch.callers.describe(),
        "client_cancels": {worker: count for (worker,), count in tally.cancels.items()},
        "upstream_failures": [
            {"worker": worker, "kind": kind, "count": count}
            for (worker, kind), count in tally.failures.items()
        ],
    }
