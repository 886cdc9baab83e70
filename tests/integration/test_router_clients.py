"""The client libraries that people use, before the router and real engines: vLLM and llama.cpp."""

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest

from tests.harness import ROOT, until
from tests.integration.client_fleet import (
    BODY_LIMIT,
    LLAMA,
    UNKNOWN_TO_ENGINE,
    VLLM,
    Engine,
    Routed,
    routed,
)

for package in ("openai", "anthropic", "langchain_openai"):
    pytest.importorskip(package, reason="the extra `clients` is not installed: scripts/setup")

import anthropic  # noqa: E402  skipped above where it is not there
import openai  # noqa: E402
from anthropic.types import RawMessageStreamEvent  # noqa: E402
from langchain_openai import ChatOpenAI  # noqa: E402
from openai.types.chat import ChatCompletionChunk  # noqa: E402
from pydantic import BaseModel, SecretStr  # noqa: E402

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]

KEY = "unused"
TEXT = "def add(a, b):"
MESSAGES: Any = [{"role": "user", "content": TEXT}]
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"on": {"type": "boolean"}},
    "required": ["on"],
    "additionalProperties": False,
}
FUNCTION = {"name": "turn", "description": "Turns it.", "parameters": SCHEMA, "strict": True}
TOOLS: Any = [{"type": "function", "function": FUNCTION}]
FORCED: Any = {"type": "function", "function": {"name": "turn"}}
AS_JSON: Any = {"type": "json_schema", "json_schema": {"name": "switch", "schema": SCHEMA}}
GUESSING = {"x-draftgate-type": "edit"}
TYPES: tuple[dict[str, str], ...] = ({}, GUESSING)
TOO_LONG = r"context (length|size)"


class Switch(BaseModel):
    """What is asked for in `parse`."""

    on: bool
    color: Literal["red", "blue"]


@pytest.fixture(scope="module")
def router(
    vllm_python: Path, tiny_models: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Routed]:
    with routed(tmp_path_factory.mktemp("clients"), vllm_python, tiny_models) as found:
        yield found


@pytest.fixture(params=[VLLM, LLAMA], ids=str)
def engine(request: pytest.FixtureRequest) -> Engine:
    found: Engine = request.param
    return found


@pytest.fixture
def client(router: Routed) -> Iterator[openai.OpenAI]:
    url = f"{router.url}/v1"
    with openai.OpenAI(base_url=url, api_key=KEY, max_retries=0, timeout=60) as made:
        yield made


@pytest.fixture
def claude(router: Routed) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=router.url, api_key=KEY, max_retries=0, timeout=60) as made:
        yield made


def without_space() -> dict[str, int]:
    """A bias against tokens of white space, which a small model puts wherever a schema lets it."""
    file = ROOT / "tests/models/target/tokenizer.json"
    vocabulary = json.loads(file.read_text())["model"]["vocab"]
    return {str(number): -100 for word, number in vocabulary.items() if not word.strip("ĠĊĉč")}


def asked(engine: Engine, **more: Any) -> Any:
    """Arguments of a greedy chat completion of 8 tokens."""
    return {"model": engine.model, "messages": MESSAGES, "max_tokens": 8, "temperature": 0} | more


# Chat and completions.


def test_chat_is_answered_whole_and_streamed_alike(client: openai.OpenAI, engine: Engine) -> None:
    long: Any = {"max_tokens": 32, "extra_body": {"ignore_eos": True}}
    for headers in TYPES:
        more = {"extra_headers": headers} | long
        whole = client.chat.completions.create(**asked(engine, **more))
        options = {"stream": True, "stream_options": {"include_usage": True}}
        *events, last = list(client.chat.completions.create(**asked(engine, **more, **options)))
        assert whole.choices[0].finish_reason == events[-1].choices[0].finish_reason == "length"
        parts = [event.choices[0].delta.content or "" for event in events]
        assert "".join(parts) == whole.choices[0].message.content
        assert len(list(filter(None, parts))) > 1
        assert whole.usage is not None
        assert whole.usage.completion_tokens == 32
        assert last.choices == []
        for count in ("prompt_tokens", "completion_tokens", "total_tokens"):
            assert getattr(last.usage, count) == getattr(whole.usage, count) > 0


def test_a_stream_tells_no_usage_unless_asked(client: openai.OpenAI, engine: Engine) -> None:
    events = list(client.chat.completions.create(**asked(engine, stream=True)))
    assert all(event.choices for event in events)


def test_completions_are_answered_whole_and_streamed_alike(
    client: openai.OpenAI, engine: Engine
) -> None:
    request: Any = {"model": engine.model, "prompt": "def", "max_tokens": 8, "temperature": 0}
    whole = client.completions.create(**request)
    events = list(client.completions.create(**request, stream=True))
    assert "".join(event.choices[0].text for event in events) == whole.choices[0].text
    assert whole.usage is not None
    assert whole.usage.completion_tokens == 8
    several = client.completions.create(**request | {"prompt": ["def", "class"]})
    assert [choice.index for choice in several.choices] == [0, 1]
    assert several.choices[0].text == whole.choices[0].text


def test_logprobs_come_through(client: openai.OpenAI, engine: Engine) -> None:
    chat = client.chat.completions.create(**asked(engine, logprobs=True, top_logprobs=3))
    logprobs = chat.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.content is not None
    assert len(logprobs.content) == 8
    for place in logprobs.content:
        assert place.logprob <= 0
        assert len(place.top_logprobs) == 3
        assert place.token == place.top_logprobs[0].token, "greedy"
    text = "".join(place.token for place in logprobs.content)
    assert text == chat.choices[0].message.content


def test_several_choices_and_stop_strings(client: openai.OpenAI, engine: Engine) -> None:
    drawn = client.chat.completions.create(**asked(engine, n=2, temperature=1, seed=3))
    assert [choice.index for choice in drawn.choices] == [0, 1]
    whole = client.chat.completions.create(**asked(engine)).choices[0].message.content
    assert whole is not None
    stopped = client.chat.completions.create(**asked(engine, stop=[whole[4]])).choices[0]
    assert stopped.message.content == whole[: whole.index(whole[4])]
    assert stopped.finish_reason == "stop"


def test_what_the_library_does_not_know_passes_both_ways(
    client: openai.OpenAI, engine: Engine
) -> None:
    fields = {"ignore_eos": True, "return_token_ids": True, "timings_per_token": True}
    found = client.chat.completions.create(**asked(engine, extra_body=fields))
    if engine is VLLM:
        ids = (found.choices[0].model_extra or {})["token_ids"]
        assert len(ids) == 8
    else:
        assert (found.model_extra or {})["timings"]["predicted_n"] == 8


# Structure.


def test_a_schema_is_obeyed(client: openai.OpenAI, engine: Engine) -> None:
    for headers in TYPES:
        more = {"max_tokens": 200, "extra_headers": headers}
        found = client.chat.completions.create(**asked(engine, response_format=AS_JSON, **more))
        assert json.loads(found.choices[0].message.content or "").keys() == {"on"}
        parsed = client.chat.completions.parse(**asked(engine, response_format=Switch, **more))
        assert isinstance(parsed.choices[0].message.parsed, Switch)


def test_a_forced_tool_is_called(client: openai.OpenAI, engine: Engine) -> None:
    """llama.cpp knows no form of calls for the small model's template: it answers in text."""
    more = {"max_tokens": 120, "logit_bias": without_space(), "tools": TOOLS, "tool_choice": FORCED}
    for headers in TYPES:
        request = asked(engine, extra_headers=headers, **more)
        message = client.chat.completions.create(**request).choices[0].message
        events = list(client.chat.completions.create(**request, stream=True))
        name, arguments, text = _streamed_call(events)
        if engine is LLAMA:
            assert (message.tool_calls, name) == (None, "")
            assert message.content == text
            continue
        assert message.tool_calls is not None
        call = message.tool_calls[0]
        assert call.type == "function"
        assert call.function.name == name == "turn"
        assert json.loads(call.function.arguments) == json.loads(arguments)
        assert json.loads(arguments).keys() == {"on"}


def _streamed_call(events: list[ChatCompletionChunk]) -> tuple[str, str, str]:
    """Name and arguments of the call that the deltas are, and the text beside it."""
    deltas = [event.choices[0].delta for event in events]
    functions = [call.function for delta in deltas for call in delta.tool_calls or ()]
    name = "".join(f.name or "" for f in functions if f)
    arguments = "".join(f.arguments or "" for f in functions if f)
    return name, arguments, "".join(delta.content or "" for delta in deltas)


# The other APIs.


def test_responses_are_answered_whole_and_streamed_alike(
    client: openai.OpenAI, engine: Engine
) -> None:
    request: Any = {"model": engine.model, "input": TEXT, "max_output_tokens": 8, "temperature": 0}
    whole = client.responses.create(**request)
    events = list(client.responses.create(**request, stream=True))
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(deltas) == whole.output_text != ""
    assert events[0].type == "response.created"
    assert events[-1].type == "response.completed"
    assert whole.usage is not None
    assert whole.usage.output_tokens == 8


def test_embeddings_and_where_there_are_none(client: openai.OpenAI) -> None:
    found = client.embeddings.create(model="embedder", input=["one", "two"])
    assert [len(entry.embedding) for entry in found.data] == [128, 128]
    floats = client.embeddings.create(model="embedder", input="one", encoding_format="float")
    assert floats.data[0].embedding == pytest.approx(found.data[0].embedding, rel=1e-5)
    with pytest.raises(openai.NotFoundError):
        client.embeddings.create(model=VLLM.model, input="one")
    with pytest.raises(openai.InternalServerError, match="does not support embeddings"):
        client.embeddings.create(model=LLAMA.model, input="one")


def test_models_are_listed(client: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    names = [model.id for model in client.models.list()]
    assert names == ["tiny", "small", "embedder", "idle", UNKNOWN_TO_ENGINE]
    assert [model.id for model in claude.models.list()] == names
    assert client.models.retrieve("tiny").id == "tiny"
    with pytest.raises(openai.NotFoundError, match="'absent' does not exist; served are: tiny,"):
        client.models.retrieve("absent")


def test_anthropics_messages(claude: anthropic.Anthropic, engine: Engine) -> None:
    greedy: Any = {"model": engine.model, "messages": MESSAGES, "max_tokens": 8}
    greedy["extra_body"] = {"temperature": 0}
    whole = claude.messages.create(**greedy)
    assert whole.stop_reason == "max_tokens"
    assert whole.usage.output_tokens == 8
    with claude.messages.stream(**greedy) as stream:
        text = "".join(stream.text_stream)
        last = stream.get_final_message()
    assert [block.text for block in whole.content if block.type == "text"] == [text]
    assert last.stop_reason == "max_tokens"
    assert last.usage.output_tokens == 8
    counted = claude.messages.count_tokens(model=engine.model, messages=MESSAGES)
    cached = whole.usage.cache_read_input_tokens or 0
    assert counted.input_tokens == whole.usage.input_tokens + cached


# What the router adds.


@pytest.mark.parametrize("is_stream", [False, True])
def test_our_headers_can_be_read(
    client: openai.OpenAI, claude: anthropic.Anthropic, engine: Engine, is_stream: bool
) -> None:
    raw = client.chat.completions.with_raw_response
    plain = raw.create(**asked(engine, stream=is_stream))
    assert plain.headers["x-draftgate-type"] == "chat"
    assert plain.headers["x-draftgate-profile"] == "plain"
    assert plain.headers["x-draftgate-worker"] == engine.worker
    assert "route chat[0]: least in flight" in plain.headers["x-draftgate-reason"]
    guessing = raw.create(**asked(engine, stream=is_stream, extra_headers=GUESSING))
    assert guessing.headers["x-draftgate-type"] == "edit"
    assert guessing.headers["x-draftgate-worker"] == engine.drafting
    assert "the client named the type" in guessing.headers["x-draftgate-reason"]
    request: Any = {"model": engine.model, "messages": MESSAGES, "max_tokens": 8}
    told = claude.messages.with_raw_response.create(**request, stream=is_stream)
    assert told.headers["x-draftgate-worker"] == engine.worker
    metadata = {"draftgate_type": "edit"}
    named = raw.create(**asked(engine, stream=is_stream, metadata=metadata))
    assert named.headers["x-draftgate-worker"] == engine.drafting


# Errors.


def test_an_engines_error_is_the_librarys_own(
    client: openai.OpenAI, claude: anthropic.Anthropic, engine: Engine
) -> None:
    with pytest.raises(openai.BadRequestError, match="max_tokens"):
        client.chat.completions.create(**asked(engine, max_tokens="x"))
    long = [{"role": "user", "content": "def add " * 1000}]
    with pytest.raises(openai.BadRequestError, match=TOO_LONG) as wrong:
        client.chat.completions.create(**asked(engine, messages=long))
    assert wrong.value.response.headers["x-draftgate-worker"] == engine.worker
    with pytest.raises(openai.BadRequestError, match=TOO_LONG):
        list(client.chat.completions.create(**asked(engine, messages=long, stream=True)))
    messages: Any = long
    with pytest.raises(anthropic.BadRequestError, match=TOO_LONG):
        claude.messages.create(model=engine.model, max_tokens=8, messages=messages)


def test_an_engines_refusal_of_a_model_is_the_librarys_own(
    client: openai.OpenAI, claude: anthropic.Anthropic
) -> None:
    with pytest.raises(openai.NotFoundError, match="`nowhere` does not exist") as wrong:
        client.chat.completions.create(model=UNKNOWN_TO_ENGINE, messages=MESSAGES)
    assert "draftgate" not in wrong.value.response.text
    with pytest.raises(anthropic.NotFoundError, match="`nowhere` does not exist"):
        claude.messages.create(model=UNKNOWN_TO_ENGINE, messages=MESSAGES, max_tokens=8)


REFUSED: Any = [
    ("absent", TEXT, 404, "'absent' does not exist; served are: tiny", "not_found_error"),
    ("tiny", "a" * 2 * BODY_LIMIT, 413, "larger than 1048576 bytes", "request_too_large"),
    ("idle", TEXT, 503, "no worker can take a request of type chat", "overloaded_error"),
]
LIBRARY = {404: "NotFoundError", 413: "APIStatusError", 503: "InternalServerError"}
ANTHROPIC = {404: "NotFoundError", 413: "ContentTooLargeError", 503: "ServiceUnavailableError"}


@pytest.mark.parametrize(("model", "text", "status", "words", "kind"), REFUSED)
def test_the_routers_refusals_are_the_librarys_own(  # noqa: PLR0913  a table's columns
    client: openai.OpenAI,
    claude: anthropic.Anthropic,
    model: str,
    text: str,
    status: int,
    words: str,
    kind: str,
) -> None:
    messages: Any = [{"role": "user", "content": text}]
    with pytest.raises(openai.APIStatusError, match=words) as wrong:
        client.chat.completions.create(model=model, messages=messages)
    assert type(wrong.value).__name__ == LIBRARY[status]
    assert wrong.value.status_code == status
    body: Any = wrong.value.body
    assert body["source"] == "draftgate"
    with pytest.raises(anthropic.APIStatusError, match=words) as odd:
        claude.messages.create(model=model, messages=messages, max_tokens=8)
    assert type(odd.value).__name__ == ANTHROPIC[status]
    told: Any = odd.value.body
    assert (told["type"], told["error"]["type"]) == ("error", kind)
    assert told["error"]["source"] == "draftgate"


def test_unknown_paths_and_types_are_refused(
    client: openai.OpenAI, claude: anthropic.Anthropic
) -> None:
    with pytest.raises(openai.NotFoundError, match="there is nothing at /v1/files"):
        client.files.list()
    with pytest.raises(anthropic.NotFoundError, match="nothing at /v1/messages/batches"):
        claude.messages.batches.list()
    with pytest.raises(openai.BadRequestError, match="no request type 'odd'"):
        client.chat.completions.create(**asked(VLLM, extra_headers={"x-draftgate-type": "odd"}))


# Leaving.


def _is_dropped(router: Routed, engine: Engine, start: Callable[[], Callable[[], None]]) -> None:
    """Begins an answer of so many tokens that none of it is over when its client leaves."""
    before = router.generated(engine)
    leave = start()
    assert router.running(engine) == 1
    leave()
    until(lambda: router.running(engine) == 0, "the engine stops working for nobody")
    assert router.generated(engine) - before < engine.longest


def test_a_closed_stream_is_aborted_at_the_engine(
    router: Routed, client: openai.OpenAI, claude: anthropic.Anthropic, engine: Engine
) -> None:
    endless: Any = {"extra_body": {"ignore_eos": True}, "max_tokens": engine.longest}

    def with_openai() -> Callable[[], None]:
        request = asked(engine, stream=True, **endless)
        stream: openai.Stream[ChatCompletionChunk] = client.chat.completions.create(**request)
        assert next(iter(stream)).choices
        return stream.close

    def with_anthropic() -> Callable[[], None]:
        request: Any = {"model": engine.model, "messages": MESSAGES, "stream": True} | endless
        stream: anthropic.Stream[RawMessageStreamEvent] = claude.messages.create(**request)
        assert next(iter(stream)).type == "message_start"
        return stream.close

    _is_dropped(router, engine, with_openai)
    _is_dropped(router, engine, with_anthropic)


def test_a_client_that_gives_up_is_aborted_at_the_engine(router: Routed) -> None:
    """Before the first byte. llama.cpp looks only every 30 s who waits for a whole answer."""
    before = router.generated(VLLM)
    request = asked(VLLM, max_tokens=VLLM.longest, extra_body={"ignore_eos": True})

    async def scenario() -> None:
        url = f"{router.url}/v1"
        async with openai.AsyncOpenAI(base_url=url, api_key=KEY, max_retries=0) as client:
            task = asyncio.create_task(client.chat.completions.create(**request))
            while router.running(VLLM) == 0:  # noqa: ASYNC110  another process's
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(asyncio.wait_for(scenario(), 60))
    until(lambda: router.running(VLLM) == 0, "the engine stops working for nobody")
    assert router.generated(VLLM) - before < VLLM.longest


# Bytes.

# What differs between two answers of an engine to the same request.
_OWN = re.compile(
    rb'"(id|item_id|created|created_at|completed_at)":("[^"]*"|[0-9.]+)|"timings":\{[^}]*\}'
)


def _masked(data: bytes) -> bytes:
    return _OWN.sub(rb'"\1":0', data)


def _exchanges(engine: Engine) -> Iterator[tuple[str, dict[str, Any]]]:
    chat = {"model": engine.model, "max_tokens": 8, "temperature": 0, "cache_prompt": False}
    chat |= {"x_unknown": {"a": [1, 2.50, "é"]}}
    yield "/v1/chat/completions", chat | {"messages": MESSAGES, "logprobs": True}
    yield "/v1/chat/completions", chat | {"messages": MESSAGES, "response_format": AS_JSON}
    yield "/v1/chat/completions", chat | {"messages": "none"}
    yield "/v1/completions", chat | {"prompt": TEXT, "logprobs": 2}
    yield "/v1/messages", chat | {"messages": MESSAGES}
    yield "/v1/messages/count_tokens", {"model": engine.model, "messages": MESSAGES}
    yield (
        "/v1/responses",
        {"model": engine.model, "input": TEXT, "max_output_tokens": 8}
        | {
            "temperature": 0,
            "cache_prompt": False,
        },
    )
    yield "/tokenize", {"model": engine.model, "prompt": TEXT, "content": TEXT}
    yield "/v1/embeddings", {"model": engine.model, "input": TEXT}


def test_answers_are_the_engines_own_bytes(router: Routed, engine: Engine) -> None:
    direct = router.workers[engine.worker]
    for path, body in _exchanges(engine):
        httpx.post(f"{direct}{path}", json=body, timeout=60)  # is remembered, which answers tell
        own = httpx.post(f"{direct}{path}", json=body, timeout=60)
        through = httpx.post(f"{router.url}{path}", json=body, timeout=60)
        assert through.headers["x-draftgate-worker"] == engine.worker, path
        assert through.status_code == own.status_code, path
        assert _masked(through.content) == _masked(own.content), path
        for name in own.headers.keys() - {"date", "content-length", "connection", "keep-alive"}:
            assert through.headers[name] == own.headers[name], (path, name)


def test_streams_are_the_engines_own_bytes(router: Routed, engine: Engine) -> None:
    """vLLM puts as many tokens into an event as are ready: there the texts are joined first."""
    direct = router.workers[engine.worker]
    options = {"stream": True, "stream_options": {"include_usage": True}}
    for path, body in _exchanges(engine):
        if path not in ("/v1/chat/completions", "/v1/completions", "/v1/messages"):
            continue
        if engine is VLLM:
            body.pop("logprobs", None)  # come with the tokens of their event
        own = httpx.post(f"{direct}{path}", json=body | options, timeout=60)
        through = httpx.post(f"{router.url}{path}", json=body | options, timeout=60)
        assert through.headers["content-type"] == own.headers["content-type"], path
        read = _joined if engine is VLLM else _masked
        assert read(through.content) == read(own.content) != b"", path


def _joined(data: bytes) -> bytes:
    """The texts of all events as one, and the events that are more than a piece of the text."""
    text = rb'"(content|text)":"((?:[^"\\]|\\.)*)"'
    lines = [line for line in _masked(data).splitlines() if line]
    pieces = (b'"finish_reason":null', b"content_block_delta")
    others = [line for line in lines if not any(piece in line for piece in pieces)]
    rest = [re.sub(text, rb'"\1":0', line) for line in others]
    return b"\n".join((b"".join(found[2] for found in re.finditer(text, data)), *rest))


# Clients that run on an event loop, and LangChain.


def test_async_clients(router: Routed, engine: Engine) -> None:
    async def scenario() -> None:
        async with (
            openai.AsyncOpenAI(base_url=f"{router.url}/v1", api_key=KEY, max_retries=0) as one,
            anthropic.AsyncAnthropic(base_url=router.url, api_key=KEY, max_retries=0) as other,
        ):
            answers = await asyncio.gather(
                *(one.chat.completions.create(**asked(engine)) for _ in range(4))
            )
            assert len({a.choices[0].message.content for a in answers}) == 1
            stream = await one.chat.completions.create(**asked(engine, stream=True))
            text = "".join([event.choices[0].delta.content or "" async for event in stream])
            assert text == answers[0].choices[0].message.content
            greedy: Any = {"extra_body": {"temperature": 0}, "max_tokens": 8}
            messages = other.messages
            async with messages.stream(model=engine.model, messages=MESSAGES, **greedy) as events:
                assert "".join([part async for part in events.text_stream]) == text

    asyncio.run(asyncio.wait_for(scenario(), 120))


def chain(router: Routed, model: str, **more: Any) -> ChatOpenAI:
    return ChatOpenAI(
        base_url=f"{router.url}/v1",
        api_key=SecretStr(KEY),
        model=model,
        temperature=0,
        max_retries=0,
        **({"max_completion_tokens": 8} | more),
    )


def test_langchain_asks_whole_streamed_and_in_batches(router: Routed, engine: Engine) -> None:
    model = chain(router, engine.model, include_response_headers=True)
    whole = model.invoke(TEXT)
    assert whole.response_metadata["headers"]["x-draftgate-worker"] == engine.worker
    assert whole.usage_metadata is not None
    assert whole.usage_metadata["output_tokens"] == 8
    assert "".join(str(part.content) for part in model.stream(TEXT)) == whole.content
    assert [answer.content for answer in model.batch([TEXT] * 3)] == [whole.content] * 3


def test_langchain_gets_structure_and_tools(router: Routed, engine: Engine) -> None:
    model = chain(router, engine.model, max_completion_tokens=200)
    found = model.with_structured_output(Switch, method="json_schema").invoke(TEXT)
    assert isinstance(found, Switch)
    forced = model.bind_tools(TOOLS, tool_choice="turn").bind(logit_bias=without_space())
    answer: Any = forced.invoke(TEXT)
    calls = [(call["name"], set(call["args"])) for call in answer.tool_calls]
    assert calls == ([("turn", {"on"})] if engine is VLLM else [])


def test_langchain_raises_the_librarys_errors(router: Routed) -> None:
    with pytest.raises(openai.NotFoundError, match="'absent' does not exist"):
        chain(router, "absent").invoke(TEXT)
