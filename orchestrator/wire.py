"""Holding an adapter's conversations with a real engine over HTTP."""

import time
from collections.abc import Iterable
from typing import TypeVar

import httpx

from adapters.contract import Adapter
from adapters.exchange import Call, Conversation, EngineAnswerError, Reply
from adapters.metric import read_metrics
from orchestrator.errors import EngineError, EngineGoneError
from orchestrator.keys import engine_key
from orchestrator.tls import engine_trust

T = TypeVar("T")

CONNECT_TIMEOUT_S = 5.0
ANSWER_TIMEOUT_S = 600.0
# A connection for each request: engines close kept ones when they like (some after 100 requests or
# 5 s), and a request that meets the closing looks like an engine that died.
_LIMITS = httpx.Limits(max_keepalive_connections=0)
LARGEST_ANSWER = 64 * 2**20  # bytes; the longest answer with log-probabilities takes a few MiB


def engine_client(url: str, answer_timeout_s: float = ANSWER_TIMEOUT_S) -> httpx.AsyncClient:
    """A client for one engine; proxies of the environment are not for loopback.

    An engine that asks for a key gets the one in DRAFTGATE_ENGINE_API_KEY.
    """
    timeout = httpx.Timeout(answer_timeout_s, connect=CONNECT_TIMEOUT_S)
    headers = {"accept-encoding": "identity"}
    key = engine_key()
    if key is not None:
        headers["authorization"] = f"Bearer {key}"
    return httpx.AsyncClient(
        base_url=url,
        timeout=timeout,
        trust_env=False,
        headers=headers,
        limits=_LIMITS,
        verify=engine_trust() if url.startswith("https:") else True,
    )


async def hold(client: httpx.AsyncClient, conversation: Conversation[T]) -> T:
    """Carry out the conversation's calls; returns its result.

    Raises EngineGoneError when the engine cannot be reached, EngineError when it answers something
    unknown.
    """
    try:
        call = next(conversation)
        while True:
            call = conversation.send(await ask(client, call))
    except StopIteration as stop:
        result: T = stop.value
        return result
    except EngineAnswerError as error:
        raise EngineError(f"{client.base_url}: {error}") from error
    except httpx.HTTPError as error:
        what = str(error) or type(error).__name__
        raise EngineGoneError(f"{client.base_url} cannot be reached: {what}") from error


async def ask(client: httpx.AsyncClient, call: Call) -> Reply:
    """One call and its whole answer. Raises EngineError when it is larger than any should be."""
    method = "GET" if call.body is None else "POST"
    chunks: list[bytes] = []
    total = 0
    async with client.stream(method, call.path, json=call.body) as answer:
        async for chunk in answer.aiter_raw():  # as sent: we ask for no encoding
            chunks.append(chunk)
            total += len(chunk)
            if total > LARGEST_ANSWER:
                size = LARGEST_ANSWER // 2**20
                raise EngineError(f"{client.base_url}{call.path} answers more than {size} MiB")
    return Reply(call, answer.status_code, b"".join(chunks).decode(errors="replace"))


async def read_counters(
    client: httpx.AsyncClient, adapter: Adapter, wanted: Iterable[str]
) -> dict[str, float | None]:
    """An engine's counters or gauges by our names for them; None for those that it does not tell.

    Raises EngineGoneError when the engine cannot be reached.
    """
    counters: dict[str, float | None] = dict.fromkeys(wanted)
    names = {name: adapter.METRICS[name] for name in counters if name in adapter.METRICS}
    try:
        reply = await ask(client, Call(adapter.METRICS_PATH))
    except httpx.HTTPError as error:
        what = str(error) or type(error).__name__
        raise EngineGoneError(f"{client.base_url}{adapter.METRICS_PATH}: {what}") from error
    return counters | read_metrics(reply.text if reply.status == 200 else "", names)


async def timed(client: httpx.AsyncClient, conversation: Conversation[T]) -> tuple[T, float]:
    """The result and the wall seconds it took."""
    start = time.perf_counter()
    result = await hold(client, conversation)
    return result, time.perf_counter() - start
