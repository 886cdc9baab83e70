"""Collecting draws and running the sampled test, on an engine that is a made-up language."""

import asyncio
import itertools
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import numpy as np
import pytest

from adapters.contract import Adapter
from adapters.exchange import Call, Candidate, Conversation, Draws, conversation
from bench.language import RULES, Language, Rule
from orchestrator.errors import EngineError
from orchestrator.gate import draws as module
from orchestrator.gate.draw_journal import DrawJournal
from orchestrator.gate.draws import Kept, Prefix, Sampling, try_sampled
from orchestrator.gate.endpoint import Endpoint
from orchestrator.gate.evidence import Sampled
from orchestrator.gate.progress import DrawProgress
from orchestrator.gate.sampled import LOOKS, SampledSettings

LANGUAGE = Language(2)
PREFIXES = (Prefix("a", (1, 2)), Prefix("b", (3,)))
SETTINGS = SampledSettings(detectable=0.3, largest=1000, strings=4, string_length=6)
MODEL = "m"


@dataclass
class Engine:
    """What answers; `asked` keeps the draws it was asked for."""

    rule: Rule | None = None
    right_after: int | None = None  # requests; the rule is the right one from then on
    drafted: float | None = 5.0  # by each request
    cut: bool = False
    fails_on: tuple[int, ...] | None = None
    fingerprints: list[str] = field(default_factory=lambda: ["f"])
    counted: float = 0.0
    asked: list[dict[str, Any]] = field(default_factory=list)

    def answer(self, request: httpx.Request) -> httpx.Response:
        status, text = self._answer(request)
        return httpx.Response(status, stream=httpx.ByteStream(text.encode()))

    def _answer(self, request: httpx.Request) -> tuple[int, str]:
        path = request.url.path
        if path == "/metrics":
            return 200, "" if self.drafted is None else f"drafted {self.counted}\n"
        body = json.loads(request.content)
        if path == "/complete":
            many = len(self.fingerprints) > 1
            return 200, json.dumps(self.fingerprints.pop(0) if many else self.fingerprints[0])
        if self.fails_on and tuple(body["ids"][: len(self.fails_on)]) == self.fails_on:
            return 500, "out of memory"
        return 200, json.dumps(self._candidates(body) if "count" in body else self._drawn(body))

    def _candidates(self, body: dict[str, Any]) -> list[list[float]]:
        prefix, path = place(body["ids"])
        chances = LANGUAGE.target(prefix, path)
        best = np.argsort(-chances)[: body["count"]]
        return [[int(t), float(np.log(chances[t]))] for t in best]

    def _drawn(self, body: dict[str, Any]) -> list[list[int]]:
        if len(self.asked) == self.right_after:
            self.rule = None
        self.asked.append(body)
        self.counted += self.drafted or 0
        prefix, _ = place(body["ids"])
        rng = np.random.default_rng(body["seed"])
        found = LANGUAGE.draw(rng, prefix, (body["draws"], body["length"]), self.rule)
        return [list(draw[:-1] if self.cut else draw) for draw in found]


def place(ids: list[int]) -> tuple[str, tuple[int, ...]]:
    """The prefix that these ids begin with, and what follows it."""
    prefix = next(p for p in PREFIXES if p.ids == tuple(ids[: len(p.ids)]))
    return prefix.id, tuple(ids[len(prefix.ids) :])


class Api:
    """The part of an adapter's api that draws.py uses."""

    @staticmethod
    @conversation
    def complete(model: str) -> Conversation[str]:
        return str((yield Call("/complete", {"model": model})).json())

    @staticmethod
    @conversation
    def candidates(
        model: str, ids: tuple[int, ...], count: int = 20
    ) -> Conversation[tuple[Candidate, ...]]:
        body = {"model": model, "ids": list(ids), "count": count}
        reply = (yield Call("/candidates", body)).json()
        return tuple(Candidate(token, logprob) for token, logprob in reply)

    @staticmethod
    @conversation
    def sample(
        model: str, ids: tuple[int, ...], draws: Draws
    ) -> Conversation[tuple[tuple[int, ...], ...]]:
        body = {"ids": list(ids), "draws": draws.count, "length": draws.length, "seed": draws.seed}
        reply = (yield Call("/sample", body | {"temperature": draws.temperature})).json()
        return tuple(tuple(ids) for ids in reply)


ADAPTER = SimpleNamespace(api=Api, METRICS={"drafted": "drafted"}, METRICS_PATH="/metrics")


@pytest.fixture(autouse=True)
def engines(monkeypatch: pytest.MonkeyPatch) -> dict[str, Engine]:
    """Engines by host name; plain and speculating are there."""
    found = {"plain": Engine(drafted=0.0), "speculating": Engine()}

    def client(url: str) -> httpx.AsyncClient:
        engine = found[httpx.URL(url).host]
        return httpx.AsyncClient(base_url=url, transport=httpx.MockTransport(engine.answer))

    monkeypatch.setattr(module, "engine_client", client)
    monkeypatch.setattr(module, "_COUNT_PAUSE_S", 0)
    return found


def endpoint(name: str) -> Endpoint:
    return Endpoint(name, f"http://{name}", cast("Adapter", ADAPTER), MODEL)


def run(settings: SampledSettings = SETTINGS, said: list[str] | None = None) -> Sampled:
    say = (said if said is not None else []).append
    both = endpoint("plain"), endpoint("speculating")
    return asyncio.run(try_sampled(*both, PREFIXES, settings, say))


def test_a_faultless_engine_passes_after_all_looks(engines: dict[str, Engine]) -> None:
    said: list[str] = []
    found = run(said=said)
    assert (found.verdict, found.looks) == ("pass", len(LOOKS))
    asked = [b for b in engines["speculating"].asked if b["length"] == SETTINGS.length]
    assert found.drafted == 5.0 * len(asked)  # not those of the strings
    assert found.detectable is not None
    assert found.detectable <= 0.35
    assert found.mmd_p_value is not None
    assert f"{found.draws // 2} draws from each of 2 prefixes planned" in said[0]
    assert len(said) == 1 + len(LOOKS)


def test_all_the_while_a_line_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    at: list[str] = []
    drew = DrawProgress.drew

    def told(progress: DrawProgress, count: int, are_kept: bool = False) -> None:
        drew(progress, count, are_kept)
        at.append(progress.line().partition(";")[0])

    monkeypatch.setattr(DrawProgress, "drew", told)
    found = run()
    most = f"of at most {found.draws:,} draws"
    assert at[0] == "sampled: plain: whole answers: 4 of at most 8 draws"
    assert "sampled: speculating: whole answers: 8 of at most 8 draws" in at
    quarter = f"sampled: speculating: next tokens, look 1 of 3: {found.draws // 4:,} {most}"
    assert quarter in at
    assert at[-1] == f"sampled: speculating: next tokens, look 3 of 3: {found.draws:,} {most}"


def test_no_seed_is_used_twice(engines: dict[str, Engine]) -> None:
    run()
    asked = [*engines["plain"].asked, *engines["speculating"].asked]
    seeds = [body["seed"] + n for body in asked for n in range(body["draws"])]
    assert len(seeds) == len(set(seeds))


def test_a_wrong_rule_fails_at_the_first_look_that_shows_it(engines: dict[str, Engine]) -> None:
    engines["speculating"].rule = RULES["accept if equal to the argmax"]
    found = run(replace(SETTINGS, detectable=0.1, largest=400))
    assert found.verdict == "fail"
    assert found.looks < len(LOOKS)
    assert found.worst


def test_a_look_that_fails_is_repeated_with_new_draws(engines: dict[str, Engine]) -> None:
    """As many as were planned: what chance did once it does not do again."""
    said: list[str] = []
    wrong = engines["speculating"]
    wrong.rule = RULES["accept if equal to the argmax"]
    settings = replace(SETTINGS, seed=1)
    failed = run(settings, said)
    assert failed.verdict == "fail"
    looks = [n for n, line in enumerate(said) if "look" in line]
    assert "that look fails; it stands if as many new draws fail too" in said[looks[-1]]
    assert said[-1].startswith(f"sampled: repetition at {failed.draws} draws: p = ")

    sizes = [body["draws"] * (body["length"] == settings.length) for body in wrong.asked]
    before = sum(sizes) - failed.draws
    asked = list(itertools.accumulate(sizes)).index(before) + 1
    engines["speculating"] = Engine(RULES["accept if equal to the argmax"], right_after=asked)
    found = run(settings)
    assert found.verdict == "pass", found.message
    assert found.draws == failed.draws
    assert found.repeated is not None
    assert found.repeated > 0.1
    assert "all of them new" in found.message
    assert found.p_value is not None
    assert found.p_value <= settings.level


def test_another_temperature_is_compared_with_draws_of_plain(engines: dict[str, Engine]) -> None:
    found = run(replace(SETTINGS, temperature=0.8))
    assert found.verdict == "pass"
    drawn = [body["draws"] for body in engines["plain"].asked if body["length"] == SETTINGS.length]
    assert sum(drawn) == found.draws
    assert {body["temperature"] for body in engines["speculating"].asked} == {0.8}


@pytest.mark.parametrize(
    ("drafted", "said"), [(0.0, "no token was drafted"), (None, "no count of drafted")]
)
def test_without_drafts_nothing_is_shown(
    engines: dict[str, Engine], drafted: float | None, said: str
) -> None:
    engines["speculating"].drafted = drafted
    found = run()
    assert found.verdict == "inconclusive"
    assert said in found.message


def test_too_few_draws_are_inconclusive() -> None:
    found = run(replace(SETTINGS, detectable=0.01, largest=100))
    assert found.verdict == "inconclusive"
    assert "100 draws would see a total variation distance of 0.01 with" in found.message


def test_answers_that_are_cut_off_fail(engines: dict[str, Engine]) -> None:
    engines["speculating"].cut = True
    found = run()
    assert (found.verdict, found.looks) == ("fail", 1)
    assert "shorter than asked" in found.message


def test_a_plain_engine_that_cuts_answers_shows_nothing(engines: dict[str, Engine]) -> None:
    engines["plain"].cut = True
    found = run()
    assert found.verdict == "inconclusive"
    assert "plain's answers end without" in found.message
    assert not engines["speculating"].asked


def test_a_prefix_that_cannot_be_answered_is_left_out_and_told(engines: dict[str, Engine]) -> None:
    engines["speculating"].fails_on = (1, 2)
    found = run()
    assert found.verdict == "inconclusive"
    assert "a was left out: http://speculating: /sample answered 500" in found.message
    assert found.looks == len(LOOKS)


def test_another_engine_in_the_end_is_an_error(engines: dict[str, Engine]) -> None:
    engines["speculating"].fingerprints = ["f", "g"]
    with pytest.raises(EngineError, match="its fingerprint went from f to g"):
        run()


def test_what_is_not_drawn_yet_is_inconclusive() -> None:
    sampling = Sampling(PREFIXES, SETTINGS, lambda line: None)
    assert not sampling.is_done
    assert sampling.judge().verdict == "inconclusive"
    assert Sampling((), SETTINGS, lambda line: None).is_done


def test_a_run_that_was_killed_asks_only_for_what_is_not_there(
    engines: dict[str, Engine], tmp_path: Path
) -> None:
    """And comes to the very same outcome."""
    both = [replace(endpoint(name), is_known=True) for name in ("plain", "speculating")]

    async def go(until: int) -> Sampled:
        files = (tmp_path / "A1.draws.jsonl", tmp_path / "S2.draws.jsonl")
        kept = Kept(DrawJournal(files[0]), DrawJournal(files[1], by_look=True))
        test = Sampling(PREFIXES, SETTINGS, lambda _: None, kept)
        await test.score(both[0])
        for _ in range(until):
            await test.draw(both[1])
        return test.judge()

    whole = run()
    asked = {name: len(engine.asked) for name, engine in engines.items()}
    asyncio.run(go(1))
    halfway = {name: len(engine.asked) - asked[name] for name, engine in engines.items()}
    again = asyncio.run(go(len(LOOKS)))
    assert replace(again, message="") == replace(whole, message="")
    assert again.verdict == "pass"
    assert halfway["plain"] == asked["plain"], "the first part asked plain for everything"
    assert len(engines["plain"].asked) == 2 * asked["plain"], "the second for nothing"
    assert len(engines["speculating"].asked) == 2 * asked["speculating"]
