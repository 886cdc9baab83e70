"""Outline: a certificate laid out for people, section by section."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from orchestrator.gate.certificate import Certificate
from orchestrator.gate.difference import launch_lines

Row: TypeAlias = tuple[str, str]  # a label and its value

_MOST_WORDS = 90  # characters of a line of instructions


def outline(certificate: Certificate) -> Iterator[str]:
    """Its lines. Raises LookupError, TypeError, ValueError or AttributeError when its fields are
    not those of a certificate."""
    data = certificate.data
    yield f"{certificate.verdict}  policy {data.get('policy')}, made {data.get('created')}"
    yield from (f"  {reason}" for reason in data.get("reasons") or ())
    yield from _section("made for", _subject(data.get("subject") or {}))
    yield from _section("machine, compared with nothing", _machine(data.get("machine") or {}))
    yield from _section("launch", (("", line) for line in launch_lines(data.get("rendered"))))
    yield from _section("asked", _asked(data))
    yield from _section("arms", (_arm(arm) for arm in data.get("arms") or ()))
    rates = (data.get("rates") or {}).items()
    yield from _section("forks per 1,000 tokens", ((name, _rate(rate)) for name, rate in rates))
    yield from _section("found", _found(data))
    yield from _section("notes", (("", str(note)) for note in data.get("notes") or ()))
    yield from _section("file", _file(certificate))


def _section(title: str, rows: Iterable[Row]) -> Iterator[str]:
    """Labels in one column, as wide as the longest of them; nothing where there are no rows."""
    told = list(rows)
    width = max((len(label) + 2 for label, _ in told if label), default=0)
    if told:
        yield title
    yield from (f"  {label.ljust(width)}{value}" for label, value in told)


def _subject(about: Mapping[str, Any]) -> Iterator[Row]:
    engine, weights = about.get("engine") or {}, about.get("weights") or {}
    unknown = about.get("unknown") or {}
    yield "engine", f"{engine.get('name')} {engine.get('version')}"
    facts = {
        "build": engine.get("build"),
        "model": about.get("model"),
        "target": weights.get("target"),
        "draft": weights.get("draft"),
        "tokenizer": about.get("tokenizer"),
        "profile": about.get("profile"),
        "method": about.get("method"),
        "gamma": about.get("gamma"),
        "schedule": _schedule(about.get("schedule") or ()),
        "launch": about.get("launch"),
    }
    for name, value in facts.items():
        why = unknown.get(name)
        yield name, _value(value) if why is None else f"not known: {why}"
    if about.get("hardware") is None:
        yield "hardware", f"not known: {unknown.get('hardware')}"
    else:
        yield from _hardware(about["hardware"])


def _value(value: Any) -> str:
    return "none" if value in (None, "") else str(value)


def _schedule(tiers: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(f"gamma {tier['gamma']} at {tier['batch']} requests" for tier in tiers)


def _hardware(hardware: Mapping[str, Any]) -> Iterator[Row]:
    yield "processor", f"{hardware.get('cpu')} ({hardware.get('machine')})"
    lines = _wrapped(hardware.get("instructions") or ())
    yield from (("" if index else "instructions", line) for index, line in enumerate(lines))
    gpus = hardware.get("gpus")
    yield "GPUs", "not known" if gpus is None else ", ".join(gpus) or "none"


def _wrapped(words: Sequence[str]) -> list[str]:
    lines: list[str] = [""]
    for word in words:
        if lines[-1] and len(lines[-1]) + len(word) >= _MOST_WORDS:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return lines if words else ["none"]


def _machine(machine: Mapping[str, Any]) -> Iterator[Row]:
    if machine:
        yield "system", str(machine.get("system"))
        yield "processors", f"{machine.get('logical_cpus')} logical"
        yield "drivers", ", ".join(machine.get("drivers") or ()) or "none"


def _asked(data: Mapping[str, Any]) -> Iterator[Row]:
    prompts = data.get("prompts") or {}
    yield "questions", f"{data.get('questions')} from {prompts.get('count')} prompts"
    yield from ((name, str(told)) for name, told in (data.get("suites") or {}).items())


def _arm(arm: Mapping[str, Any]) -> Row:
    drafts = "" if not arm["drafted"] else f", {arm['accepted']:g} of {arm['drafted']:g} accepted"
    return arm["name"], f"{arm['tokens']} tokens in {arm['seconds']:g} s{drafts}"


def _rate(rate: Mapping[str, Any]) -> str:
    seen = f"{rate['forks']} forks in {rate['tokens']} tokens"
    return f"{seen}: {rate['low']:.3g} to {rate['high']:.3g}"


def _found(data: Mapping[str, Any]) -> Iterator[Row]:
    for key in ("findings", "divergences", "noise"):
        found = data.get(key) or {"kept": [], "more": 0}
        yield key, str(len(found["kept"]) + found["more"])
    sampled = data.get("sampled")
    if sampled:
        yield "sampled", f"{sampled['verdict']}: {sampled['message']}"


def _file(certificate: Certificate) -> Iterator[Row]:
    yield "digest", certificate.digest
    signature = certificate.signature
    is_signed = isinstance(signature, dict)
    yield "signature", f"by {signature.get('key')}" if is_signed else "none"
    yield "checked", "nothing: `draftgate certificate verify` checks it"
