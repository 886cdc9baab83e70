"""Prompt files: JSONL, one request a line, read with every problem at once."""

import hashlib
import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec

from adapters.problem import Place, Problem, did_you_mean, sort_problems
from orchestrator.classify import DEFAULT_TYPE
from orchestrator.errors import InputError
from orchestrator.shipped import shipped

DEFAULT_MAX_TOKENS = 96
# Text comes to 3 to 6 bytes a token, and no text to this many: more of them cannot fit.
_MOST_BYTES_A_TOKEN = 32
# Fields of the OpenAI API that a misspelled name may have meant.
_KNOWN = (
    "frequency_penalty",
    "logit_bias",
    "max_completion_tokens",
    "max_tokens",
    "messages",
    "presence_penalty",
    "prompt",
    "response_format",
    "stop",
    "temperature",
    "tool_choice",
    "tools",
    "top_p",
)
_STEERING = ("spec", "draft", "n_predict", "max_new_tokens")
_OURS = {
    "stream": "the gate reads whole answers",
    "n": "the gate asks for one answer",
    "logprobs": "the gate asks for what it needs itself",
    "model": "the gate asks the workers' model",
}


@dataclass(frozen=True)
class Prompt:
    """One line: `request` holds its OpenAI fields, `prompt` or `messages` among them."""

    id: str
    type: str
    request: dict[str, Any]
    place: Place | None = field(default=None, compare=False)

    @property
    def size(self) -> int:
        """Bytes of what is asked: tokens are no more where each stands for a byte at least."""
        asked = self.request.get("prompt") or [m.get("content") for m in self.request["messages"]]
        return len(str(asked).encode(errors="replace"))

    @property
    def limit(self) -> int:
        """The most tokens of an answer; `max_completion_tokens` is the chat API's newer name."""
        newer = self.request.get("max_completion_tokens")
        return int(newer or self.request.get("max_tokens", DEFAULT_MAX_TOKENS))

    @property
    def text(self) -> str:
        """The prompt, or the last message, for people to recognise it by."""
        last = self.request.get("prompt") or self.request["messages"][-1].get("content", "")
        return str(last)


def read_prompts(path: Path, per_type: int | None = None) -> list[Prompt]:
    """The prompts of a file, or of every .jsonl file of a folder, at most `per_type` of each type.

    Raises InputError listing every bad line.
    """
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    prompts: list[Prompt] = []
    problems: list[Problem] = []
    seen: dict[str, Place] = {}
    for file in files:
        for place, text in _lines(file):
            found = _prompt(place, text)
            if isinstance(found, Prompt) and found.id in seen:
                message = f"{found.id!r} stands in {seen[found.id]} too"
                hint = "give each line an id of its own"
                problems.append(Problem(("id",), message, hint, place=place))
            elif isinstance(found, Prompt):
                seen[found.id] = place
                prompts.append(found)
            else:
                problems += found
    if not files or (not prompts and not problems):
        problems.append(Problem((), "no prompts here", place=Place(str(path), 1, 1)))
    if problems:
        raise InputError(sort_problems(problems))
    return _first_of_each(prompts, per_type)


def require_fitting(prompts: Sequence[Prompt], context: int | None, width: int) -> None:
    """Raises InputError for prompts, or answers, that a context of so many tokens cannot hold.

    Those that only may be too long are asked: the engine knows. An answer must end a verify step,
    `width` tokens, before the context does (docs/gate-suites.md).
    """
    if context is None:
        return
    most = context * _MOST_BYTES_A_TOKEN
    problems = [_too_long(prompt, context) for prompt in prompts if prompt.size > most]
    problems += [_too_many(p, context, width) for p in prompts if p.limit > context - width - 1]
    if problems:
        raise InputError(problems)


def _too_long(prompt: Prompt, context: int) -> Problem:
    told = f"{prompt.id!r} has {prompt.size:,} bytes"
    message = f"{told}, which the model's context of {context:,} tokens cannot hold"
    hint = "shorten it, or give the model a longer context (in a fleet: models.<name>.context)"
    return Problem(("prompt",), message, hint, place=prompt.place)


def _too_many(prompt: Prompt, context: int, width: int) -> Problem:
    message = f"{prompt.id!r} asks for {prompt.limit:,} tokens of a context of {context:,}"
    why = "engines end an answer there sooner when they speculate"
    hint = f"at most {context - width - 1:,} less the prompt's own"
    return Problem(("max_tokens",), f"{message}: {why}", hint, place=prompt.place)


def unknown_types(prompts: Sequence[Prompt], known: Collection[str]) -> list[str]:
    """Types that no rule of the fleet gives, in words, with where they stand first.

    They are judged as classes of their own, so that a misspelled one would pass for a new one.
    """
    known = {*known, DEFAULT_TYPE}
    first: dict[str, Prompt] = {}
    for prompt in prompts:
        if prompt.type not in known:
            first.setdefault(prompt.type, prompt)
    return [
        f"{told_prompt(prompt)}: the fleet knows no type {name!r}: {did_you_mean(name, known)}"
        for name, prompt in first.items()
    ]


def told_prompt(prompt: Prompt) -> str:
    """Which one it is, for people who look for it in their files."""
    place = f"{prompt.place.file}:{prompt.place.line}, " if prompt.place else ""
    return f"prompt {prompt.id!r} ({place}{prompt.size:,} bytes)"


def prompts_path(base: Path, named: str) -> Path:
    """A fleet's prompts; where it has none of the usual name, those that come with draftgate."""
    own = base / named
    return own if own.exists() or named != "prompts" else shipped("prompts")


def source_digest(path: Path) -> str | None:
    """SHA-256 over all prompts that are there, before any of them is left out; None when they
    cannot be read."""
    try:
        files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
        content = b"".join(file.read_bytes() for file in files)
    except OSError:
        return None
    return hashlib.sha256(content).hexdigest()


def prompts_digest(prompts: Sequence[Prompt]) -> str:
    """SHA-256 over what is asked, in order."""
    asked = [prompt.request for prompt in prompts]
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def _first_of_each(prompts: list[Prompt], per_type: int | None) -> list[Prompt]:
    kept: list[Prompt] = []
    counts: dict[str, int] = {}
    for prompt in prompts:
        counts[prompt.type] = counts.get(prompt.type, 0) + 1
        if per_type is None or counts[prompt.type] <= per_type:
            kept.append(prompt)
    return kept


def _lines(file: Path) -> Iterator[tuple[Place, str]]:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: cannot be read: {error}") from error
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield Place(str(file), number, 1), line


def _prompt(place: Place, text: str) -> Prompt | list[Problem]:
    try:
        data = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        return [Problem((), f"not JSON: {error}", "one JSON object a line", place=place)]
    if not isinstance(data, dict):
        return [Problem((), "not a JSON object", '{"type": …, "prompt": …}', place=place)]
    problems = [Problem(p.path, p.message, p.hint, place=place) for p in _problems(data)]
    if problems:
        return problems
    request = {k: v for k, v in data.items() if k not in ("id", "type", "temperature")}
    request.setdefault("max_tokens", DEFAULT_MAX_TOKENS)
    name = str(data.get("id") or f"{Path(place.file).stem}:{place.line}")
    return Prompt(name, data.get("type", DEFAULT_TYPE), request, place)


def _problems(data: dict[str, Any]) -> Iterator[Problem]:
    has_prompt, has_messages = "prompt" in data, "messages" in data
    if has_prompt == has_messages:
        what = "both prompt and messages" if has_prompt else "neither prompt nor messages"
        yield Problem(("prompt",), what, "give one of them")
    if has_prompt and not (isinstance(data["prompt"], str) and data["prompt"]):
        yield Problem(("prompt",), "must be text, and not empty")
    messages = data.get("messages", [{}])
    if not (isinstance(messages, list) and messages and all(isinstance(m, dict) for m in messages)):
        yield Problem(("messages",), "must be a list of messages")
    if data.get("temperature", 0) != 0:
        message = f"is {data['temperature']!r}, but greedy answers are compared"
        yield Problem(("temperature",), message, "leave it out")
    yield from _type_problems(data)
    yield from _limit_problems(data)
    yield from _text_problems(data)
    yield from _name_problems(data)
    yield from _structure_problems(data)
    for key, why in _OURS.items():
        if key in data:
            yield Problem((key,), why, "leave it out")


def _structure_problems(data: dict[str, Any]) -> Iterator[Problem]:
    form, tools = data.get("response_format", {"type": ""}), data.get("tools", [{}])
    if not (isinstance(form, dict) and isinstance(form.get("type"), str)):
        yield Problem(("response_format",), "must be an object with a type")
    if not (isinstance(tools, list) and tools and all(isinstance(t, dict) for t in tools)):
        yield Problem(("tools",), "must be a list of tools, and not empty")
    if "tools" in data and "messages" not in data:
        yield Problem(("tools",), "are for chats", "write the line with messages")


def _type_problems(data: dict[str, Any]) -> Iterator[Problem]:
    """Types are free names, but one that reads like another, or like none, is a slip."""
    name = data.get("type", DEFAULT_TYPE)
    if not (isinstance(name, str) and name and name == name.strip() and name.isprintable()):
        message = f"must be a name without white space around it, found {name!r:.80}"
        yield Problem(("type",), message, f"leave it out for {DEFAULT_TYPE!r}")


def _limit_problems(data: dict[str, Any]) -> Iterator[Problem]:
    for name in ("max_tokens", "max_completion_tokens"):
        limit = data.get(name, 1)
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
            yield Problem((name,), f"must be a whole number from 1, found {limit!r}")


def _text_problems(data: dict[str, Any]) -> Iterator[Problem]:
    """Text must be text: what else stands there would reach the engine, or be taken for ours."""
    stop = data.get("stop")
    stops = stop if isinstance(stop, list) else [stop]
    if stop is not None and not all(isinstance(text, str) and text for text in stops):
        yield Problem(("stop",), f"must be text or a list of texts, found {stop!r:.80}")
    messages = data.get("messages")
    for index, message in enumerate(messages if isinstance(messages, list) else []):
        content = message.get("content") if isinstance(message, dict) else None
        if content is not None and not isinstance(content, str | list):
            path = ("messages", index, "content")
            yield Problem(path, f"must be text or a list of parts, found {content!r:.80}")


def _name_problems(data: dict[str, Any]) -> Iterator[Problem]:
    """Unknown fields reach the engine as they are, but for those that would bend the comparison."""
    for name in data:
        if name.startswith(_STEERING):
            message = "would decide whether, or how far, the engine guesses or answers"
            yield Problem((name,), message, "leave it out; max_tokens bounds an answer")
        near = get_close_matches(name, _KNOWN, 1, 0.8)
        if near and name not in _KNOWN:
            yield Problem((name,), "is no field of the OpenAI API", f"did you mean {near[0]!r}?")
