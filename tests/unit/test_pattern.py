"""Expressions are searched together, and found as if searched one by one."""

import pytest

from orchestrator.pattern import PatternSet, compile_pattern, is_wide

PATTERNS = (
    r"\bJSON\b", r"(?i)\b(fix|rename)\b", r"(?i)^(passage|文章) ?\d*:", "", r"a.*b",
    r"(?i)[a-z]+ story", r"(ab){2,3}", r"\d{3}", r"über", r"x$", r"\x01\x02",
)  # fmt: skip
TEXTS = (
    "",
    "JSON",
    "please FIX it",
    "文章 3: abab",
    "a short story b",
    "x",
    "12 123 x",
    "ÜBER über",
)


@pytest.mark.parametrize("text", TEXTS)
def test_all_that_occur_are_found(text: str) -> None:
    data = text.encode()
    alone = [i for i, p in enumerate(PATTERNS) if compile_pattern(p).search(data) is not None]
    assert sorted(PatternSet(PATTERNS).search(data)) == alone
    assert PatternSet(()).search(data) == []


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (r"\bJSON\b", False), (r"(?i)^(passage) ?\d*:", False), (r"\s+foo", False), (r"\{", False),
        (r"a\.\*", False), (r"x?y*", False),
        (r"a.*b", True), (r".+", True), (r"\w+ x", True), (r"\pL+", True), (r"\p{Greek}*", True),
        (r"a{2,9}", True), (r"(ab)+", True), (r"[a-z]+", True), (r"\S*", True),
    ],
)  # fmt: skip
def test_expressions_that_repeat_much_are_wide(pattern: str, expected: bool) -> None:
    assert is_wide(pattern) is expected


def test_a_set_without_memory_is_searched_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    class Exhausted:
        def Match(self, *_: object) -> None:
            return None

    patterns = PatternSet(("fix", "a.*b", "c.*d"))
    monkeypatch.setattr(patterns, "_exact", Exhausted())
    monkeypatch.setattr(patterns, "_sieve", Exhausted())
    assert patterns.search(b"fix a b") == [0, 1]
    assert patterns.search(b"c d") == [2]


def test_more_expressions_than_fit_are_searched_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.pattern._exact", lambda _: None)
    patterns = PatternSet(("fix", "a.*b"))
    assert patterns.uncertain == {0, 1}
    assert patterns.search(b"fix ab") == [0, 1]
