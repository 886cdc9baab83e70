"""How a value's type and bounds are read, from the sources and from a program's refusals."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from scripts.dump_llama_flags import (
    MOST,
    Option,
    asked_rule,
    flag_entry,
    handler_rule,
    largest,
    table,
)

WHOLE = ("int value",)
TEXT = ("const std::string & value",)


@pytest.mark.parametrize(
    ("arguments", "body", "rule"),
    [
        ((), "{ params.usage = true; }", {}),
        (WHOLE, "{ params.n = value; }", {"type": "int"}),
        (("int prio",), "{ if (prio < 0 || prio > 3) { throw 1; } }", (0, 3)),
        (("int prio",), "{ if (prio < GGML_SCHED_PRIO_LOW) { throw 1; } }", (-1, None)),
        (WHOLE, "{ if (value < other) { throw 1; } }", {"type": "int"}),
        (TEXT, "{ params.p = std::stof(value); }", {"type": "float"}),
        (TEXT, "{ params.s = std::stoul(value); }", {"type": "int"}),
        (TEXT, "{ params.s = std::stoull(value); }", {}),
        (TEXT, '{ if (value == "auto") {} else { std::stoi(value); } }', {}),
        (TEXT, "{ for (auto & x : string_split(value)) std::stof(x); }", {}),
        (TEXT, "{ params.path = value; }).set_env(std::stoi(x)", {}),
    ],
)
def test_a_handler_shows_the_type(arguments: tuple[str, ...], body: str, rule: Any) -> None:
    if isinstance(rule, tuple):
        bounds = {"minimum": rule[0], "maximum": rule[1]}
        rule = {"type": "int", **{k: v for k, v in bounds.items() if v is not None}}
    assert handler_rule(arguments, body) == rule


def program(reader: str, takes: Callable[[str], bool]) -> Callable[..., str]:
    """What a llama-server says of `--flag VALUE`."""

    def complaint(flag: str, *values: str) -> str:
        if all(takes(value) for value in values):
            return ""
        is_number = values[0].lstrip("-").isdigit()
        said = "invalid value" if is_number else reader
        return f'error while handling argument "{flag}": {said}\n\nusage:'

    return complaint


def numbers(low: int, high: int) -> Callable[[str], bool]:
    return lambda value: value.lstrip("-").isdigit() and low <= int(value) <= high


@pytest.mark.parametrize(
    ("reader", "takes", "rule"),
    [
        ("stoi", numbers(-(2**31), 2**31), {"type": "int"}),
        ("stoi", numbers(1, 1024), {"type": "int", "minimum": 1, "maximum": 1024}),
        ("stoi", numbers(-1, 3), {"type": "int", "minimum": -1, "maximum": 3}),
        ("stof", numbers(0, 1), {"type": "float"}),
        ("stoi", lambda value: value in ("auto", "1"), {}),
        ("stoi", lambda value: value in ("all", "1"), {}),
        ("no such file", lambda value: False, {}),
        ("stoull", numbers(0, 9), {}),
        ("", lambda value: True, {}),
    ],
)
def test_refusals_show_the_type(
    reader: str, takes: Callable[[str], bool], rule: Mapping[str, Any]
) -> None:
    assert asked_rule("--flag", 1, program(reader, takes)) == rule


@pytest.mark.parametrize("bound", [1, 3, 1024, MOST - 1])
def test_the_largest_number_is_found(bound: int) -> None:
    assert largest(lambda number: number <= bound) == bound


def test_a_table_holds_what_is_gone_and_the_variables() -> None:
    gone = "the argument has been removed. use --new (env: LLAMA_ARG_OLD)"
    options = [
        Option(("--old", "-o"), (), "N", gone, "LLAMA_ARG_OLD"),
        Option(("--new",), (), "N", "the new one", "LLAMA_ARG_NEW", {"type": "int"}),
        Option(("--yes",), ("--no-yes",), "", "a switch", "LLAMA_ARG_YES"),
    ]
    made = table(options, "b1", "a test")
    assert list(made["flags"]) == ["new", "yes"]
    assert made["flags"]["new"] == {"kind": "value", "type": "int"}
    assert made["removed"] == {"old": "use --new", "o": "use --new"}
    assert made["variables"] == {
        "LLAMA_ARG_NEW": "new",
        "LLAMA_ARG_NO_YES": "yes",
        "LLAMA_ARG_OLD": "old",
        "LLAMA_ARG_YES": "yes",
    }
    assert flag_entry(options[2]) == ("yes", {"kind": "switch", "negative": "no-yes"})
