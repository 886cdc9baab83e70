"""Dispatch: what becomes of a complete request: an answer of our own, or an order for a worker."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

import msgspec

from orchestrator.access_log import AccessLog
from orchestrator.caller import Booking, Callers
from orchestrator.classify import Classifier
from orchestrator.cors import Cors
from orchestrator.endpoint import ENDPOINTS, HEALTH, MODELS, Endpoint, endpoints
from orchestrator.feature import FeatureReader, Features
from orchestrator.fleet import Hop
from orchestrator.limits import book, settle
from orchestrator.message import Incoming, own_headers, printable
from orchestrator.pick import Choice, Facts, Routes, pick, unknown_model
from orchestrator.pool import SAMPLING
from orchestrator.refusal import Refusal
from orchestrator.ring import stable_hash
from orchestrator.standing import Standing
from orchestrator.tally import Tally
from orchestrator.trace import Trace, Tracer
from orchestrator.usage import Usage

# The type of requests that generate nothing: embeddings, tokenizing, and the like.
OTHER_TYPE = "other"
_NOTHING = frozenset[str]()
_DRAWING = frozenset({SAMPLING})
# Of a client whose address was not asked for.
NOBODY: tuple[str | None, int | None] = (None, None)


class Order:
    """A request that a worker shall answer. `headers` are ours on its answer, as far as known."""

    __slots__ = (
        "booking",
        "facts",
        "features",
        "headers",
        "incoming",
        "trace",
        "type",
        "type_reason",
    )

    def __init__(
        self,
        incoming: Incoming,
        facts: Facts,
        type_reason: str,
        headers: bytes,
        features: Features,
    ) -> None:
        self.incoming = incoming
        self.type = facts.type
        self.type_reason = type_reason
        self.facts = facts
        self.headers = headers
        self.features = features
        self.trace: Trace | None = None
        self.booking: Booking | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the router's own that is no error."""

    status: int
    body: bytes
    added: bytes = b""  # whole header lines


@dataclass(slots=True)
class Outcome:
    """How a request ended, for the access log. `end` is whole, client_gone (it left),
    client_slow (it took nothing for too long), refused, or a failure's kind."""

    status: int
    seconds: float
    sent: int  # bytes of the answer's body
    end: str = "whole"
    peer: tuple[str | None, int | None] = NOBODY  # the client's address and port
    request_id: bytes = b""
    retries: int = 0
    key: str | None = None  # the name of the client's API key
    first_byte_s: float | None = None  # to the first piece of the answer's body
    is_events: bool = False
    usage: Usage | None = None
    waited_s: float | None = None  # for a worker


class Dispatch:
    """Decides; moves no bytes."""

    def __init__(  # noqa: PLR0913  put together in one place
        self,
        classifier: Classifier | None,
        routes: Mapping[str, tuple[Hop, ...]],
        standing: Standing,
        has_type_header: bool = True,
        allowed: Iterable[str] = (),
        tally: Tally | None = None,
        access: AccessLog | None = None,
        cors: Cors | None = None,
        tracer: Tracer | None = None,
        callers: Callers | None = None,
    ) -> None:
        self.standing = standing
        self.tally = tally or Tally()
        self.access = access
        self.tracer = tracer
        self.wants_peers = access is not None or tracer is not None
        self.callers = callers
        self._cors = cors
        self.routes = Routes(routes, standing.pools)
        self.is_draining = False  # tells so at /health
        self._classifier = classifier or Classifier(())
        self._has_type_header = has_type_header
        self._endpoints = endpoints(allowed)
        limits = (u.limits for u in standing.upstreams.values() if not u.is_plain)
        self._limited = frozenset(field for limit in limits for field in limit)
        self._named = self._limited - {SAMPLING}
        self._is_drawing_limited = SAMPLING in self._limited
        self._read = FeatureReader(self._named).features
        self._type_headers = {
            name: own_headers((("type", name),)) for name in (*self._classifier.types, OTHER_TYPE)
        }
        self._worker_headers = {
            u.name: own_headers((("profile", u.profile), ("worker", u.name)))
            for u in standing.upstreams.values()
        }
        self._models = {name: _model(name) for name in standing.pools.names}
        every = msgspec.json.encode({"object": "list", "data": list(self._models.values())})
        self._answers: Mapping[str, Callable[[], Answer]] = {
            MODELS: lambda: Answer(200, every),
            HEALTH: self._health,
        }

    def decide(self, incoming: Incoming) -> Order | Answer | Refusal:
        """What to do with a request."""
        if incoming.method == "OPTIONS" and self._cors and self._cors.is_preflight(incoming):
            found = self._cors.preflight(incoming)
            return found if isinstance(found, Refusal) else Answer(204, b"", found)
        if self.callers is None or incoming.path == HEALTH:
            return self._decide(incoming)
        caller = self.callers.find(incoming)
        if isinstance(caller, Refusal):
            return caller
        decided = self._decide(incoming)
        if not isinstance(decided, Order):
            return decided
        return book(caller, decided, self.routes, self.tally) or decided

    def _decide(self, incoming: Incoming) -> Order | Answer | Refusal:
        """What to do with a request of somebody who may ask."""
        endpoint = self._endpoints.get(incoming.path)
        if endpoint is None:
            return self._of_no_endpoint(incoming)
        if incoming.method not in endpoint.methods:
            return _wrong_method(incoming, endpoint)
        if endpoint.use == "own":
            return self._answers[incoming.path]()
        return self._order(incoming, endpoint)

    def renew(self, order: Order) -> Order | Refusal:
        """An order of an earlier configuration, decided anew."""
        found = self._untraced(order.incoming, self._endpoints[order.incoming.path])
        if isinstance(found, Order):
            found.trace, found.booking = order.trace, order.booking
        return found

    def choose(self, order: Order, failed: str | None = None) -> Choice | Refusal:
        """The worker for an order; `failed` was tried in vain."""
        found = pick(self.routes, order.facts, failed)
        kind = found.kind if isinstance(found, Choice) else "none"
        self.tally.picks[kind,] += 1
        return found

    def look(self, order: Order) -> Choice | None:
        """A worker that can take an order now, which has waited for one."""
        found = pick(self.routes, order.facts)
        if not isinstance(found, Choice):
            return None
        self.tally.picks[found.kind,] += 1
        return found

    def headers(self, order: Order, choice: Choice | None) -> bytes:
        """Our headers, as far as they are known."""
        if choice is None:
            return b"%bx-draftgate-reason: %b\r\n" % (order.headers, printable(order.type_reason))
        return b"%b%bx-draftgate-reason: %b\r\n" % (
            order.headers,
            self._worker_headers[choice.upstream.name],
            printable(f"{choice.reason}; {order.type_reason}"),
        )

    def page_headers(self, incoming: Incoming | None) -> bytes:
        """What browsers are told on an answer that no worker gives."""
        return b"" if incoming is None or self._cors is None else self._cors.headers(incoming)

    def record(
        self, incoming: Incoming | None, order: Order | None, choice: Choice | None, end: Outcome
    ) -> None:
        """Counts a request that ended and writes its line."""
        kind = order.type if order else "-"
        profile, worker = (choice.upstream.profile, choice.upstream.name) if choice else ("-", "-")
        self.tally.requests[kind, profile, worker, end.status] += 1
        if choice is not None and end.end == "whole" and end.status < 300:
            choice.pool.answered.add(worker)
            first_s = end.first_byte_s if end.is_events else None
            self.tally.of(kind, profile).see(end.seconds, first_s, end.usage)
        if order is not None and order.booking is not None:
            settle(order.booking, end, self.tally)
        if order is not None and order.trace is not None:
            order.trace.end(order, choice, end)
        if self.access is not None:
            self.access.write(incoming, order, choice, end)

    def _order(self, incoming: Incoming, endpoint: Endpoint) -> Order | Refusal:
        found = self._untraced(incoming, endpoint)
        if self.tracer is not None and isinstance(found, Order):
            found.trace = self.tracer.begin(incoming)
        return found

    def _untraced(self, incoming: Incoming, endpoint: Endpoint) -> Order | Refusal:
        try:
            features = self._read(incoming.body or b"{}")
        except ValueError as error:
            return Refusal(400, str(error))
        if endpoint.use == "other":
            kind, reason = OTHER_TYPE, f"{incoming.path} has no type"
        else:
            named = self._named_type(incoming, features) if self._has_type_header else None
            kind, reason = named or self._classifier(features)
            if named is not None and kind not in self._classifier.types:
                return self._unknown_type(kind)
        facts = Facts(
            kind,
            features.model,
            self._fields(features),
            self._client(incoming, features) if self.routes.needs_client else 0,
            _head(features) if self.routes.needs_head else None,
        )
        headers = self._type_headers[kind]
        if self._cors is not None:
            headers += self._cors.headers(incoming)
        return Order(incoming, facts, reason, headers, features)

    def _named_type(self, incoming: Incoming, features: Features) -> tuple[str, str] | None:
        """The type that the client names itself, by header or in the body's metadata."""
        header = incoming.named.get(b"x-draftgate-type")
        if header is not None:
            return header.decode("latin-1"), "the client named the type"
        named = features.named_type
        return None if named is None else (named, "the client named the type in metadata")

    def _fields(self, features: Features) -> frozenset[str]:
        """The limited fields that a request sets, drawing included."""
        found = features.set_among(self._named) if self._named else _NOTHING
        if self._is_drawing_limited and features.temperature != 0:
            return found | _DRAWING
        return found

    def _client(self, incoming: Incoming, features: Features) -> int:
        """Who asks, for a canary's share: the same client stays on its side of it."""
        for name in ("prompt_cache_key", "safety_identifier", "user"):
            if isinstance(value := features.get(name), str) and value:
                return stable_hash(value.encode())
        if incoming.credentials:
            return stable_hash(incoming.credentials)
        return _head(features) or 0

    def _unknown_type(self, kind: str) -> Refusal:
        types = ", ".join(self._classifier.types)
        message = f"there is no request type {kind!r}; this fleet knows: {types}"
        return Refusal(400, message, "unknown_type", "x-draftgate-type")

    def _of_no_endpoint(self, incoming: Incoming) -> Answer | Refusal:
        """One model, or nothing."""
        path = incoming.path
        if not path.startswith(f"{MODELS}/"):
            return self._unknown_path(path)
        if incoming.method not in ENDPOINTS[MODELS].methods:
            return _wrong_method(incoming, ENDPOINTS[MODELS])
        name = unquote(path.removeprefix(f"{MODELS}/"))
        if name not in self._models:
            return unknown_model(name, self._models)
        return Answer(200, msgspec.json.encode(self._models[name]))

    def _unknown_path(self, path: str) -> Refusal:
        served = "; ".join(f"{'/'.join(e.methods)} {name}" for name, e in self._endpoints.items())
        return Refusal(404, f"there is nothing at {path}; served are: {served}", "not_found")

    def _health(self) -> Answer:
        if self.is_draining:
            return Answer(503, msgspec.json.encode({"status": "draining", "unserved_models": ()}))
        unserved = self.standing.unserved()
        status = "no usable worker" if unserved else "ok"
        body = msgspec.json.encode({"status": status, "unserved_models": unserved})
        return Answer(503 if unserved else 200, body)


def _head(features: Features) -> int | None:
    """A hash of how the prompt begins: a conversation's turns share it."""
    head = features.head
    return None if head is None else stable_hash(head)


def _model(name: str) -> Mapping[str, str | int]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "draftgate"}


def _wrong_method(incoming: Incoming, endpoint: Endpoint) -> Refusal:
    allow = ", ".join(endpoint.methods)
    message = f"{incoming.path} takes {allow}, not {incoming.method}"
    return Refusal(405, message, "method_not_allowed", allow=allow)
