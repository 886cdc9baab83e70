"""The gate's report for people."""

from collections.abc import Iterator, Sequence

from orchestrator.gate.compare import END, Arm, Comparison, Divergence
from orchestrator.gate.prompt import Prompt

MOST_SHOWN = 10


def report(
    title: str, comparison: Comparison, arms: Sequence[Arm], prompts: Sequence[Prompt]
) -> Iterator[str]:
    """Lines: the verdict, why, each arm, and the first divergences."""
    yield f"{title}: {comparison.verdict.upper()}"
    for reason in comparison.reasons:
        yield f"  {reason}"
    for arm in arms:
        yield f"  {_arm_line(arm)}"
    if comparison.verdict == "pass" and comparison.bound_per_1000 is not None:
        yield (
            f"  0 forks in {comparison.tokens} tokens compared: below "
            f"{comparison.bound_per_1000:.2g} per 1,000 tokens (95 %)"
        )
    texts = {prompt.id: prompt.text for prompt in prompts}
    forks = _by_place(comparison.divergences)
    for arm_names, divergence in forks[:MOST_SHOWN]:
        yield f"  {_divergence_line(arm_names, divergence, texts.get(divergence.prompt, ''))}"
    if len(forks) > MOST_SHOWN:
        yield f"  and {len(forks) - MOST_SHOWN} more; the certificate holds all"
    if comparison.verdict == "fail":
        yield '  what to do: docs/gate.md, under "Why greedy output differs without a bug"'


def _by_place(divergences: Sequence[Divergence]) -> list[tuple[str, Divergence]]:
    """Each fork once, with the names of the arms that took it."""
    arms: dict[tuple[str, int, int, int], list[str]] = {}
    first: dict[tuple[str, int, int, int], Divergence] = {}
    for d in divergences:
        place = (d.prompt, d.position, d.expected, d.found)
        arms.setdefault(place, []).append(d.arm)
        first.setdefault(place, d)
    return [(" and ".join(arms[place]), divergence) for place, divergence in first.items()]


def _arm_line(arm: Arm) -> str:
    rate = f"{arm.tokens / arm.seconds:.1f} tokens/s" if arm.seconds else "no time"
    line = f"{arm.name}: {arm.tokens} tokens, {rate}"
    if arm.drafted:
        line += f", {arm.accepted or 0:.0f} of {arm.drafted:.0f} drafted tokens accepted"
    return line


def _divergence_line(arms: str, divergence: Divergence, text: str) -> str:
    excerpt = " ".join(text.split())[-40:]
    if divergence.position < 0:
        return f"{divergence.prompt} …{excerpt!r}: {arms} read another prompt than A1"
    line = (
        f"{divergence.prompt} …{excerpt!r}: {arms} left plain at token "
        f"{divergence.position}: plain {_token(divergence.expected)}, "
        f"found {_token(divergence.found)}"
    )
    if divergence.gap is not None:
        line += f"; plain's top-2 gap {divergence.gap:.4f} nats"
    return line


def _token(token: int) -> str:
    return "the end" if token == END else str(token)
