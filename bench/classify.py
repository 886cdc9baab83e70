"""CPU time of classifying a request: decoding its body, and finding the first rule that matches.

python bench/classify.py          prints tables; docs/performance.md holds one such output

The texts are this project's own documentation. A cell is the least of many rounds, each over bodies
that differ, so that other programs on the machine count as little as can be; beside it stands the
time of `json.loads` on the same bodies, of the same rounds.
"""

import json
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from orchestrator.classify import Classifier
from orchestrator.feature import read_features
from orchestrator.fleet_check import read_fleet
from orchestrator.shipped import shipped
from orchestrator.type_rule import TypeRule, When

SIZES_KB = (1, 4, 16, 64, 128, 256)
RULES = (1, 10, 100, 500)
BODIES = 16  # of each size
ROUNDS = 150
LIMITS_US = {1: 15.0, 128: 200.0}  # by size in KB
LIMIT_GROWTH = 1.1  # of the most rules over the fewest

_OVERLAP = TypeRule(type="copy", when=When(overlap=">=0.95"))


def main() -> int:
    shipped_rules = read_fleet(shipped("fleet.yaml")).value
    assert shipped_rules is not None
    rules = (_OVERLAP, *shipped_rules.types)
    say(f"| Body | json.loads, µs | the {len(rules)} rules, µs | ratio | limit, µs |")
    say("|---|---|---|---|---|")
    is_met = True
    for size in SIZES_KB:
        bodies = [body(size * 1024, number) for number in range(BODIES)]
        parse, ours = least([partial(each, json.loads, bodies), _classifying(rules, bodies)])
        limit = LIMITS_US.get(size)
        is_met &= limit is None or ours <= limit
        say(f"| {size} KB | {parse:.1f} | {ours:.1f} | {ours / parse:.2f} | {limit or ''} |")
    say(f"\n| Body | {' | '.join(f'{n} rules' for n in RULES)} | growth |")
    say(f"|---|{'---|' * len(RULES)}---|")
    for size in SIZES_KB:
        bodies = [body(size * 1024, number) for number in range(BODIES)]
        times = least([_classifying(alike(count), bodies) for count in RULES])
        growth = times[-1] / times[0]
        is_met &= growth <= LIMIT_GROWTH
        say(f"| {size} KB | {' | '.join(f'{t:.1f}' for t in times)} | {growth:.2f} |")
    return 0 if is_met else 1


def alike(count: int) -> list[TypeRule]:
    """Rules that all ask for the same features, so that one takes as much looking as all of them.

    None matches: each expression needs a word that no text here has, but that of the first, which
    occurs; there the share of repeated text decides.
    """
    words = ["router", *(f"qz{number}xword" for number in range(1, count))]
    return [
        TypeRule(
            type=f"type-{number}",
            when=When(
                temperature=f"<={1 + number / 1000}",
                prompt_chars=f">={number % 50}",
                last_user=rf"(?i)\b({word}|the)\b" if number == 0 else rf"(?i)\b{word}\b",
                overlap=f">={0.99 + number / 1e6:.6f}",
            ),
        )
        for number, word in enumerate(words)
    ]


def body(size: int, number: int) -> bytes:
    """A chat request of so many bytes, with its own part of the documentation in it."""
    docs = "\n".join(
        file.read_text(encoding="utf-8") for file in sorted(Path(shipped("docs")).glob("*.md"))
    )
    start = number * len(docs) // BODIES
    text = (docs[start:] + docs[:start]) * (1 + size // len(docs))
    request = {
        "model": "small",
        "temperature": 0.2,
        "max_tokens": 256,
        "stream": True,
        "messages": [{"role": "system", "content": "You are a helpful assistant."}],
        "user": f"user-{number}",
    }
    low, high = 0, size
    while low < high:  # the longest text that fits
        middle = (low + high + 1) // 2
        fits = len(_encoded(request, text[:middle])) <= size
        low, high = (middle, high) if fits else (low, middle - 1)
    return _encoded(request, text[:low])


def _encoded(request: dict[str, object], text: str) -> bytes:
    before = request["messages"]
    assert isinstance(before, list)
    messages = [*before, {"role": "user", "content": text}]
    return json.dumps({**request, "messages": messages}, ensure_ascii=False).encode()


def _classifying(rules: Sequence[TypeRule], bodies: Sequence[bytes]) -> Callable[[], None]:
    classifier = Classifier(rules)
    return partial(each, lambda source: classifier(read_features(source)), bodies)


def each(work: Callable[[bytes], object], bodies: Sequence[bytes]) -> None:
    for source in bodies:
        work(source)


def least(works: Sequence[Callable[[], None]]) -> list[float]:
    """µs for one body, the least of rounds in which the works take turns."""
    best = [float("inf")] * len(works)
    for _ in range(ROUNDS):
        for place, work in enumerate(works):
            start = time.process_time_ns()
            work()
            best[place] = min(best[place], (time.process_time_ns() - start) / 1000 / BODIES)
    return best


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
