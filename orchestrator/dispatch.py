"""Dispatch: what becomes of a complete request: an answer of our own, or an order for a worker."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec

from orchestrator.classify import Classifier
from orchestrator.feature import Features, read_features
from orchestrator.fleet import Hop
from orchestrator.message import Incoming, own_headers
from orchestrator.pick import Choice, Facts, Pools, pick
from orchestrator.refusal import Refusal
from orchestrator.standing import Standing
from orchestrator.tally import Tally

ACCESS = logging.getLogger("draftgate.access")

COMPLETIONS = ("/v1/chat/completions", "/v1/completions")
_METHODS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(COMPLETIONS, ("POST",)),
    "/v1/models": ("GET", "HEAD"),
    "/health": ("GET", "HEAD"),
}


@dataclass(frozen=True, slots=True)
class Order:
    """A request that a worker shall answer."""

    incoming: Incoming
    type: str
    type_reason: str
    facts: Facts
    hops: tuple[Hop, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the router's own that is no error."""

    status: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a request ended, for the access log. `end` is whole, client_gone or a failure's kind."""

    status: int
    seconds: float
    sent: int  # bytes of the answer
    end: str = "whole"


class Dispatch:
    """Decides; moves no bytes."""

    def __init__(
        self,
        classifier: Classifier | None,
        routes: Mapping[str, tuple[Hop, ...]],
        pools: Pools,
        standing: Standing,
        has_type_header: bool = True,
    ) -> None:
        self.pools = pools
        self.standing = standing
        self.tally = Tally()
        self._classifier = classifier or Classifier(())
        self._routes = routes
        self._has_type_header = has_type_header
        limited = (u.limits for u in standing.upstreams.values() if not u.is_plain)
        self._limited = frozenset(field for limits in limited for field in limits)
        self._models = _model_list(pools.models)
        self._answers: Mapping[str, Callable[[], Answer]] = {
            "/v1/models": lambda: Answer(200, self._models),
            "/health": self._health,
        }

    def decide(self, incoming: Incoming) -> Order | Answer | Refusal:
        """What to do with a request."""
        methods = _METHODS.get(incoming.path)
        if methods is None:
            return _unknown_path(incoming.path)
        if incoming.method not in methods:
            allow = ", ".join(methods)
            message = f"{incoming.path} takes {allow}, not {incoming.method}"
            return Refusal(405, message, "method_not_allowed", allow=allow)
        if "POST" in methods:
            return self._order(incoming)
        return self._answers[incoming.path]()

    def choose(self, order: Order, failed: str | None = None) -> Choice | Refusal:
        """The worker for an order; `failed` was tried in vain."""
        found = pick(self.pools, order.hops, order.facts, self.standing.snapshot(failed))
        kind = found.kind if isinstance(found, Choice) else "none"
        self.tally.picks[kind,] += 1
        return found

    def headers(self, order: Order | None, choice: Choice | None) -> bytes:
        """Our headers, as far as they are known."""
        if order is None:
            return b""
        if choice is None:
            return own_headers((("type", order.type), ("reason", order.type_reason)))
        return own_headers(
            (
                ("type", order.type),
                ("profile", choice.upstream.profile),
                ("worker", choice.upstream.name),
                ("reason", f"{choice.reason}; {order.type_reason}"),
            )
        )

    def record(
        self, incoming: Incoming | None, order: Order | None, choice: Choice | None, end: Outcome
    ) -> None:
        """Counts a request that ended and writes its line."""
        kind = order.type if order else "-"
        profile, worker = (choice.upstream.profile, choice.upstream.name) if choice else ("-", "-")
        self.tally.requests[kind, profile, worker, str(end.status)] += 1
        if ACCESS.isEnabledFor(logging.INFO):
            ACCESS.info(
                "%s %s type=%s profile=%s worker=%s status=%d end=%s ms=%.1f bytes=%d reason=%r",
                incoming.method if incoming else "-",
                incoming.path if incoming else "-",
                kind,
                profile,
                worker,
                end.status,
                end.end,
                end.seconds * 1000,
                end.sent,
                choice.reason if choice else "",
            )

    def _order(self, incoming: Incoming) -> Order | Refusal:
        try:
            features = read_features(incoming.body)
        except ValueError as error:
            return Refusal(400, str(error))
        named = incoming.header(b"x-draftgate-type") if self._has_type_header else None
        if named is None:
            kind, reason = self._classifier(features)
        elif named in self._classifier.types:
            kind, reason = named, "the client named the type"
        else:
            types = ", ".join(self._classifier.types)
            message = f"there is no request type {named!r}; this fleet knows: {types}"
            return Refusal(400, message, "unknown_type", "x-draftgate-type")
        return Order(incoming, kind, reason, self._facts(kind, features), self._hops(kind))

    def _facts(self, kind: str, features: Features) -> Facts:
        return Facts(kind, features.model, features.set_among(self._limited))

    def _hops(self, kind: str) -> tuple[Hop, ...]:
        return self._routes.get(kind, ())

    def _health(self) -> Answer:
        unserved = self.standing.unserved(self.pools)
        status = "no usable worker" if unserved else "ok"
        body = msgspec.json.encode({"status": status, "unserved_models": unserved})
        return Answer(503 if unserved else 200, body)


def _unknown_path(path: str) -> Refusal:
    served = "; ".join(f"{'/'.join(methods)} {name}" for name, methods in _METHODS.items())
    return Refusal(404, f"there is nothing at {path}; served are: {served}", "not_found")


def _model_list(models: tuple[str, ...]) -> bytes:
    data = [
        {"id": model, "object": "model", "created": 0, "owned_by": "draftgate"} for model in models
    ]
    return msgspec.json.encode({"object": "list", "data": data})
