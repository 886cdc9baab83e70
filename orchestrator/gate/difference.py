"""Difference: a bound fact that is not what a certificate proved, with both values for people."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from adapters.launch import Launch
from orchestrator.deployment import Member
from orchestrator.gate.certificate import Certificate
from orchestrator.gate.pair import diff, lines_of
from orchestrator.gate.subject import changed, facts, rendered, subject

_DIGITS = 12  # of a digest's 64: enough to tell two apart
_HEX = frozenset("0123456789abcdef")
_LONGEST = 100  # characters of a value


@dataclass(frozen=True)
class Difference:
    """One fact: what the certificate says, what is now, and where that is known line by line.

    `changes` has `- ` before what the certificate holds and `+ ` before what is now.
    """

    fact: str
    proved: str
    now: str
    changes: tuple[str, ...] = ()

    def lines(self) -> Iterator[str]:
        values = f" {self.proved} in the certificate, {self.now} now"
        yield f"{self.fact}:{'' if self.proved == self.now else values}"
        yield from (f"  {change}" for change in self.changes)


def differences(certificate: Certificate, member: Member) -> tuple[Difference, ...]:
    """Every bound fact that is not this worker's. Raises OSError when its files cannot be read."""
    proved, now = certificate.data.get("subject"), subject(member)
    before, after = facts(proved), facts(now)
    whys = (_whys(proved), _whys(now))
    return tuple(
        Difference(
            name,
            _told(before.get(name, ...), whys[0].get(name)),
            _told(after[name], whys[1].get(name)),
            _changes(name, certificate, member, (before.get(name), after[name])),
        )
        for name in changed(proved, now, member.is_ours)
    )


def _whys(about: Any) -> dict[str, Any]:
    """Why facts could not be known."""
    unknown = about.get("unknown") if isinstance(about, dict) else None
    return unknown if isinstance(unknown, dict) else {}


def _told(value: Any, why: Any = None) -> str:
    """A fact's value in a few words; a digest by its first digits."""
    if value is ...:
        return "nothing"
    if value is None:
        return f"not known ({why})" if why else "none"
    if isinstance(value, tuple):  # the engine's name and version
        return " ".join(str(part) for part in value)
    if isinstance(value, dict) and "cpu" in value:
        return str(value["cpu"])
    text = shortened(value) if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def shortened(text: str) -> str:
    """A digest by its first digits; any other text as it is."""
    kind, _, digits = text.rpartition(":")
    if len(digits) != 64 or not _HEX.issuperset(digits):
        return text
    return f"{kind}:{digits[:_DIGITS]}…" if kind else f"{digits[:_DIGITS]}…"


def _changes(
    name: str, certificate: Certificate, member: Member, values: tuple[Any, Any]
) -> tuple[str, ...]:
    if name == "launch":
        return _of_launch(certificate.data.get("rendered"), member)
    if name == "hardware" and all(isinstance(value, dict) for value in values):
        return tuple(_of_hardware(*values))
    return ()


def _of_launch(held: Any, member: Member) -> tuple[str, ...]:
    before = _launch(held)
    if before is None:
        return ("the certificate does not hold the launch's lines",)
    found = diff(before, _launch(rendered(member)) or before)
    return found or ("the same lines, otherwise divided into arguments",)


def launch_lines(held: Any) -> list[str]:
    """A launch as a certificate holds it, one option a line; none where it does not hold one."""
    launch = _launch(held)
    return lines_of(launch) if launch else []


def _launch(held: Any) -> Launch | None:
    """A launch as a certificate holds it; None where it does not."""
    if not isinstance(held, dict):
        return None
    arguments, env, files = (held.get(key) for key in ("arguments", "env", "files"))
    if not (isinstance(arguments, list) and isinstance(env, dict) and isinstance(files, dict)):
        return None
    words = tuple(str(argument) for argument in arguments)
    texts = [{str(k): str(v) for k, v in found.items()} for found in (env, files)]
    return Launch((), words, (), 0, env=texts[0], files=texts[1])


def _of_hardware(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    """Line by line what differs; of lists, what only one of them has."""
    for key in dict.fromkeys([*before, *after]):
        was, now = before.get(key), after.get(key)
        if was == now:
            continue
        lost, gained = _only(was, now), _only(now, was)
        yield f"- {key}: {lost}"
        yield f"+ {key}: {gained}"


def _only(one: Any, other: Any) -> str:
    """One side of a value that differs; of two lists, what the other has not."""
    if one is None:
        return "not known"
    if not (isinstance(one, list) and isinstance(other, list)):
        return ", ".join(map(str, one)) if isinstance(one, list) else str(one)
    own = [str(part) for part in one if part not in other]
    return ", ".join(own) or ("the others" if one else "none")
