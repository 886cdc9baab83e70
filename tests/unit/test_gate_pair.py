"""Two workers are compared only when nothing but speculation differs between them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.deployment import Member
from orchestrator.errors import InputError
from orchestrator.gate.pair import launch_diff, other_differences, require_pair
from tests.unit.certified import DRAFTED, member

NGRAM = {"method": "ngram", "gamma": 4}
PLAIN = {"method": "none"}


@pytest.fixture
def plain(tmp_path: Path) -> Member:
    return member(tmp_path, PLAIN, profile="plain")


def changed(one: Member, **spec: Any) -> Member:
    """The member with other facts, rendered again."""
    made = replace(one.spec, **spec)
    return replace(one, spec=made, launch=one.adapter.render(one.profile, made))


@pytest.mark.parametrize("speculation", [NGRAM, DRAFTED], ids=["ngram", "draft_model"])
def test_speculation_is_all_that_differs(
    plain: Member, tmp_path: Path, speculation: dict[str, Any]
) -> None:
    candidate = member(tmp_path, speculation)
    require_pair(plain, candidate, is_control=False)
    assert other_differences(plain, candidate) == ()
    diff = launch_diff(plain, candidate)
    assert diff
    assert all(line.startswith("+ --spec") or "draft" in line for line in diff), diff


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"args": {"threads": 2}}, "+ --threads 2"),
        ({"args": {"cache-type-k": "q8_0"}}, "+ --cache-type-k q8_0"),
        ({"env": {"OMP_NUM_THREADS": "3"}}, "+ OMP_NUM_THREADS=3"),
        ({"command": ("/another/engine",)}, "+ /another/engine"),
    ],
)
def test_any_other_difference_is_an_error_that_shows_it(
    plain: Member, tmp_path: Path, change: dict[str, Any], line: str
) -> None:
    candidate = changed(member(tmp_path, NGRAM), **change)
    with pytest.raises(InputError, match="differ in more than speculation") as raised:
        require_pair(plain, candidate, is_control=False)
    assert line in str(raised.value)


def test_an_option_of_the_baseline_alone_is_an_error_too(plain: Member, tmp_path: Path) -> None:
    more = changed(plain, args={"threads": 2, "repack": False})
    with pytest.raises(InputError, match="differ in more than speculation") as raised:
        require_pair(more, member(tmp_path, NGRAM), is_control=False)
    assert "  - --threads 2\n" in str(raised.value)
    assert other_differences(more, plain) == ("- --threads 2", "- --no-repack")


def test_native_options_about_guessing_are_speculation(plain: Member, tmp_path: Path) -> None:
    candidate = member(tmp_path, DRAFTED)
    native = {"llama_cpp": {"gpu-layers-draft": 0}}
    profile = candidate.profile.model_copy(update={"engine": native})
    candidate = replace(candidate, profile=profile)
    assert other_differences(plain, candidate) == ()


def test_native_options_of_other_kinds_are_not(plain: Member, tmp_path: Path) -> None:
    candidate = member(tmp_path, NGRAM)
    profile = candidate.profile.model_copy(update={"engine": {"llama_cpp": {"threads": 2}}})
    assert other_differences(plain, replace(candidate, profile=profile)) == ("+ --threads 2",)


def test_a_port_and_a_name_are_no_difference(plain: Member, tmp_path: Path) -> None:
    require_pair(plain, changed(member(tmp_path, NGRAM), port=8599), is_control=False)


def test_roles(plain: Member, tmp_path: Path) -> None:
    drafts = member(tmp_path, NGRAM)
    for baseline, candidate, control, words in (
        (drafts, drafts, False, "the baseline edit-0 speculates"),
        (plain, plain, False, "there is nothing to prove"),
        (plain, drafts, True, "a control compares plain with plain"),
    ):
        with pytest.raises(InputError, match=words):
            require_pair(baseline, candidate, control)
    require_pair(plain, plain, is_control=True)
