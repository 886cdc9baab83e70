"""A stand-in for an engine, for faults and races that a real engine does not show on demand.

    python tests/fake_engine.py --port 0 --dialect vllm --model small --tokens 8

The first line on stdout is the port. It speaks the OpenAI API and what the chosen engine has beside
it. Its next token is a function of all tokens before it, so that two of them agree as two plain
engines do, and what it tells of probabilities agrees with what it says; `--diverge-at N` makes one
that does not. Beside the engine's own routes:

GET /log?requests=N&aborted=M&finished=K   waits until it has seen that many, then tells all it saw
POST /control {"fail": MODE, "loaded": true, "release": N, "exit": CODE}   changes it while it runs

With `--hold`, each generation stops after `--tokens-before-hold` tokens until released.
"""

import argparse
import asyncio
import json
import math
import os
import random
import sys
import time
import zlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any
from urllib.parse import parse_qsl, urlsplit

FAILURES = (
    "none",
    "die_mid_stream",
    "hang",
    "close_first",
    "error_500",
    "exit_0",
    "garbage",
    "close_reused",
)
DIALECTS = ("vllm", "sglang", "tensorrt_llm", "llama_cpp")
_VOCABULARY = 1000
_CANDIDATES = 20  # tokens that it may say next
_LARGEST_BODY = 64 * 1024 * 1024


@dataclass
class Request:
    """One request, and what became of it."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    def json(self) -> dict[str, Any]:
        try:
            data = json.loads(self.body or b"{}")
        except ValueError:
            return {}
        return data if isinstance(data, dict) else {}


@dataclass
class Seen:
    """What the engine tells about a generation request."""

    request: Request
    connection: int
    is_reused: bool = False
    is_finished: bool = False
    is_aborted: bool = False

    def describe(self) -> dict[str, Any]:
        return {
            "path": self.request.path,
            "headers": self.request.headers,
            "body": self.request.body.decode("utf-8", "replace"),
            "connection": self.connection,
            "finished": self.is_finished,
            "aborted": self.is_aborted,
        }


@dataclass
class State:
    """All that changes while the engine runs; `changed` wakes whoever waits on it."""

    options: argparse.Namespace
    fail: str
    started_at: float = field(default_factory=time.monotonic)
    is_loaded: bool = False
    released: int = 0
    seen: list[Seen] = field(default_factory=list)
    running: int = 0
    connections: int = 0
    drafts: int = 0
    drafted: int = 0
    accepted: int = 0
    generated: int = 0
    slot: list[int] = field(default_factory=list)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def is_ready(self) -> bool:
        waited = time.monotonic() - self.started_at
        return self.is_loaded or (not self.options.load_held and waited >= self.options.load_s)

    async def notify(self) -> None:
        async with self.changed:
            self.changed.notify_all()

    def counts(self) -> dict[str, int]:
        return {
            "requests": len(self.seen),
            "finished": sum(s.is_finished for s in self.seen),
            "aborted": sum(s.is_aborted for s in self.seen),
        }

    def drafting(self, tokens: int) -> tuple[int, int, int]:
        """Verify steps, drafted and accepted tokens of an answer at the wanted acceptance."""
        per_step = round(self.options.gamma * self.options.acceptance)
        steps = -(-tokens // (1 + per_step)) if self.options.gamma else 0
        return steps, steps * self.options.gamma, steps * per_step

    def count(self, tokens: int) -> None:
        steps, drafted, accepted = self.drafting(tokens)
        self.drafts += steps
        self.drafted += drafted
        self.accepted += accepted


# Tokens.


def prompt_ids(data: dict[str, Any]) -> list[int]:
    """Words as token ids; a prompt that is token ids already is taken as it is."""
    prompt = data.get("prompt", data.get("content"))
    if isinstance(prompt, list) and all(isinstance(token, int) for token in prompt):
        return prompt
    text = prompt if isinstance(prompt, str) else json.dumps(data.get("messages", prompt))
    return [zlib.crc32(word.encode()) % _VOCABULARY for word in text.split()]


def digest(ids: Sequence[int], start: int = 0) -> int:
    """Of all tokens so far; that of more tokens is made from it."""
    for token in ids:
        start = zlib.crc32(b"%d," % token, start)
    return start


def next_tokens(state: State, before: int) -> list[tuple[int, float]]:
    """What may follow tokens of this digest, with its log-probability, likeliest first.

    The best is `--gap` nats before the second; each other has half the weight of the one before.
    """
    first = zlib.crc32(b"next", before) % _VOCABULARY
    weights = [math.exp(state.options.gap)] + [0.5**rank for rank in range(_CANDIDATES - 1)]
    whole = sum(weights)
    return [
        ((first + rank) % _VOCABULARY, math.log(weight / whole))
        for rank, weight in enumerate(weights)
    ]


def answer_ids(state: State, data: dict[str, Any], seed: int | None = None) -> list[int]:
    """The greedy answer, or one drawn at the request's temperature where a seed is given."""
    options = state.options
    wanted = data.get("max_completion_tokens", data.get("max_tokens", data.get("n_predict")))
    length = min(wanted, options.tokens) if isinstance(wanted, int) else options.tokens
    allowed = data.get("allowed_token_ids")
    if isinstance(allowed, list) and allowed:
        return [allowed[0]] * length
    ids: list[int] = []
    before, dice = digest(prompt_ids(data)), random.Random(seed)
    for _ in range(length):
        tokens = next_tokens(state, before)
        token = tokens[0][0] if seed is None else draw(tokens, data["temperature"], dice)
        ids.append(token)
        before = digest([token], before)
    at = options.diverge_at
    if at is None or at >= length:
        return ids
    return [*ids[:at], *((t + 1) % _VOCABULARY for t in ids[at:])]


def draw(tokens: list[tuple[int, float]], temperature: float, dice: random.Random) -> int:
    weights = [math.exp(logprob / temperature) for _, logprob in tokens]
    return dice.choices([token for token, _ in tokens], weights)[0]


def seed_of(data: dict[str, Any]) -> int | None:
    """None for greedy answers, and for those whose client does not say how to draw them."""
    temperature, seed = data.get("temperature"), data.get("seed")
    is_drawn = isinstance(temperature, int | float) and temperature > 0 and isinstance(seed, int)
    return seed if is_drawn else None


def told(state: State, before: Sequence[int], ids: Sequence[int]) -> list[dict[int, float]]:
    """For each of these ids its log-probability and those of the likeliest, by token."""
    places, here = [], digest(before)
    for token in ids:
        found = dict(next_tokens(state, here))
        places.append({token: found.get(token, -30.0)} | found)
        here = digest([token], here)
    return places


def text_of(token: int) -> str:
    return f" t{token}"


# HTTP.


def whole(status: int, body: bytes, kind: str = "application/json") -> bytes:
    head = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def as_json(data: Any, status: int = 200) -> bytes:
    return whole(status, json.dumps(data).encode())


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


async def read_request(reader: asyncio.StreamReader) -> Request | None:
    """The next request; None when the client has left. Bodies have a Content-Length."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    first, *lines = head[:-4].decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ", 2)
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    try:
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    parts = urlsplit(target)
    return Request(method, parts.path, dict(parse_qsl(parts.query)), headers, body)


class Reader(asyncio.StreamReader):
    """Tells when the client has left, without taking bytes of a next request."""

    def __init__(self) -> None:
        super().__init__(limit=_LARGEST_BODY)
        self.left = asyncio.Event()

    def feed_eof(self) -> None:
        super().feed_eof()
        self.left.set()

    def set_exception(self, exc: Exception) -> None:
        super().set_exception(exc)
        self.left.set()


# The engine.


class Engine:
    """Serves one connection at a time each; generation is raced with the client's leaving."""

    def __init__(self, state: State) -> None:
        self.state = state

    async def connection(self, reader: Reader, writer: asyncio.StreamWriter) -> None:
        self.state.connections += 1
        number = self.state.connections
        try:
            while (request := await read_request(reader)) is not None:
                if not await self.respond(request, reader, writer, number):
                    break
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def respond(
        self,
        request: Request,
        reader: Reader,
        writer: asyncio.StreamWriter,
        number: int,
    ) -> bool:
        """Answers one request; whether the connection goes on."""
        if request.path in GENERATIONS and request.method == "POST":
            earlier = any(s.connection == number for s in self.state.seen)
            seen = Seen(request, number, earlier)
            self.state.seen.append(seen)
            return await self.race(seen, reader, writer)
        writer.write(await self.inform(request))
        await writer.drain()
        return request.headers.get("connection") != "close" and not self.state.options.close_each

    async def race(self, seen: Seen, reader: Reader, writer: asyncio.StreamWriter) -> bool:
        """Generates until the client leaves, as engines do."""
        self.state.running += 1
        await self.state.notify()
        work = asyncio.ensure_future(self.generate(seen, writer))
        leaving = asyncio.ensure_future(reader.left.wait())
        await asyncio.wait((work, leaving), return_when=asyncio.FIRST_COMPLETED)
        seen.is_finished = work.done() and not work.cancelled() and work.exception() is None
        seen.is_aborted = not seen.is_finished
        for task in (work, leaving):
            task.cancel()
        await asyncio.gather(work, leaving, return_exceptions=True)
        self.state.running -= 1
        await self.state.notify()
        return seen.is_finished and work.result() and not self.state.options.close_each

    async def generate(self, seen: Seen, writer: asyncio.StreamWriter) -> bool:
        """Writes an answer; whether the connection goes on."""
        fail = self.state.fail
        if fail == "exit_0":
            leave(0)
        if fail == "hang":
            await asyncio.Event().wait()
        if fail == "close_first" or (fail == "close_reused" and seen.is_reused):
            return False
        if fail == "garbage":
            writer.write(b"this is not HTTP\r\n\r\n")
            return False
        if fail == "error_500":
            error = {"error": {"message": "the engine failed", "type": "server_error", "code": 500}}
            writer.write(as_json(error, 500))
            return True
        if seen.request.json().get("stream") is True:
            return await self.stream(seen, writer)
        ids = [token async for token in self.tokens(seen)]
        writer.write(as_json(answer(self.state, seen.request, ids)))
        await writer.drain()
        return True

    async def stream(self, seen: Seen, writer: asyncio.StreamWriter) -> bool:
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nx-engine: fake\r\n"
        writer.write(head + b"transfer-encoding: chunked\r\n\r\n")
        sent = 0
        async for token in self.tokens(seen):
            part = delta(self.state, seen.request, token, sent)
            event = json.dumps(part, separators=(",", ":"))
            padding = " " * self.state.options.padding
            writer.write(chunk(f"data: {event}{padding}\n\n".encode()))
            await writer.drain()
            sent += 1
            if self.state.fail == "die_mid_stream" and sent * 2 >= self.state.options.tokens:
                leave(1)
        writer.write(chunk(b"".join(endings(self.state, seen.request))) + b"0\r\n\r\n")
        await writer.drain()
        return True

    async def tokens(self, seen: Seen) -> AsyncIterator[int]:
        """The answer's tokens, at their pace, held back where that is asked for."""
        options = self.state.options
        data = seen.request.json()
        ids = answer_ids(self.state, data, seed_of(data))
        self.state.count(len(ids))
        for index, token in enumerate(ids):
            if options.hold and index >= options.tokens_before_hold:
                async with self.state.changed:
                    await self.state.changed.wait_for(lambda: self.state.released > 0)
            if options.pace_ms:
                await asyncio.sleep(options.pace_ms / 1000)
            self.state.generated += 1
            yield token

    async def inform(self, request: Request) -> bytes:
        """Everything that is no generation."""
        state, path = self.state, request.path
        if path == "/log":
            return await self.tell(request)
        if path == "/control":
            return await self.control(request)
        if path == "/health":
            if state.fail == "unhealthy" or not state.is_ready:
                return as_json({"error": {"message": "Loading model"}}, 503)
            return as_json({"status": "ok"})
        if path == "/metrics":
            return whole(200, metrics(state).encode(), "text/plain")
        if path == "/tokenize":
            ids = prompt_ids(request.json())
            return as_json({"tokens": ids, "count": len(ids)})
        if path == "/apply-template":
            return as_json({"prompt": json.dumps(request.json().get("messages"))})
        facts = descriptions(state)
        odd = odd_answer(state.fail) if path == "/slots" else b""
        return odd or (as_json(facts[path]) if path in facts else as_json({"error": "?"}, 404))

    async def tell(self, request: Request) -> bytes:
        wanted = {name: int(value) for name, value in request.query.items()}

        def is_there() -> bool:
            counts = self.state.counts()
            return all(counts[name] >= value for name, value in wanted.items())

        async with self.state.changed:
            await self.state.changed.wait_for(is_there)
        seen = [s.describe() for s in self.state.seen]
        counts = self.state.counts() | {"connections": self.state.connections}
        return as_json({"counts": counts, "requests": seen})

    async def control(self, request: Request) -> bytes:
        data = request.json()
        self.state.fail = data.get("fail", self.state.fail)
        self.state.is_loaded = data.get("loaded", self.state.is_loaded)
        self.state.released += data.get("release", 0)
        if "exit" in data:
            leave(data["exit"])
        await self.state.notify()
        return as_json({"fail": self.state.fail, "loaded": self.state.is_ready})


# What an engine says, in its own dialect.

GENERATIONS = ("/v1/completions", "/v1/chat/completions", "/completion")


def answer(state: State, request: Request, ids: list[int]) -> dict[str, Any]:
    data = request.json()
    prompt = prompt_ids(data)
    if request.path == "/completion":
        return native(state, data, prompt, ids)
    usage = {
        "prompt_tokens": len(prompt),
        "completion_tokens": len(ids),
        "total_tokens": len(prompt) + len(ids),
    }
    is_chat = request.path == "/v1/chat/completions"
    choices = [choice(state, data, is_chat, ids)]
    count, seed = data.get("n"), seed_of(data)
    for number in range(1, count if isinstance(count, int) and seed is not None else 1):
        more = answer_ids(state, data, (seed or 0) + number)
        choices.append(choice(state, data, is_chat, more) | {"index": number})
    result: dict[str, Any] = {"object": "chat.completion" if is_chat else "text_completion"}
    if data.get("return_token_ids"):
        (result if is_chat else choices[0])["prompt_token_ids"] = prompt
    if isinstance(data.get("prompt_logprobs"), int):
        rest = told(state, prompt[:1], prompt[1:])
        choices[0]["prompt_logprobs"] = [None, *(scores(place) for place in rest)]
    common = {"id": "fake-1", "created": 1, "model": state.options.model, "choices": choices}
    return result | common | {"usage": usage, "system_fingerprint": "fake"}


def choice(state: State, data: dict[str, Any], is_chat: bool, ids: list[int]) -> dict[str, Any]:
    text = "".join(text_of(token) for token in ids)
    found: dict[str, Any] = {"index": 0, "finish_reason": "length"}
    found |= {"message": {"role": "assistant", "content": text}} if is_chat else {"text": text}
    if data.get("return_token_ids"):
        found["token_ids"] = ids
    if data.get("logprobs"):
        places = told(state, prompt_ids(data), ids)
        found["logprobs"] = chat_logprobs(ids, places) if is_chat else logprobs(ids, places)
    return found


def scores(place: dict[int, float]) -> dict[str, Any]:
    return {str(token): {"logprob": logprob} for token, logprob in place.items()}


def logprobs(ids: Sequence[int], places: list[dict[int, float]]) -> dict[str, Any]:
    tops = [{f"token_id:{t}": lp for t, lp in place.items()} for place in places]
    own = [place[token] for token, place in zip(ids, places, strict=True)]
    return {"token_logprobs": own, "top_logprobs": tops}


def chat_logprobs(ids: Sequence[int], places: list[dict[int, float]]) -> dict[str, Any]:
    entries = []
    for token, place in zip(ids, places, strict=True):
        tops = [{"id": t, "token": text_of(t), "logprob": lp} for t, lp in place.items()]
        entry = {"id": token, "token": text_of(token), "logprob": place[token]}
        entries.append(entry | {"top_logprobs": tops})
    return {"content": entries}


def native(state: State, data: dict[str, Any], prompt: list[int], ids: list[int]) -> dict[str, Any]:
    """The answer of llama-server's own route. It remembers one prompt, as a slot does."""
    _, drafted, accepted = state.drafting(len(ids))
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(state.slot, prompt, strict=False))
    cached = len(list(pairs)) if data.get("cache_prompt") else 0
    state.slot = [*prompt, *ids]
    timings = {"prompt_n": max(1, len(prompt) - cached)}
    if state.options.gamma:
        timings |= {"draft_n": drafted, "draft_n_accepted": accepted}
    found = {
        "content": "".join(text_of(token) for token in ids),
        "tokens": ids if data.get("return_tokens") else [],
        "tokens_predicted": len(ids),
        "tokens_evaluated": len(prompt),
        "stop_type": "limit",
        "timings": timings,
        "system_fingerprint": "b1-fake",
    }
    if data.get("n_probs"):
        entries = chat_logprobs(ids, told(state, prompt, ids))["content"]
        found["completion_probabilities"] = entries
    return found


def delta(state: State, request: Request, token: int, place: int) -> dict[str, Any]:
    """One token of a stream; the first has the prompt's ids where they are asked for."""
    data, text = request.json(), text_of(token)
    if request.path == "/completion":
        ids = [token] if data.get("return_tokens") else []
        return {"content": text, "tokens": ids, "stop": False, "tokens_predicted": place + 1}
    is_chat = request.path == "/v1/chat/completions"
    content: dict[str, Any] = {"delta": {"content": text}} if is_chat else {"text": text}
    part: dict[str, Any] = {"index": 0, "finish_reason": None, **content}
    kind = "chat.completion.chunk" if is_chat else "text_completion"
    event = {"id": "fake-1", "object": kind, "model": state.options.model, "choices": [part]}
    if data.get("logprobs"):
        ids = answer_ids(state, data, seed_of(data))[: place + 1]
        last = told(state, prompt_ids(data), ids)[-1:]
        part["logprobs"] = chat_logprobs([token], last) if is_chat else logprobs([token], last)
    if data.get("return_token_ids"):
        part["token_ids"] = [token]
        if place == 0:
            (event if is_chat else part)["prompt_token_ids"] = prompt_ids(data)
    return event


def endings(state: State, request: Request) -> list[bytes]:
    """What a stream ends with: llama-server's own says how it went, others why it ended."""
    data = request.json()
    if request.path == "/completion":
        ids = answer_ids(state, data, seed_of(data))
        last = native(state, data, prompt_ids(data), ids) | {"content": "", "tokens": []}
        return [b"data: %s\n\n" % json.dumps(last | {"stop": True}).encode()]
    done = b"data: [DONE]\n\n"
    if not data.get("return_token_ids"):
        return [done]
    is_chat = request.path == "/v1/chat/completions"
    content: dict[str, Any] = {"delta": {}} if is_chat else {"text": ""}
    part = {"index": 0, "finish_reason": "length", "token_ids": [], **content}
    return [b"data: %s\n\n" % json.dumps({"choices": [part]}).encode(), done]


def descriptions(state: State) -> dict[str, Any]:
    options = state.options
    card = {"id": options.model, "object": "model", "max_model_len": options.context}
    models = {"object": "list", "data": [card]}
    if options.dialect == "llama_cpp":
        slot = {"id": 0, "is_processing": state.running > 0, "speculative": options.gamma > 0}
        props = {
            "build_info": "b11434-fake",
            "total_slots": 1,
            "model_path": options.weights or options.model,
            "default_generation_settings": {"n_ctx": options.context},
        }
        return {"/v1/models": models, "/slots": [slot], "/props": props}
    return {"/v1/models": models, "/version": {"version": options.engine_version}}


def odd_answer(failure: str) -> bytes:
    """What no engine should answer to a question about itself; empty where nothing is wrong."""
    bodies = {"deep_json": b"[" * 100_000, "endless": b" " * (65 * 2**20)}
    return whole(200, bodies[failure], "application/json") if failure in bodies else b""


def metrics(state: State) -> str:
    """Counters by their names in the dialect; those of drafting only where there is drafting."""
    prefix = {"llama_cpp": "llamacpp", "tensorrt_llm": "trtllm"}.get(
        state.options.dialect, state.options.dialect
    )
    values = {"num_requests_running": state.running, "generation_tokens_total": state.generated}
    if state.options.dialect == "llama_cpp":
        values = {"requests_processing": state.running, "tokens_predicted_total": state.generated}
    if state.options.gamma:
        values |= {
            "spec_decode_num_drafts_total": state.drafts,
            "spec_decode_num_draft_tokens_total": state.drafted,
            "spec_decode_num_accepted_tokens_total": state.accepted,
        }
    return "".join(f"{prefix}:{name} {value}\n" for name, value in values.items())


def leave(code: int) -> None:
    """Dies as a crashed engine does: at once, in the middle of everything."""
    sys.stdout.flush()
    os._exit(code)


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A stand-in for an engine, for tests.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free port")
    parser.add_argument("--dialect", choices=DIALECTS, default="vllm")
    parser.add_argument("--engine-version", default="0.32.0")
    parser.add_argument("--model", default="small")
    parser.add_argument("--weights", help="path told as that of the weights; default: --model")
    parser.add_argument("--load-s", type=float, default=0, help="seconds before /health is 200")
    parser.add_argument("--load-held", action="store_true", help="load until POST /control loaded")
    parser.add_argument("--tokens", type=int, default=8, help="tokens of the longest answer")
    parser.add_argument("--pace-ms", type=float, default=0, help="pause before each token")
    parser.add_argument("--padding", type=int, default=0, help="spaces added to each event")
    parser.add_argument("--hold", action="store_true", help="wait for POST /control release")
    parser.add_argument("--tokens-before-hold", type=int, default=1)
    parser.add_argument(
        "--fail", choices=[*FAILURES, "unhealthy", "deep_json", "endless"], default="none"
    )
    parser.add_argument("--close-each", action="store_true", help="close after every answer")
    parser.add_argument("--gamma", type=int, default=0, help="tokens drafted a step; 0 is plain")
    parser.add_argument("--acceptance", type=float, default=0.5, help="share of drafts accepted")
    parser.add_argument("--gap", type=float, default=3, help="nats from the best token to the next")
    parser.add_argument("--context", type=int, default=4096, help="tokens told as the longest")
    parser.add_argument("--diverge-at", type=int, help="answer differently from this token on")
    return parser.parse_args(argv)


async def main(options: argparse.Namespace) -> None:
    engine = Engine(State(options, options.fail))
    loop = asyncio.get_running_loop()

    def accept() -> asyncio.StreamReaderProtocol:
        reader = Reader()

        async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await engine.connection(reader, writer)

        return asyncio.StreamReaderProtocol(reader, serve)

    server = await loop.create_server(accept, options.host, options.port)
    port = server.sockets[0].getsockname()[1]
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    try:
        asyncio.run(main(parse()))
    except KeyboardInterrupt:
        sys.exit(0)
