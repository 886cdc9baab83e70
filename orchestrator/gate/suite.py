"""Suites: all that an arm is asked, beyond each prompt alone, made from the prompts. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Final

from orchestrator.gate.evidence import SUITES, Question, Suite
from orchestrator.gate.prompt import Prompt, require_fitting
from orchestrator.gate.request import ALONE, OWN
from orchestrator.gate.structured import FORMAT, TOOL

RAN, NOT_ASKED = "ran", "not asked for"
# A prompt as long as the context costs its square in attention: further than this, hours on a CPU.
LONGEST: Final = 32_768
# Tokens of an answer where a suite needs no whole one.
_SHORT = 32
# An object of a schema must come to its end, or it is no JSON in any arm.
_OBJECT = 48
_MOST_MIXED = 4  # requests in flight where half of them are sampled
_SIZE: Final = attrgetter("size")
_PENALTY_FIELDS: Final[Mapping[str, float]] = {"frequency_penalty": 1.8, "presence_penalty": 1.5}
_NEXT: Final = ("Say the same in other words.", "Now say it in one short sentence.")
# Tokens of three short answers, of what is asked between them, and of a chat template's marks.
_TURNS_ROOM: Final = 3 * _SHORT + 64 + 64
# Fields that leave the log-probabilities as the model made them: the token chosen is the best one.
_NEUTRAL: Final = frozenset({"prompt", "messages", "max_tokens", "max_completion_tokens", "stop"})


@dataclass(frozen=True)
class SuiteSettings:
    """What decides which questions are asked.

    `levels` are concurrencies of the loaded suite (level.py); `context` is the longest prompt and
    answer together in tokens, None where unknown; `gamma` the candidate's largest; `refused` the
    request fields that the candidate's engine cannot serve while speculating, and why.
    """

    suites: frozenset[str]
    levels: tuple[int, ...]
    context: int | None
    gamma: int
    refused: Mapping[str, str]


@dataclass(frozen=True)
class _Material:
    """The prompts by what they may be used for: `few` is a small spread of the plain ones."""

    plain: tuple[Prompt, ...]
    few: tuple[Prompt, ...]
    all: tuple[Prompt, ...]
    settings: SuiteSettings


# Questions, or why there are none.
_Made = list[Question] | str


def questions(
    prompts: Sequence[Prompt], settings: SuiteSettings
) -> tuple[tuple[Question, ...], dict[str, str]]:
    """All questions in the order they are asked, and for each suite "ran" or why not. Prompts with
    fields that the candidate refuses have entries of their own: they are not asked.

    Whatever is made from an answer stands behind the question that it follows. Ids are unique and
    the same for the same prompts and settings: `<suite>…/<prompt>`. Raises InputError for prompts
    that no such context holds.
    """
    require_fitting(prompts, settings.context, settings.gamma + 1)
    plain = tuple(p for p in prompts if not _is_structured(p) and not _refused(p, settings))
    few = tuple(_spread(plain, _how_many(plain)))
    material = _Material(plain, few, tuple(prompts), settings)
    made: list[Question] = []
    said: dict[str, str] = {}
    for suite in SUITES:
        if suite == "sampled":
            continue
        found = _made(suite, material)
        said[suite] = found if isinstance(found, str) else RAN
        made += [] if isinstance(found, str) else found
    return tuple(made), said | _left_out(prompts, settings)


def _left_out(prompts: Sequence[Prompt], settings: SuiteSettings) -> dict[str, str]:
    """Prompts that nobody is asked, by the field that the candidate refuses."""
    found: dict[str, str] = {}
    for field, why in settings.refused.items():
        names = [prompt.id for prompt in prompts if field in prompt.request]
        if names:
            found[f"prompts with {field}"] = f"{why} ({', '.join(names)})"
    return found


def _made(suite: str, material: _Material) -> _Made:
    if suite not in material.settings.suites:
        return NOT_ASKED
    if suite in _FOLLOWING and "greedy" not in material.settings.suites:
        return f"{NOT_ASKED}: it needs answers of the suite greedy"
    if suite in _PLAIN and not material.plain:
        return "every prompt has fields of another suite, or ones refused while speculating"
    return _MAKERS[suite](material)


def _greedy(material: _Material) -> _Made:
    """Each prompt alone; a few of them again, to see the engine's own log-probabilities."""
    alone = [_question("greedy", ALONE, p, p.request) for p in material.plain]
    if {"logprobs", "top_logprobs"} & set(material.settings.refused):
        return alone
    neutral = [p for p in material.few if p.request.keys() <= _NEUTRAL]
    own = [_question("greedy", "greedy-own", p, p.request) for p in neutral]
    return alone + [replace(question, note=OWN) for question in own]


def _limits(material: _Material) -> _Made:
    """Answers cut by number, around the length of a verify step, and by a string."""
    gamma = material.settings.gamma
    counts = sorted({1, 2, gamma, gamma + 1, gamma + 2} - {0})
    made = []
    for prompt in material.few[:2]:
        for count in counts:
            request = {**prompt.request, **_limited(prompt, count)}
            question = _question("limits", f"limits-{count}", prompt, request)
            made.append(replace(question, note=f"max_tokens {count}"))
    for prompt in material.few:
        if "stop" not in prompt.request:
            whole = f"{ALONE}/{prompt.id}"
            request = {**prompt.request, "stop": {"middle": whole}}
            question = _question("limits", "limits-stop", prompt, request)
            made.append(replace(question, follows=whole, note="stop string"))
    return made


def _stream(material: _Material) -> _Made:
    return [_question("stream", "stream", p, p.request) for p in material.few]


def _penalties(material: _Material) -> _Made:
    """The same prompt with penalties of opposite sign: equal answers show that they are ignored."""
    refused = material.settings.refused
    fields = {name: v for name, v in _PENALTY_FIELDS.items() if name not in refused}
    if not fields:
        return refused[next(iter(_PENALTY_FIELDS))]
    made = []
    for prompt in material.few[:2]:
        for name, sign in (("positive", 1), ("negative", -1)):
            signed = {field: sign * value for field, value in fields.items()}
            request = {**prompt.request, **_limited(prompt, _SHORT, at_most=True), **signed}
            question = _question("penalties", f"penalties-{name}", prompt, request)
            made.append(replace(question, note=f"{name} penalties"))
    return made


def _json(material: _Material) -> _Made:
    """Prompts with a response_format, alone and together: a grammar is kept for each request.

    Where there are none, a few with a format of ours.
    """
    if "response_format" in material.settings.refused:
        return material.settings.refused["response_format"]
    given = [p for p in material.all if "response_format" in p.request and "tools" not in p.request]
    ours = [
        replace(p, request={**p.request, **_limited(p, _OBJECT), "response_format": FORMAT})
        for p in material.few[-2:]
    ]
    chosen = [p for p in given if not _refused(p, material.settings)] or ours
    made = [_question("json", "json", p, p.request) for p in chosen]
    for level in material.settings.levels[: 1 if len(chosen) > 1 else 0]:
        together = [_question("json", f"json@{level}", p, p.request) for p in chosen]
        made += [replace(question, concurrency=level) for question in together]
    return made or "no prompt is fit for it"


def _tools(material: _Material) -> _Made:
    """Chats with tools; where there are none, a few with a tool of ours that must be called."""
    for field in ("tools", "tool_choice"):
        if field in material.settings.refused:
            return material.settings.refused[field]
    given = [p for p in material.all if "tools" in p.request and not _refused(p, material.settings)]
    ours = {"tools": [TOOL], "tool_choice": "required"}
    chats = sorted((p for p in material.plain if "messages" in p.request), key=_SIZE)
    chats = chats[: max(1, len(material.few) - 1)]
    made = [replace(p, request={**p.request, **_limited(p, _OBJECT), **ours}) for p in chats]
    chosen = given or made
    return [_question("tools", "tools", p, p.request) for p in chosen] or "no prompt has messages"


def _turns(material: _Material) -> _Made:
    """Conversations that grow by the arm's own answers, so that each turn finds the last cached."""
    context = material.settings.context
    short = sorted(material.plain, key=_SIZE)
    fit = [p for p in short if context is None or p.size + _TURNS_ROOM <= context]
    if not fit:
        return f"no prompt is sure to leave room for three turns in {context} tokens"
    return [q for prompt in _spread(fit, len(material.few)) for q in _conversation(prompt)]


def _conversation(prompt: Prompt) -> list[Question]:
    made: list[Question] = []
    request = {**prompt.request, **_limited(prompt, _SHORT, at_most=True)}
    for number, text in enumerate(("", *_NEXT), start=1):
        before = made[-1].id if made else None
        request = _grown(request, before, text) if before else request
        question = _question("turns", f"turns-{number}", prompt, request)
        made.append(replace(question, follows=before, note=f"turn {number}"))
    return made


def _grown(request: Mapping[str, Any], before: str, text: str) -> dict[str, Any]:
    """The request with the answer `before` and the user's next words behind it (request.py)."""
    gap = {"answer": before}
    if "messages" in request:
        turn = [{"role": "assistant", "content": gap}, {"role": "user", "content": text}]
        return {**request, "messages": [*request["messages"], *turn]}
    prompt = request["prompt"]
    parts = prompt if isinstance(prompt, list) else [prompt]
    return {**request, "prompt": [*parts, gap, f"\n\n{text}\n"]}


def _long(material: _Material) -> _Made:
    """One prompt that leaves room for its answer, and behind that for one verify step.

    An engine may end an answer where the next step would reach behind the context: then it stops
    earlier while it speculates (docs/gate-suites.md).
    """
    context, width = material.settings.context, material.settings.gamma + 1
    answer = max(_SHORT, 2 * width)
    if context is None:
        return "the engine does not tell its longest context"
    if context > LONGEST:
        return f"the context of {context} tokens is longer than the {LONGEST} that the gate asks"
    if context <= 2 * answer + width:
        return f"the context of {context} tokens is too short"
    first = material.few[0]
    sources = [f"{ALONE}/{p.id}" for p in material.few]
    request = {
        "prompt": {"cycle": sources, "length": context - answer - width},
        "max_tokens": answer,
    }
    question = _question("long", "long", first, request)
    return [replace(question, follows=sources[0], note=f"{context - width} tokens in all")]


_ALONE: Final = "no more than one request is in flight at once"


def _loaded(material: _Material) -> _Made:
    if not material.settings.levels:
        return _ALONE
    return [q for level in material.settings.levels for q in _level(material.plain, level)]


def _level(prompts: Sequence[Prompt], level: int) -> list[Question]:
    """Every prompt at least once, and twice as many questions as are in flight.

    Long prompts alternate with short ones, and the first answers are cut to lengths that differ: so
    they end one after another, and the next prompts are read while others are being answered.
    """
    mixed = _alternating(prompts)
    made = []
    for index in range(max(len(mixed), 2 * level)):
        prompt, turn = mixed[index % len(mixed)], index // len(mixed)
        head = f"loaded@{level}" + (f"#{turn + 1}" if turn else "")
        limit = int(prompt.limit * min(1, (index + 1) / level))
        request = {**prompt.request, **_limited(prompt, max(1, limit))}
        question = _question("loaded", head, prompt, request)
        made.append(replace(question, concurrency=level))
    return made


def _mixed(material: _Material) -> _Made:
    """As many prompts as are in flight at least; half of the requests beside them are sampled."""
    if "temperature" in material.settings.refused:
        return material.settings.refused["temperature"]
    if not material.settings.levels:
        return _ALONE
    level = min(material.settings.levels[-1], _MOST_MIXED)
    others = [prompt for prompt in material.plain if prompt not in material.few]
    prompts = [*material.few, *others][: max(level, len(material.few))]
    asked = [_question("mixed", f"mixed@{level}", p, p.request) for p in prompts]
    return [replace(question, concurrency=level, beside=level // 2) for question in asked]


def _alternating(prompts: Sequence[Prompt]) -> list[Prompt]:
    """The longest, the shortest, the second longest, and so on."""
    ordered = sorted(prompts, key=_SIZE)
    count = len(ordered)
    return [ordered[i // 2 if i % 2 else count - 1 - i // 2] for i in range(count)]


_MAKERS: Final[Mapping[str, Callable[[_Material], _Made]]] = {
    "greedy": _greedy,
    "loaded": _loaded,
    "mixed": _mixed,
    "turns": _turns,
    "long": _long,
    "limits": _limits,
    "stream": _stream,
    "json": _json,
    "tools": _tools,
    "penalties": _penalties,
}
# Made from, or checked against, the answer to the prompt alone.
_FOLLOWING: Final = frozenset({"mixed", "limits", "stream", "long"})
_PLAIN: Final = frozenset(_MAKERS) - {"json", "tools"}


def _question(suite: Suite, head: str, prompt: Prompt, request: Mapping[str, Any]) -> Question:
    return Question(f"{head}/{prompt.id}", prompt.id, prompt.type, suite, request)


def _is_structured(prompt: Prompt) -> bool:
    return "response_format" in prompt.request or "tools" in prompt.request


def _refused(prompt: Prompt, settings: SuiteSettings) -> bool:
    return not settings.refused.keys().isdisjoint(prompt.request)


def _limited(prompt: Prompt, count: int, at_most: bool = False) -> dict[str, int]:
    """The field, or both, that cut the answer at `count` tokens."""
    names = [n for n in ("max_tokens", "max_completion_tokens") if n in prompt.request]
    return dict.fromkeys(names, min(count, prompt.limit) if at_most else count)


def _how_many(prompts: Sequence[Prompt]) -> int:
    """One prompt in twelve, and at most three: features cost less than the suite greedy."""
    return max(1, min(3, len(prompts) // 12))


def _spread(prompts: Sequence[Prompt], count: int) -> list[Prompt]:
    """The first prompts of `count` types, the last of them a chat where there is one."""
    seen: dict[str, Prompt] = {}
    for prompt in prompts:
        seen.setdefault(prompt.type, prompt)
    chosen = list(seen.values())[:count]
    chat = next((prompt for prompt in prompts if "messages" in prompt.request), None)
    if chat is None or any("messages" in prompt.request for prompt in chosen):
        return chosen
    return [*chosen[: count - 1], chat]
