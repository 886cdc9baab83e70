"""What the gate asks of engines, on real ones: vLLM on the CPU, and llama.cpp inside this project.

The answers of the same question in different forms must agree: whole and streamed, generated and
scored, computed one row at a time and several at once, likely and drawn.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from pydantic import JsonValue

from adapters import ADAPTERS
from adapters.contract import Api
from adapters.exchange import Candidate, Conversation, Draws, Generation, How, Scored
from orchestrator.wire import engine_client, hold
from tests.harness import TestFleet, fleet_of, free_port
from tests.integration.llama_server import COMMAND, EXACT, QUICK, running
from tests.models.to_gguf import write_gguf
from tests.vllm_fleet import CONTEXT, PROMPTS, engine_yaml, write_profile

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]

T = TypeVar("T")
WIDTH = 5
DRAWN = 256
NAME = "tiny"
VLLM, LLAMA = ADAPTERS["vllm"], ADAPTERS["llama_cpp"]
STREAM = How(stream=True)
Request = dict[str, JsonValue]


@dataclass(frozen=True)
class Spoken:
    """An engine that can be spoken to."""

    api: Api
    url: str

    def ask(self, start: Callable[[Api], Conversation[T]]) -> T:
        async def talk() -> T:
            async with engine_client(self.url) as client:
                return await hold(client, start(self.api))

        return asyncio.run(talk())

    def generate(self, how: How, **request: JsonValue) -> Generation:
        return self.ask(lambda api: api.generate(NAME, {"max_tokens": 32, **request}, how))

    def candidates(self, ids: tuple[int, ...]) -> tuple[Candidate, ...]:
        return self.ask(lambda api: api.candidates(NAME, ids))

    def score(self, ids: tuple[int, ...], start: int) -> Sequence[Scored] | None:
        return self.ask(lambda api: api.score(NAME, ids, start))

    def drawn(self, ids: tuple[int, ...], length: int) -> Sequence[tuple[int, ...]]:
        draws = Draws(DRAWN, length, 1.0, seed=7)
        return self.ask(lambda api: api.sample(NAME, ids, draws))


def fleet_yaml(python: Path, models: Path) -> str:
    wide = VLLM.wide_arguments(WIDTH) or {}
    args = ", ".join(f"{name}: {value}" for name, value in wide.items())
    workers = [
        "name: plain-0, profile: plain",
        "name: guess-0, profile: guess",
        f"name: wide-0, profile: plain, args: {{{args}}}",
    ]
    lines = "\n".join(
        f"  - {{model: {NAME}, engine: vllm, {w}, port: {free_port()}}}" for w in workers
    )
    return f"""
fleet: conversations
models: {{{NAME}: {{target: {models / "target"}, context: {CONTEXT}}}}}
{engine_yaml(python)}
workers:
{lines}
"""


@pytest.fixture(scope="module")
def vllm(
    vllm_python: Path, tiny_models: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Spoken]]:
    """A plain worker, one that looks guesses up, and a plain one that reads WIDTH rows a step."""
    folder = tmp_path_factory.mktemp("conversations")
    write_profile(folder, "guess", "method: ngram\ngamma: 4\nlookup: {min: 2, max: 4}")
    with fleet_of(TestFleet(folder, fleet_yaml(vllm_python, tiny_models))) as fleet:
        fleet.up(timeout=500)
        ports = {name: w["port"] for name, w in fleet.status()["workers"].items()}
        yield {
            name.partition("-")[0]: Spoken(VLLM.api, f"http://127.0.0.1:{port}")
            for name, port in ports.items()
        }


@pytest.fixture(scope="module")
def llama(
    tiny_models: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Spoken]]:
    folder = tmp_path_factory.mktemp("llama")
    model = folder / "target.gguf"
    write_gguf(tiny_models / "target", model)
    lookup = ("--spec-ngram-simple-size-n", "2", "--spec-ngram-simple-size-m", "4")
    shared = (*COMMAND, "-m", str(model), "-c", str(CONTEXT), "-np", "1", "--port", "0")
    plain, guess = (*shared, *QUICK, *EXACT), ("--spec-type", "ngram-simple", *lookup)
    with (
        running(plain, folder) as first,
        running((*plain, *guess), folder) as second,
    ):
        urls = {"plain": first.client.base_url, "guess": second.client.base_url}
        yield {name: Spoken(LLAMA.api, str(url)) for name, url in urls.items()}


@pytest.fixture(params=["vllm", "llama"])
def engine(request: pytest.FixtureRequest) -> dict[str, Spoken]:
    found: dict[str, Spoken] = request.getfixturevalue(request.param)
    return found


QUESTIONS: tuple[Request, ...] = (
    {"prompt": PROMPTS[0]},
    {"prompt": PROMPTS[1]},
    {"prompt": [0, 55, 285, 224]},
    {"prompt": PROMPTS[2], "stop": ["re", "\n\n"]},
    {"prompt": "say é€ é€ é€ é€", "ignore_eos": True},
    {"messages": [{"role": "user", "content": "red green blue red green"}]},
    {"prompt": "say", "response_format": {"type": "json_object"}},
)


@pytest.mark.parametrize("question", QUESTIONS, ids=range(len(QUESTIONS)))
@pytest.mark.parametrize("name", ["plain", "guess"])
def test_a_streamed_answer_is_the_whole_one(
    engine: dict[str, Spoken], name: str, question: Request
) -> None:
    whole = engine[name].generate(How(), **question)
    streamed = engine[name].generate(STREAM, **question)
    assert whole.ids
    assert (streamed.prompt_ids, streamed.ids) == (whole.prompt_ids, whole.ids)
    assert (streamed.text, streamed.finish_reason) == (whole.text, whole.finish_reason)
    assert whole == replace(engine["plain"].generate(How(), **question), **counts(whole))


def counts(answer: Generation) -> dict[str, Any]:
    return {"drafted": answer.drafted, "accepted": answer.accepted}


def test_ids_of_split_characters_are_told(llama: dict[str, Spoken]) -> None:
    """llama-server streams leave them out."""
    request: Request = {"prompt": "say", "grammar": 'root ::= (" é€ b")+', "max_tokens": 7}
    whole = llama["plain"].generate(How(), **request)
    assert len(whole.ids) > len(whole.text)
    for name in ("plain", "guess"):
        assert llama[name].generate(STREAM, **request).ids == whole.ids


@pytest.mark.parametrize("name", ["plain", "guess"])
@pytest.mark.parametrize("stream", [False, True])
def test_vllm_takes_its_own_best_tokens(vllm: dict[str, Spoken], name: str, stream: bool) -> None:
    how = How(stream=stream, own_margins=True)
    for question in QUESTIONS[:6]:
        answer = vllm[name].generate(how, **question)
        assert answer.own_margins == (0.0,) * len(answer.ids)
    shaped = vllm[name].generate(how, **QUESTIONS[6])
    assert shaped.own_margins is None


@pytest.mark.parametrize(
    ("field", "low", "high"),
    [
        ("presence_penalty", -2, 2),
        ("frequency_penalty", -2, 2),
        ("repetition_penalty", 0.5, 2),
    ],
)
def test_a_lines_penalties_reach_the_engine(
    engine: dict[str, Spoken], field: str, low: float, high: float
) -> None:
    same, other = (
        engine["plain"].generate(How(), prompt=PROMPTS[1], **{field: value})
        for value in (low, high)
    )
    assert same.ids != other.ids
    assert len(set(same.ids)) < len(set(other.ids)), "one asks for repetition, one against it"


def test_scores_of_the_plain_answer_are_of_the_best_tokens(vllm: dict[str, Spoken]) -> None:
    for name, prompt in (("plain", PROMPTS[0]), ("wide", PROMPTS[1])):
        answer = vllm["plain"].generate(How(), prompt=prompt)
        whole, start = answer.prompt_ids + answer.ids, len(answer.prompt_ids)
        scored = vllm[name].score(whole, start)
        assert scored is not None
        assert tuple(one.token for one in scored) == answer.ids
        assert tuple(one.best for one in scored) == answer.ids
        likeliest = vllm["plain"].candidates(answer.prompt_ids)[0]
        assert scored[0].logprob == pytest.approx(likeliest.logprob, abs=1e-3)


@pytest.mark.parametrize("length", [WIDTH, WIDTH + 1, 23, 25])
def test_wide_rows_agree_with_single_ones(engine: dict[str, Spoken], length: int) -> None:
    """In float32 these kernels round alike up to a few units of the last place."""
    answer = engine["plain"].generate(How(), prompt=PROMPTS[0])
    ids = (answer.prompt_ids + answer.ids)[:length]
    speaker = engine.get("wide", engine["plain"])
    found = speaker.ask(lambda api: api.wide(NAME, ids, WIDTH))
    expected = engine["plain"].candidates(ids)
    assert found is not None
    assert len(found) == len(expected) == 20
    told = {c.token: c.logprob for c in found}
    for candidate in expected[:10]:
        assert told[candidate.token] == pytest.approx(candidate.logprob, abs=1e-2)
    assert found[0].token == expected[0].token


def test_the_cache_may_be_left_on(engine: dict[str, Spoken]) -> None:
    first = engine["plain"].generate(How(), prompt=PROMPTS[0])
    longer: list[JsonValue] = [*first.prompt_ids, *first.ids[:8]]
    kept = engine["plain"].generate(How(keep_cache=True), prompt=longer, max_tokens=8)
    assert kept.ids == first.ids[8:16]


@pytest.mark.parametrize("name", ["plain", "guess"])
def test_draws_are_as_frequent_as_likely(engine: dict[str, Spoken], name: str) -> None:
    """Three tokens, for the first comes from reading the prompt, without a guess. Bounds of five
    standard deviations: one false alarm in 10^6 for each token."""
    ids = engine["plain"].generate(How(), prompt=PROMPTS[1]).prompt_ids
    drawn = engine[name].drawn(ids, 3)
    assert len(drawn) == DRAWN
    assert len(set(drawn)) > DRAWN / 4, "each has a seed of its own"
    check_frequencies(engine["plain"].candidates(ids), Counter(draw[0] for draw in drawn))
    first, count = Counter(draw[0] for draw in drawn).most_common(1)[0]
    seconds = Counter(draw[1] for draw in drawn if draw[0] == first and len(draw) > 1)
    assert seconds.total() >= count * 0.9
    check_frequencies(engine["plain"].candidates((*ids, first)), seconds)


def check_frequencies(candidates: Sequence[Candidate], found: Counter[int]) -> None:
    for candidate in candidates[:8]:
        likely = math.exp(candidate.logprob)
        deviation = math.sqrt(found.total() * likely * (1 - likely))
        assert abs(found[candidate.token] - found.total() * likely) < 5 * deviation + 1


def test_what_they_tell_of_themselves(engine: dict[str, Spoken]) -> None:
    identity = engine["plain"].ask(lambda api: api.identify())
    assert identity.context == CONTEXT
