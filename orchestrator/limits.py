"""Limits: a request's place within those of its caller, from its beginning to its end."""

from typing import TYPE_CHECKING, Final

from orchestrator.caller import BYTES_PER_TOKEN, Booking, Caller
from orchestrator.pick import Routes
from orchestrator.refusal import Refusal
from orchestrator.tally import Tally

if TYPE_CHECKING:  # which calls us
    from orchestrator.dispatch import Order, Outcome

_MOST_TOKENS: Final = 1e9  # of a request: more is a joke


def book(caller: Caller, order: "Order", routes: Routes, tally: Tally) -> Refusal | None:
    """Takes an order of its caller's limits; or why that is not possible, which is counted."""
    found = _refusal(caller, order, routes) or caller.book(_tokens(order))
    if isinstance(found, Refusal):
        tally.keys[caller.name, found.status] += 1
        return found
    order.booking = found
    order.headers += caller.headers()
    return None


def settle(booking: Booking, end: "Outcome", tally: Tally) -> None:
    """A request has ended: gives back what it did not take, and counts it for its caller."""
    booking.end(end.status, end.usage)
    name = end.key = booking.caller.name
    tally.keys[name, end.status] += 1
    if end.usage is not None:
        tally.key_tokens[name, "prompt"] += end.usage.prompt or 0
        tally.key_tokens[name, "completion"] += end.usage.completion or 0


def _refusal(caller: Caller, order: "Order", routes: Routes) -> Refusal | None:
    """Of a model that the key is not for. One that does not exist is told later."""
    name = order.facts.model
    model = routes.only if name is None else routes.names.get(name)
    if model is None or caller.may_use(model):
        return None
    served = ", ".join(caller.entry.models)
    message = f"the key {caller.name!r} is not for the model {model!r}, but for: {served}"
    return Refusal(403, message, "model_not_allowed", "model")


def _tokens(order: "Order") -> int:
    """About how many tokens a request may take, until its answer tells."""
    wanted = order.features.max_tokens or 0.0
    answers = max(1.0, order.features.n) * min(max(0.0, wanted), _MOST_TOKENS)
    return len(order.incoming.body) // BYTES_PER_TOKEN + int(min(answers, _MOST_TOKENS))
