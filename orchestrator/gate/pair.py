"""The two workers of a comparison: same engine, same model, same options but for speculation."""

import difflib
import itertools
from collections.abc import Mapping
from typing import Any

from adapters.launch import Launch
from adapters.profile import Plain
from orchestrator.deployment import Member
from orchestrator.errors import InputError

# Native options about guessing have one of these in their names, in every engine.
_ABOUT_GUESSING = ("spec", "draft")


def require_pair(baseline: Member, candidate: Member, is_control: bool) -> None:
    """Raises InputError when the comparison would mean nothing."""
    if baseline.profile.is_speculating:
        raise InputError(f"the baseline {baseline.name} speculates; name a plain worker")
    if is_control and candidate.profile.is_speculating:
        raise InputError(f"{candidate.name} speculates; a control compares plain with plain")
    if not is_control and not candidate.profile.is_speculating:
        raise InputError(f"the candidate {candidate.name} is plain; there is nothing to prove")
    if baseline.entry.engine != candidate.entry.engine:
        raise InputError(f"{baseline.name} and {candidate.name} run different engines")
    if baseline.entry.model != candidate.entry.model:
        raise InputError(f"{baseline.name} and {candidate.name} serve different models")
    differences = other_differences(baseline, candidate)
    if differences:
        lines = "\n".join(f"  {line}" for line in differences)
        message = (
            f"{baseline.name} (-) and {candidate.name} (+) differ in more than speculation, and "
            f"the difference would pass for an error of speculation (or hide one):\n{lines}"
        )
        raise InputError(f"{message}\nhint: write what both need under engines.<name>.args or env")


def launch_diff(baseline: Member, candidate: Member) -> tuple[str, ...]:
    """Every line in which the two rendered launches differ, addresses left out."""
    return diff(baseline.launch, candidate.launch)


def other_differences(baseline: Member, candidate: Member) -> tuple[str, ...]:
    """What would still differ if the candidate did not speculate."""
    if not (baseline.is_ours and candidate.is_ours):
        return ()  # whoever started them knows their options
    engine = candidate.entry.engine
    native = {**candidate.profile.engine}
    native[engine] = _without_guessing(native.get(engine, {}))
    profile = candidate.profile.model_copy(
        update={"speculation": Plain(method="none"), "engine": native}
    )
    return diff(baseline.launch, candidate.adapter.render(profile, candidate.spec))


def _without_guessing(options: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in options.items() if not any(word in k for word in _ABOUT_GUESSING)}


def diff(one: Launch, other: Launch) -> tuple[str, ...]:
    """The lines in which two launches differ, `- ` before one's and `+ ` before the other's."""
    lines = difflib.unified_diff(lines_of(one), lines_of(other), n=0, lineterm="")
    # Its two lines of a heading are known by their place: a lost `--option` begins as they do.
    changes = itertools.islice(lines, 2, None)
    return tuple(f"{line[0]} {line[1:]}" for line in changes if line[:1] in "+-")


def lines_of(launch: Launch) -> list[str]:
    """A launch without its address; an option and its value are one line: `--dtype float32`."""
    lines = [" ".join(launch.command)] if launch.command else []
    for argument in launch.arguments:
        last = lines[-1] if lines else ""
        is_value = last.startswith("-") and " " not in last and argument[:1] != "-"
        if is_value:
            lines[-1] += f" {argument}"
        else:
            lines.append(argument)
    lines += [f"{name}={value}" for name, value in sorted(launch.env.items())]
    for name, text in sorted(launch.files.items()):
        lines += [f"file {name}: {line}" for line in text.splitlines()]
    return lines
