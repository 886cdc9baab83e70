"""What the gate's test of sampled output sees, and how often it accuses a faultless engine.

python -m bench.gate_power [--gates 2000]    prints tables; docs/gate-statistics.md holds one output
"""

import argparse
import functools
import sys
from dataclasses import dataclass, replace

import numpy as np

from bench.language import RULES, Language
from orchestrator.gate.conditional import Samples, compare, p_value
from orchestrator.gate.context import Context, Path, Told, grow
from orchestrator.gate.deviance import Drawn, simulate
from orchestrator.gate.evidence import Sampled
from orchestrator.gate.mmd import mmd_p_value
from orchestrator.gate.power import Plan, Power, shifted
from orchestrator.gate.sampled import (
    LOOKS,
    REPEATED_LEVEL,
    REPETITION,
    SampledSettings,
    Shown,
    conclude,
    fails,
)

ALPHA = 0.01
RUNS = 20_000
SETTINGS = SampledSettings(strings=0)
PREFIXES = tuple(f"p{number}" for number in range(12))
LANGUAGE = Language(2)
# Draws for 80 % power found by another program, with Pearson's statistic: (cells, distance) to
# those of one sample, and of each arm of two.
REFERENCE = {
    (8, 0.1): (490, 990),
    (8, 0.05): (1950, 3980),
    (8, 0.02): (12_500, 24_500),
    (32, 0.1): (840, 1650),
    (32, 0.05): (3300, 6540),
    (32, 0.02): (20_600, 41_900),
}


def row(*cells: object) -> None:
    sys.stdout.write("| " + " | ".join(str(cell) for cell in cells) + " |\n")


def head(title: str, *cells: str) -> None:
    sys.stdout.write(f"\n### {title}\n\n")
    row(*cells)
    sys.stdout.write("|" + "---|" * len(cells) + "\n")


@dataclass
class OnePlace:
    """G alone at one place with equiprobable cells, as the reference figures have it."""

    cells: int
    arms: int
    rng: np.random.Generator

    def power(self, draws: int, distance: float) -> tuple[float, float]:
        """Power, and the false-alarm rate of runs that the limit was not made from."""
        tokens, shares = tuple(range(self.cells - 1)), np.full(self.cells, 1 / self.cells)
        root = Context("p", (0,), tokens, shares)  # behind a first token, where faults are
        sizes = {"p": (draws,) * self.arms}
        moved = shifted([root], sizes, distance, self.rng)

        def statistic(law: Drawn) -> np.ndarray:
            return simulate([root], law).later

        limit = np.quantile(statistic(Drawn(self.rng, 5 * RUNS, sizes)), 1 - ALPHA)
        faulty = statistic(Drawn(self.rng, RUNS, sizes, shifted=moved))
        healthy = statistic(Drawn(self.rng, RUNS, sizes))
        return float((faulty > limit).mean()), float((healthy > limit).mean())

    def needed(self, distance: float, near: int) -> int:
        """Draws for 80 %, between half and twice of `near`."""
        low, high = near / 2.0, near * 2.0
        for _ in range(9):
            middle = (low * high) ** 0.5
            enough = self.power(round(middle), distance)[0] >= 0.8
            low, high = (low, middle) if enough else (middle, high)
        return round(float((low * high) ** 0.5))


def one_place(rng: np.random.Generator) -> None:
    head(
        "One place, equiprobable cells, G alone, α = 1 %",
        *("cells", "arms", "TV distance", "draws per arm", "power", "false alarms"),
        *("draws for 80 %", "reference"),
    )
    for (cells, distance), references in REFERENCE.items():
        for arms, reference in enumerate(references, start=1):
            place = OnePlace(cells, arms, rng)
            needed = place.needed(distance, reference)
            for draws in (reference // 2, reference, reference * 2):
                power, alarms = place.power(draws, distance)
                found = (needed, reference) if draws == reference else ("", "")
                row(cells, arms, distance, draws, f"{power:.3f}", f"{alarms:.4f}", *found)


def plan(draws: int, arms: int = 1, noise: float = SETTINGS.noise) -> Plan:
    """A run of the gate's real test, with the level of its last look, and of its repetition where
    plain's probabilities are known."""
    roots = [
        grow(prefix, LANGUAGE.told(prefix, draws, SETTINGS.length), draws, frozenset())
        for prefix in PREFIXES
    ]
    levels = (SETTINGS.level_at(len(LOOKS) - 1), *([REPEATED_LEVEL] if arms == 1 else []))
    return Plan(roots, dict.fromkeys(PREFIXES, (draws,) * arms), noise, levels, 1)


def combined() -> None:
    distances = (0.2, 0.1, 0.05, 0.02)
    head(
        f"The gate's test: {len(PREFIXES)} prefixes, skewed probabilities, last look's level 0.7 %"
        ", with one arm repeated at 10 %",
        *("arms", "draws per arm", "places"),
        *(f"TV {distance}" for distance in distances),
        "false alarms",
    )
    for arms in (1, 2):
        for draws in (32, 64, 128, 192, 256, 512, 1024, 2048):
            planned = plan(draws, arms)
            power = Power(planned)
            places = sum(len(c.shares) > 1 for root in planned.roots for c in root.walk())
            seen = [f"{power.against(distance):.2f}" for distance in distances]
            alarms = np.mean([power.seeing({}) for _ in range(10)])
            row(arms, draws * len(PREFIXES), places, *seen, f"{alarms:.4f}")


def wrong_rules() -> None:
    kinds = [(name, certain) for certain in (True, False) for name in RULES]
    head(
        "Wrong rules of acceptance: the share of gates that fail",
        "draws",
        *(f"{name}, {'one guess' if certain else 'drawn guesses'}" for name, certain in kinds),
    )
    row("mean TV distance", *(f"{_distance(name, certain):.3f}" for name, certain in kinds))
    for draws in (16, 32, 64, 128, 192, 256, 512):
        planned = plan(draws)
        power = Power(planned)
        moved = [LANGUAGE.shifted(planned.roots, RULES[name], certain) for name, certain in kinds]
        row(draws * len(PREFIXES), *(f"{power.seeing(shares):.2f}" for shares in moved))


def _distance(name: str, is_certain: bool) -> float:
    """Mean over what follows the first token, by how often a right engine comes there."""
    total = reached = 0.0
    for prefix in PREFIXES:
        for token, chance in enumerate(LANGUAGE.target(prefix, ())):
            if chance > 1e-3:
                emitted = LANGUAGE.emitted(prefix, (token,), RULES[name], is_certain)
                moved = np.abs(emitted - LANGUAGE.target(prefix, (token,))).sum() / 2
                total, reached = total + chance * moved, reached + chance
    return float(total / reached)


def noise() -> None:
    levels = (0.0, 0.001, 0.01, 0.05, 0.1)
    head(
        "Numerics: false alarms where log-probabilities differ by normal noise (level 0.7 %)",
        *("draws", "noise in the test (nats)"),
        *(f"noise in the engine {level}" for level in levels),
    )
    for draws in (192, 1024):
        for assumed in (0.0, 0.01, 0.05, 0.1):
            # One look alone: what numerics do to it they do to its repetition too.
            planned = replace(plan(draws, noise=assumed), levels=(SETTINGS.level_at(-1),))
            power = Power(planned)
            rates = [_alarms(power, planned, level) for level in levels]
            row(draws * len(PREFIXES), assumed, *(f"{rate:.4f}" for rate in rates))


def _alarms(power: Power, planned: Plan, level: float) -> float:
    rng = np.random.default_rng(2)
    return power.failing(Drawn(rng, 4000, planned.draws, level))


def whole_gates(gates: int) -> None:
    head(
        "Whole gates on a faultless engine: three looks, repetition and whole strings, "
        f"α = {ALPHA:.0%}",
        *(
            "arms compared",
            "gates",
            "failed",
            "failed a look",
            "p ≤ 5 %, conditional",
            "p ≤ 5 %, strings",
        ),
        "draws to the end",
    )
    for temperature, count in ((1.0, gates), (0.9, gates // 2)):
        settings = SampledSettings(temperature=temperature, alpha=ALPHA)
        ran = [
            gate(settings, np.random.default_rng((7, number)), number) for number in range(count)
        ]
        failed = sum(run.verdict == "fail" for run in ran)
        low = sum((run.p_value or 1) <= 0.05 for run in ran)
        low_strings = sum((run.mmd_p_value or 1) <= 0.05 for run in ran)
        arms = "plain's probabilities" if settings.is_told else "plain's draws"
        alarms = sum((run.p_value or 1) <= settings.level for run in ran)
        row(arms, count, failed, alarms, low, low_strings, ran[0].draws)


SMALL = PREFIXES[:6]
SMALL_DRAWS = 96
STRINGS = (10, 12)  # of each arm and prefix, of what length


def gate(settings: SampledSettings, rng: np.random.Generator, seed: int) -> Sampled:
    """One gate as draws.py runs it, on draws of the made-up language."""
    settings = replace(settings, seed=seed)
    told = {p: told_of(p) for p in SMALL}
    first: dict[str, list[Path]] = {prefix: [] for prefix in SMALL}
    plain = {p: LANGUAGE.draw(rng, p, (SMALL_DRAWS, settings.length)) for p in SMALL}
    p_values: list[float] = []
    while len(p_values) < len(LOOKS) and not fails(p_values, settings):
        more = round(LOOKS[len(p_values)][0] * SMALL_DRAWS) - len(first[SMALL[0]])
        for prefix in SMALL:
            first[prefix] += LANGUAGE.draw(rng, prefix, (more, settings.length))
        seen = compare(Samples(told, first, plain), settings)
        p_values.append(p_value(seen, settings, len(p_values)))
    again: float | None = None
    if fails(p_values, settings) and settings.is_repeated:
        new = {p: LANGUAGE.draw(rng, p, (SMALL_DRAWS, settings.length)) for p in SMALL}
        again = p_value(compare(Samples(told, new, plain), settings), settings, REPETITION)
    strings = [{p: LANGUAGE.draw(rng, p, (settings.strings, 16)) for p in SMALL} for _ in range(2)]
    mmd = mmd_p_value(strings[0], strings[1], seed)
    drawn = sum(map(len, first.values()))
    shown = Shown(tuple(p_values), mmd, seen.contexts, drawn, drafted=1, repeated=again)
    return conclude(shown, settings)


@functools.cache
def told_of(prefix: str) -> Told:
    return LANGUAGE.told(prefix, SMALL_DRAWS, SETTINGS.length)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gates", type=int, default=2000, help="whole gates to simulate")
    arguments = parser.parse_args()
    one_place(np.random.default_rng(3))
    combined()
    wrong_rules()
    noise()
    whole_gates(arguments.gates)


if __name__ == "__main__":
    main()
