"""What one option's value must be: the kinds that engines' parsers read, bounds and choices."""

import pytest
from pydantic import JsonValue

from adapters.value import Kind, ValueRule, rule_of


@pytest.mark.parametrize(
    ("kind", "value", "fits"),
    [
        ("int", 4, True),
        ("int", "4", True),
        ("int", "-4", True),
        ("int", 4.5, False),
        ("int", "lots", False),
        ("int", True, False),
        ("int", [4], False),
        ("float", 4, True),
        ("float", "1e-3", True),
        ("float", "lots", False),
        ("float", 10**400, False),
        ("size", 8192, True),
        ("size", "16K", True),
        ("size", "16k", True),
        ("size", "25.6k", True),
        ("size", "25.6K", False),
        ("size", "1T", True),
        ("size", "16Q", False),
        ("size", "K", False),
        ("bool", True, True),
        ("bool", "true", False),
        ("text", "a", True),
        ("text", 5, False),
        ("list", [1], True),
        ("mapping", {"a": 1}, True),
        ("mapping", [1], False),
    ],
)
def test_kinds(kind: Kind, value: JsonValue, fits: bool) -> None:
    assert (ValueRule((kind,)).complaint(value) is None) is fits


@pytest.mark.parametrize(
    ("rule", "value", "words"),
    [
        (ValueRule(("int",), minimum=1), 0, "must be at least 1, found 0"),
        (ValueRule(("int",), maximum=8), "9", "must be at most 8, found '9'"),
        (ValueRule(("text",), ("a", "b")), "c", "'c' is not one of its values"),
        (ValueRule(("int",)), None, "found nothing"),
        (ValueRule(("int", "text")), [], "expected a whole number or text, found []"),
    ],
)
def test_complaints(rule: ValueRule, value: JsonValue, words: str) -> None:
    complaint = rule.complaint(value)
    assert complaint is not None
    assert complaint[0] == words


def test_what_is_not_complained_of() -> None:
    assert ValueRule(("int",), nullable=True).complaint(None) is None
    assert ValueRule().complaint({"any": "thing"}) is None
    assert ValueRule(("text",), ("FLASH_ATTN", "auto")).complaint("flash-attn") is None


def test_a_table_with_an_unknown_kind_is_wrong() -> None:
    with pytest.raises(ValueError, match="no kinds of values"):
        rule_of({"type": "integer"})
