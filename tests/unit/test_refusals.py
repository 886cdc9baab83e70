"""What is refused, as files: a profile, its worker, a source, and the problems word for word.

Adding a case is adding a file that ends with the dashes and running with --update-golden.
"""

import pytest

from adapters import ADAPTERS
from tests.unit.refusal import DASHES, FOLDER, Case, cases

CASES = cases()
STAGES = {"config", "start", "request", "silent", "read"}


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_refusal(case: Case, request: pytest.FixtureRequest) -> None:
    seen = case.outcome()
    if request.config.getoption("--update-golden"):
        head = case.file.read_text().partition(DASHES)[0]
        case.file.write_text(head + DASHES + seen)
        return
    assert seen == case.expected
    assert "error: " in seen


def test_every_case_says_how_it_is_shown() -> None:
    """`read`: nobody ran it, and docs/verified.md says so; the others name what was started."""
    assert {case.shown.get("stage") for case in CASES} <= STAGES
    ran = [case for case in CASES if case.shown["stage"] != "read"]
    assert [case.name for case in ran if not case.shown.get("argv")] == []


def test_every_folder_is_a_dialect() -> None:
    known = {f"{name}-{d.name}" for name, a in ADAPTERS.items() for d in a.SUPPORTED}
    assert {folder.name for folder in FOLDER.iterdir()} <= known
