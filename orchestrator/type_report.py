"""Type report: what rules make of many requests, and what other rules would. Pure."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from orchestrator.classify import Classifier, Rule
from orchestrator.feature import Features

EXAMPLES = 5  # line numbers that a table shows
NAMED = "the client named the type"
# A request that names a type which no rule has.
REFUSED = "(refused)"
_MOST_LABELS = 200  # rows of the table by the lines' own types
_OTHERS = "(others)"


@dataclass(frozen=True)
class Failed:
    """A rule that did not match: its conditions that do not hold, and what the request has."""

    rule: str
    conditions: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Account:
    """The type of one request, why, and why no earlier rule."""

    type: str
    reason: str
    seen: tuple[tuple[str, str], ...] = ()
    failed: tuple[Failed, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {
            "type": self.type,
            "reason": self.reason,
            "seen": dict(self.seen),
            "failed": [
                {"rule": one.rule, "conditions": dict(one.conditions)} for one in self.failed
            ],
        }


def type_of(classifier: Classifier, features: Features, may_name: bool) -> tuple[str, str]:
    """As the router does: what the request names in its metadata goes before the rules."""
    named = features.named_type if may_name else None
    if named is None:
        return classifier(features)
    if named in classifier.types:
        return named, NAMED
    return REFUSED, "it names a type that no rule has"


def account(classifier: Classifier, features: Features, may_name: bool) -> Account:
    """The type of a request with its reasons. `seen` never holds text of the prompt."""
    kind, reason = type_of(classifier, features, may_name)
    if kind == REFUSED or reason == NAMED:
        return Account(kind, reason)
    index = classifier.first(features)
    rules = classifier.rules
    earlier = rules if index is None else rules[:index]
    matched = () if index is None else rules[index].conditions
    return Account(
        kind,
        reason,
        tuple((c.text, c.seen(features)) for c in matched if c.kind != "search"),
        tuple(_failed(number, rule, features) for number, rule in enumerate(earlier)),
    )


def _failed(number: int, rule: Rule, features: Features) -> Failed:
    found = [(c.text, c.seen(features)) for c in rule.conditions if not c.holds(features)]
    return Failed(f"types[{number}] {rule.type}", tuple(found))


@dataclass
class Report:
    """Counts over a file; what it keeps does not grow with the file."""

    types: Counter[str] = field(default_factory=Counter)
    reasons: Counter[tuple[str, str]] = field(default_factory=Counter)
    moves: Counter[tuple[str, str]] = field(default_factory=Counter)
    labels: Counter[tuple[str, str]] = field(default_factory=Counter)
    examples: dict[tuple[str, str, str], list[int]] = field(default_factory=dict)
    bad: int = 0

    def add(self, line: int, kind: str, reason: str, label: str | None) -> None:
        self.types[kind] += 1
        self.reasons[kind, reason] += 1
        if label is not None:
            known = {name for name, _ in self.labels}
            label = label if label in known or len(known) < _MOST_LABELS else _OTHERS
            self.labels[label, kind] += 1
            self._show("label", label, kind, line)

    def move(self, line: int, before: str, after: str) -> None:
        """A request that the other rules give another type."""
        self.moves[before, after] += 1
        self._show("move", before, after, line)

    def _show(self, table: str, first: str, second: str, line: int) -> None:
        lines = self.examples.setdefault((table, first, second), [])
        if len(lines) < EXAMPLES:
            lines.append(line)

    @property
    def requests(self) -> int:
        return self.types.total()

    def as_json(self) -> dict[str, Any]:
        return {
            "requests": self.requests,
            "bad_lines": self.bad,
            "types": [
                {"type": kind, "count": count, "share": count / self.requests}
                for kind, count in self.types.most_common()
            ],
            "reasons": [
                {"type": kind, "reason": reason, "count": count}
                for (kind, reason), count in self.reasons.most_common()
            ],
            "moves": [
                {"from": a, "to": b, "count": n, "lines": self.examples["move", a, b]}
                for (a, b), n in self.moves.most_common()
            ],
            "labels": [
                {"label": a, "type": b, "count": n, "lines": self.examples["label", a, b]}
                for (a, b), n in sorted(self.labels.items())
            ],
        }

    def lines(self, is_compared: bool) -> Iterator[str]:
        """For people."""
        bad = f", {_several(self.bad, 'bad line')}" if self.bad else ""
        yield f"{_several(self.requests, 'request')}{bad}"
        for kind, count in self.types.most_common():
            yield f"  {kind:20} {count:9,} {count / self.requests:7.1%}"
            reasons = [(r, n) for (k, r), n in self.reasons.most_common() if k == kind]
            for reason, number in reasons:
                yield f"  {'':20} {number:9,}          {reason}"
        if is_compared:
            yield f"moved by the other rules: {self.moves.total():,}"
            for (before, after), count in self.moves.most_common():
                yield _row(before, after, count, self.examples["move", before, after])
        if self.labels:
            right = sum(n for (label, kind), n in self.labels.items() if label == kind)
            share = right / self.labels.total()
            yield f"as the lines say themselves: {right:,} of {self.labels.total():,} ({share:.1%})"
            for (label, kind), count in sorted(self.labels.items()):
                if label != kind:
                    yield _row(label, kind, count, self.examples["label", label, kind])


def _several(number: int, noun: str) -> str:
    return f"1 {noun}" if number == 1 else f"{number:,} {noun}s"


def _row(first: str, second: str, count: int, lines: list[int]) -> str:
    more = ", …" if count > len(lines) else ""
    shown = ", ".join(map(str, lines))
    return f"  {first:20} → {second:20} {count:9,}   lines {shown}{more}"
