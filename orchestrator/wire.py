"""Holding an adapter's conversations with a real engine over HTTP."""

import time
from typing import TypeVar

import httpx

from adapters.exchange import Conversation, EngineAnswerError, Reply
from orchestrator.errors import EngineError, EngineGoneError

T = TypeVar("T")

CONNECT_TIMEOUT_S = 5.0
ANSWER_TIMEOUT_S = 600.0


def engine_client(url: str, answer_timeout_s: float = ANSWER_TIMEOUT_S) -> httpx.AsyncClient:
    """A client for one engine; proxies of the environment are not for loopback."""
    timeout = httpx.Timeout(answer_timeout_s, connect=CONNECT_TIMEOUT_S)
    return httpx.AsyncClient(base_url=url, timeout=timeout, trust_env=False)


async def hold(client: httpx.AsyncClient, conversation: Conversation[T]) -> T:
    """Carry out the conversation's calls; returns its result.

    Raises EngineGoneError when the engine cannot be reached, EngineError when it answers something
    unknown.
    """
    try:
        call = next(conversation)
        while True:
            method = "GET" if call.body is None else "POST"
            answer = await client.request(method, call.path, json=call.body)
            call = conversation.send(Reply(call, answer.status_code, answer.text))
    except StopIteration as stop:
        result: T = stop.value
        return result
    except EngineAnswerError as error:
        raise EngineError(f"{client.base_url}: {error}") from error
    except httpx.HTTPError as error:
        what = str(error) or type(error).__name__
        raise EngineGoneError(f"{client.base_url} cannot be reached: {what}") from error


async def timed(client: httpx.AsyncClient, conversation: Conversation[T]) -> tuple[T, float]:
    """The result and the wall seconds it took."""
    start = time.perf_counter()
    result = await hold(client, conversation)
    return result, time.perf_counter() - start
