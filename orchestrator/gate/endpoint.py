"""A running engine as the gate sees it, and finding out what answers at a URL."""

from dataclasses import dataclass

from adapters import ADAPTERS
from adapters.contract import Adapter
from adapters.exchange import Identity
from orchestrator.errors import EngineError, EngineGoneError, InputError
from orchestrator.wire import engine_client, hold


@dataclass(frozen=True)
class Endpoint:
    """Where an engine is, how to speak to it, and what it calls its model.

    `boots` is 1 for an engine started for the arm, 0 for one that ran before. `is_known`: it was
    started from the fleet's own launch, not by somebody else.
    """

    name: str
    url: str
    adapter: Adapter
    model: str
    context: int | None = None  # tokens
    boots: int = 0
    is_known: bool = False


def told_fingerprint(fingerprint: str) -> str:
    """For messages: some engines tell none."""
    return fingerprint or "none"


def changed_fingerprint(before: str, after: str) -> str:
    """For messages: how an engine is known to be another one."""
    return f"its fingerprint went from {told_fingerprint(before)} to {told_fingerprint(after)}"


async def find_endpoint(url: str) -> Endpoint:
    """An engine that somebody else started: which one it is, and what its model is called.

    Raises InputError when no adapter knows what answers there, EngineGoneError when nothing does.
    """
    tried = []
    is_there = False
    for adapter in ADAPTERS.values():
        try:
            identity = await identify(url, adapter)
            return Endpoint(url, url, adapter, identity.models[0], identity.context)
        except EngineGoneError as error:
            tried.append(f"{adapter.TITLE}: {error}")
        except EngineError as error:
            is_there = True
            tried.append(f"{adapter.TITLE}: {error}")
    if not is_there:
        raise EngineGoneError(f"nothing answers at {url}; is the engine up yet?")
    raise InputError("no engine known here answers:\n  " + "\n  ".join(tried))


async def identify(url: str, adapter: Adapter) -> Identity:
    """Raises EngineError when this is not that engine, or it serves nothing."""
    async with engine_client(url, answer_timeout_s=30) as client:
        identity = await hold(client, adapter.api.identify())
    if not identity.models:
        raise EngineError(f"{url} serves no model")
    return identity
