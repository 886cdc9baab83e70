"""The test of sampled output: what it passes, what it fails, and what it says of itself."""

import functools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from bench.language import RULES, Language, right
from orchestrator.gate.conditional import Samples, compare, p_value, planned, worst
from orchestrator.gate.context import Path, Told
from orchestrator.gate.power import Plan, Power, shifted
from orchestrator.gate.sampled import (
    LOOKS,
    SampledSettings,
    Shown,
    conclude,
    fails,
    over_looks,
)

SETTINGS = SampledSettings()
LANGUAGE = Language(2)
PREFIXES = ("a", "b", "c")
DRAWS = 150
LAST = len(LOOKS) - 1


@functools.cache
def told() -> dict[str, Told]:
    return {p: LANGUAGE.told(p, DRAWS, SETTINGS.length) for p in PREFIXES}


@functools.cache
def drawn(seed: int, rule: str | None = None, draws: int = DRAWS) -> dict[str, list[Path]]:
    rng = np.random.default_rng(seed)
    chosen = RULES[rule] if rule else None
    return {p: LANGUAGE.draw(rng, p, (draws, SETTINGS.length), chosen) for p in PREFIXES}


def p_of(samples: Samples, settings: SampledSettings = SETTINGS, look: int = LAST) -> float:
    return p_value(compare(samples, settings), settings, look)


def test_the_right_rule_emits_the_targets_own_probabilities() -> None:
    p, q = LANGUAGE.target("a", (1,)), LANGUAGE.draft("a", (1,))
    assert right(p, q) == pytest.approx(p)


def test_a_faultless_engine_passes() -> None:
    assert p_of(Samples(told(), drawn(1))) > 0.05
    two = replace(SETTINGS, temperature=0.7)
    assert p_of(Samples({}, drawn(1), drawn(2)), two) > 0.05


@pytest.mark.parametrize("rule", RULES)
def test_every_wrong_rule_fails(rule: str) -> None:
    settings = replace(SETTINGS, temperature=0.7)
    faulty = drawn(1, rule, 500)
    assert p_of(Samples(told(), faulty)) < 1e-3
    assert p_of(Samples({}, faulty, drawn(2, None, 500)), settings) < 5e-3


def test_a_first_token_that_is_wrong_fails() -> None:
    shifted_draws = {p: [((d[0] + 1) % 100, *d[1:]) for d in ds] for p, ds in drawn(1).items()}
    assert p_of(Samples(told(), shifted_draws)) < 1e-3


def test_one_prefix_alone_is_enough() -> None:
    mixed = drawn(1) | {"a": drawn(1, "accept if equal to the argmax")["b"]}
    assert p_of(Samples(told(), mixed)) < 1e-3


def test_answers_that_are_cut_off_are_counted() -> None:
    cut = {p: [d if n % 8 else d[:1] for n, d in enumerate(ds)] for p, ds in drawn(1).items()}
    assert compare(Samples(told(), cut), SETTINGS).cut > len(PREFIXES) * DRAWS / 10
    assert compare(Samples(told(), drawn(1)), SETTINGS).cut == 0


def test_ends_that_plain_expects_pass() -> None:
    end = int(LANGUAGE.target("a", ()).argmax())

    def ended(draw: Path) -> Path:
        return draw[: draw.index(end) + 1] if end in draw else draw

    samples = Samples(told(), {p: [ended(d) for d in ds] for p, ds in drawn(1).items()})
    assert p_of(samples) > 0.05
    assert compare(samples, SETTINGS).cut == 0
    assert p_of(samples, replace(SETTINGS, ends=frozenset({end}))) > 0.05


def test_more_draws_of_a_faultless_engine_at_several_looks() -> None:
    failed = 0
    for seed in range(6):
        everything = drawn(seed + 50)
        p_values = []
        for look, (share, _) in enumerate(LOOKS):
            part = {p: draws[:: round(1 / share)] for p, draws in everything.items()}
            p_values.append(p_of(Samples(told(), part), SETTINGS, look))
        failed += fails(p_values, SETTINGS)
    assert failed <= 1


def test_looks_share_the_level() -> None:
    assert sum(share for _, share in LOOKS) == pytest.approx(1)
    assert LOOKS[-1][0] == 1
    assert over_looks([0.5, 0.004]) == pytest.approx(0.02)
    assert over_looks([]) == 1
    first = LOOKS[0][1]
    assert fails([0.9 * first * SETTINGS.level], SETTINGS)
    assert not fails([1.1 * first * SETTINGS.level], SETTINGS)


def test_a_repetition_lets_a_tenth_of_the_false_alarms_stand() -> None:
    once, twice = (
        Power(replace(plan_of(4 * DRAWS), levels=levels)) for levels in ((0.1,), (0.1, 0.1))
    )
    alone, repeated = (np.mean([p.seeing({}) for _ in range(10)]) for p in (once, twice))
    assert alone == pytest.approx(0.1, abs=0.03)
    assert repeated == pytest.approx(alone**2, abs=0.005)
    assert twice.against(0.4) > 0.9


def test_draws_against_plains_own_are_not_repeated() -> None:
    told_for = {p: LANGUAGE.told(p, DRAWS, 3) for p in PREFIXES}
    for temperature, levels in ((1.0, 2), (0.9, 1)):
        settings = replace(SETTINGS, temperature=temperature)
        assert len(planned(told_for, settings, DRAWS).levels) == levels


def test_the_two_tests_share_alpha() -> None:
    assert SETTINGS.level + SETTINGS.strings_level == pytest.approx(SETTINGS.alpha)
    alone = replace(SETTINGS, strings=0)
    assert (alone.level, alone.strings_level) == (alone.alpha, 0)


def test_the_worst_places_are_told() -> None:
    seen = compare(Samples(told(), drawn(1, "accept if equal to the argmax")), SETTINGS)
    lines = worst(seen)
    assert len(lines) == 5
    assert " times in " in lines[0]
    assert ", expected " in lines[0]
    two = compare(Samples({}, drawn(1), drawn(2)), replace(SETTINGS, temperature=2.0))
    assert ", plain " in worst(two)[0]


def test_power_grows_with_draws_and_distance() -> None:
    small, large = (Power(plan_of(draws)) for draws in (DRAWS, 8 * DRAWS))
    assert small.against(0.02) < 0.2
    assert small.against(0.4) > 0.8
    assert large.against(0.15) > small.against(0.15)
    assert small.seeing({}) < 0.05


@functools.cache
def plan_of(draws: int) -> Plan:
    told_for = {p: LANGUAGE.told(p, draws, SETTINGS.length) for p in PREFIXES}
    return planned(told_for, SETTINGS, draws)


def test_what_is_detectable_is_seen_with_80_percent() -> None:
    power = Power(plan_of(4 * DRAWS))
    found = power.detectable()
    assert found is not None
    assert 0.05 < found < 0.4
    assert power.against(found) == pytest.approx(0.8, abs=0.12)


def test_the_stated_fault_has_the_stated_distance_behind_the_first_token() -> None:
    plan = plan_of(4 * DRAWS)
    moved = shifted(plan.roots, plan.draws, 0.1, np.random.default_rng(0))
    assert all(path for _, path in moved)
    distances, visits = [], []
    for root in plan.roots:
        for cell, child in root.children:
            if len(child.shares) > 1:
                shares = moved[child.prefix, child.path]
                assert shares.sum() == pytest.approx(1)
                distances.append(abs(shares - child.shares).sum() / 2)
                visits.append(root.shares[cell])
    assert 0.05 < np.average(distances, weights=visits) < 0.15


def test_arms_that_say_one_thing_only_leave_nothing_to_move() -> None:
    same = {"a": [(1, 2, 3)] * 100}
    seen = compare(Samples({}, same, same), replace(SETTINGS, temperature=0.5))
    power = Power(seen.plan(SETTINGS, LAST))
    assert power.against(0.5) < 0.05
    assert power.detectable() is None


def test_two_arms_need_more_draws() -> None:
    told_for = {p: LANGUAGE.told(p, DRAWS, 3) for p in PREFIXES}
    two = Power(planned(told_for, replace(SETTINGS, temperature=0.999), DRAWS))
    assert two.against(0.25) < Power(plan_of(DRAWS)).against(0.25)


def shown(
    p_values: Sequence[float] = (0.5,) * len(LOOKS), mmd: float | None = 0.4, **changes: object
) -> Shown:
    whole = Shown(tuple(p_values), mmd, 20, 900, 0.08, 400.0)
    return replace(whole, **changes)  # type: ignore[arg-type]  # fields by name


@pytest.mark.parametrize(
    ("evidence", "verdict", "said"),
    [
        (shown(), "pass", "0.08 would be seen with 80 %"),
        (shown(detectable=None), "pass", "no difference in 900 draws at 20 places"),
        (shown((1e-4,)), "fail", "not drawn from plain's probabilities"),
        (shown((0.5, 0.5, 1e-4)), "fail", "not drawn from plain's probabilities"),
        (shown((1e-4,), repeated=0.1), "fail", "below 0.008; in new draws 0.1)"),
        (shown((1e-4,), repeated=0.11), "pass", "all of them new (p = 0.11); those before had"),
        (shown((1e-4,), repeated=0.5, cut=1), "fail", "1 of 900 draws are shorter"),
        (shown((1e-4,), 1e-4, repeated=0.5), "fail", "as strings"),
        (shown(mmd=1e-4), "fail", "as strings"),
        (shown((1e-4,), drafted=0.0), "fail", "not drawn"),
        (shown(cut=3), "fail", "3 of 900 draws are shorter than asked"),
        (shown(drafted=0.0), "inconclusive", "no token was drafted"),
        (shown(drafted=None), "inconclusive", "no count of drafted"),
        (shown((0.5,)), "inconclusive", "1 of 3 looks"),
        (shown((), None), "inconclusive", "0 of 3 looks"),
        (shown(contexts=0), "inconclusive", "nothing to compare"),
        (shown(lacks=("p was left out",)), "inconclusive", "p was left out"),
    ],
)
def test_verdicts(evidence: Shown, verdict: str, said: str) -> None:
    found = conclude(evidence, SETTINGS)
    assert found.verdict == verdict
    assert said in found.message
    assert (found.draws, found.alpha, found.temperature) == (900, 0.01, 1.0)


@pytest.mark.parametrize("change", [{"length": 1}, {"temperature": 0.0}])
def test_settings_that_test_nothing_are_refused(change: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"never pass|nothing is drawn"):
        replace(SETTINGS, **change)  # type: ignore[arg-type]  # fields by name
