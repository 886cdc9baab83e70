"""A trial for reports that leave the machine: paths as seen from the fleet, nobody's home in them.

What differs between two launches, what an engine complains of and where the answers are name files
of whoever ran the gate. A comment and CI's results are read by others.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from orchestrator.gate.evidence import Arm, Trial

# Homes of other people, as Linux and macOS have them.
_ANY_HOME: Final = re.compile(r"(?<![\w.-])/(?:home|Users)/[^/\s\"',;:]+")


def shareable(trial: Trial, reports: Path, fleet: Path | None) -> Trial:
    """The trial with its paths relative to the folder `fleet`, else to that of the reports (`./…`).

    Under somebody's home the rest stands behind `~`; any other path is left as it is.
    """
    paths = _Paths(reports, fleet)
    sampled = trial.sampled
    return replace(
        trial,
        reasons=paths.every(trial.reasons),
        arms=tuple(_arm(arm, paths) for arm in trial.arms),
        findings=tuple(replace(f, message=paths(f.message)) for f in trial.findings),
        sampled=sampled and replace(sampled, message=paths(sampled.message)),
        suites={name: paths(outcome) for name, outcome in trial.suites.items()},
        notes=paths.every(trial.notes),
        launch_diff=paths.every(trial.launch_diff),
        certificate=paths(trial.certificate) if trial.certificate else None,
        answers_folder=paths(trial.answers_folder) if trial.answers_folder else None,
    )


def _arm(arm: Arm, paths: "_Paths") -> Arm:
    return replace(arm, errors={question: paths(why) for question, why in arm.errors.items()})


class _Paths:
    """Rewrites texts that hold paths."""

    def __init__(self, reports: Path, fleet: Path | None):
        known = [*_written(fleet, "")] if fleet else []
        known += [*_written(reports, "./"), *_written(Path.home(), "~/")]
        self._known = [(_pattern(folder), partial(_written_anew, to)) for folder, to in known]

    def __call__(self, text: str) -> str:
        for pattern, anew in self._known:
            text = pattern.sub(anew, text)
        return _ANY_HOME.sub("~", text)

    def every(self, texts: Iterable[str]) -> tuple[str, ...]:
        return tuple(map(self, texts))


def _written(folder: Path, instead: str) -> list[tuple[str, str]]:
    """The folder as it may stand in a text; one that is the root would stand in every path."""
    spellings = dict.fromkeys((str(folder.absolute()), str(folder.resolve())))
    return [(spelling, instead) for spelling in spellings if len(spelling) > 1]


def _pattern(folder: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.-]){re.escape(folder)}(/|(?![\w-]))")


def _written_anew(instead: str, found: re.Match[str]) -> str:
    """With what follows the folder, or alone."""
    return instead if found[1] else instead.rstrip("/") or "."
