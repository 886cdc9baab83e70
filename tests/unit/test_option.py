"""Native engine options: what is refused, and how the rest is spelled as arguments."""

from dataclasses import replace

import pytest
from pydantic import JsonValue

from adapters.flag import Flag, FlagTable
from adapters.option import merge, option_problems, spell, whole
from adapters.value import ANYTHING, ValueRule

TABLE = FlagTable(
    "engine",
    "1.0",
    "a test",
    {
        flag.name: flag
        for flag in (
            Flag("max-seqs", ("-ms",), "value", None),
            Flag("repack", ("-nr",), "switch", "no-repack"),
            Flag("batching", ("-cb", "-nocb", "--cont-batching"), "switch", "no-batching"),
            Flag("quiet", (), "switch", None),
            Flag("mode", (), "value", None, ValueRule(choices=("on", "off", "auto_fast"))),
            Flag("level", (), "value", None, ValueRule(choices=("0", "1"))),
            Flag("names", (), "values", None),
            Flag("config", ("-c",), "value", None),
            Flag("port", ("-p",), "value", None),
            Flag("hf-token", (), "value", None),
        )
    },
    {"config": {"mode": ANYTHING, "depth": ANYTHING}},
)
SECRET_HINT = "set it in draftgate's own environment, or give the engine a file"
# The same with an object that takes any key.
FREE = replace(TABLE, config_keys={"config": {}})
OURS = {"port": "it comes from the fleet"}


def spelled(options: dict[str, JsonValue]) -> list[str]:
    return list(spell(merge(TABLE, options), TABLE))


@pytest.mark.parametrize(
    ("options", "code", "hint"),
    [
        ({"max-seq": 4}, "unknown-option", "did you mean 'max-seqs'?"),
        ({"zzzz": 4}, "unknown-option", "see the engine's own --help"),
        ({"port": 4}, "option-is-ours", "it comes from the fleet"),
        ({"--port": 4}, "option-is-ours", "it comes from the fleet"),
        ({"-p": 4}, "option-is-ours", "it comes from the fleet"),
        ({"quiet": False}, "option-value", "leave it out"),
        ({"quiet": "yes"}, "option-value", "write true or false"),
        ({"repack": 1}, "option-value", "write true or false"),
        ({"max-seqs": True}, "option-value", "write the value"),
        ({"max-seqs": None}, "option-value", "write the value"),
        ({"mode": "fast"}, "option-value", "one of: on, off, auto_fast"),
        ({"mode": "on,off"}, "option-value", "one of: on, off, auto_fast"),
        ({"mode": "--other"}, "option-value", "a value does not begin with '-'"),
        ({"names": ["a", "--other", "b"]}, "option-value", "a value does not begin with '-'"),
        (
            {"hf-token": "x"},
            "secret",
            "set it in draftgate's own environment, or give the engine a file",
        ),
        ({"level": 2}, "option-value", "one of: 0, 1"),
        ({"config.moed": 2}, "unknown-option", "did you mean 'config.mode'?"),
    ],
)
def test_what_is_refused(options: dict[str, JsonValue], code: str, hint: str) -> None:
    (problem,) = option_problems(options, TABLE, OURS, ("engine", "e"))
    assert problem.path == ("engine", "e", next(iter(options)))
    assert (problem.code, problem.hint) == (code, hint)
    assert problem.is_fatal


@pytest.mark.parametrize(
    "options",
    [
        {"max-seqs": 4, "max_seqs": 5},
        {"max-seqs": 4, "-ms": 5},
        {"repack": True, "no-repack": True},
    ],
)
def test_an_option_given_twice_by_different_names(options: dict[str, JsonValue]) -> None:
    (problem,) = option_problems(options, TABLE, OURS)
    assert problem.code == "option-twice"


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        ({"max-seqs": 4}, ["--max-seqs", "4"]),
        ({"max_seqs": 4}, ["--max-seqs", "4"]),
        ({"--max-seqs": "4"}, ["--max-seqs", "4"]),
        ({"-ms": 0.5}, ["--max-seqs", "0.5"]),
        ({"repack": True}, ["--repack"]),
        ({"repack": False}, ["--no-repack"]),
        ({"no-repack": True}, ["--no-repack"]),
        ({"no_repack": False}, ["--repack"]),
        ({"quiet": True}, ["--quiet"]),
        ({"mode": "ON"}, ["--mode", "on"]),
        ({"mode": "auto-fast"}, ["--mode", "auto_fast"]),
        ({"max-seqs": -1}, ["--max-seqs", "-1"]),
        ({"level": 1}, ["--level", "1"]),
        ({"names": ["a", 5]}, ["--names", "a", "5"]),
        ({"names": "a"}, ["--names", "a"]),
        ({"config": {"mode": "a b", "depth": [1]}}, ["--config", '{"mode":"a b","depth":[1]}']),
        ({"level": 0, "max-seqs": 1}, ["--level", "0", "--max-seqs", "1"]),
        ({}, []),
    ],
)
def test_how_options_are_spelled(options: dict[str, JsonValue], arguments: list[str]) -> None:
    assert option_problems(options, TABLE, OURS) == []
    assert spelled(options) == arguments


@pytest.mark.parametrize(("value", "argument"), [(True, "--no-batching"), (False, "--batching")])
def test_an_alias_that_turns_a_switch_off_is_not_turned_on(value: bool, argument: str) -> None:
    """`-nocb` is listed among the aliases, because a flag has one `negative` only."""
    options: dict[str, JsonValue] = {"nocb": value}
    said = option_problems(options, TABLE, OURS)
    assert said or spelled(options) == [argument]


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        ({"config.mode": "fast"}, ["--config.mode", "fast"]),
        ({"config.depth": 3}, ["--config.depth", "3"]),
        (
            {"config.mode": "fast", "config.depth": 3},
            ["--config.mode", "fast", "--config.depth", "3"],
        ),
    ],
)
def test_a_dotted_option_keeps_its_key(options: dict[str, JsonValue], arguments: list[str]) -> None:
    assert option_problems(options, TABLE, OURS) == []
    assert spelled(options) == arguments


@pytest.mark.parametrize(
    ("layers", "merged"),
    [
        ([], {}),
        ([{"max_seqs": 1, "level": 0}, {"--max-seqs": 2}], {"max-seqs": 2, "level": 0}),
        ([{"max-seqs": 1}, {"-ms": 2}], {"max-seqs": 2}),
        ([{"repack": True}, {"no-repack": True}], {"repack": False}),
        ([{"no-repack": False}], {"repack": True}),
        ([{"-nocb": True}], {"batching": False}),
        ([{"config.mode": 1}, {"-c.mode": 2, "config.depth": 3}],
         {"config.mode": 2, "config.depth": 3}),
        ([{"unknown_one": 1}, {"--unknown-one": 2}], {"unknown-one": 2}),
    ],
)  # fmt: skip
def test_later_layers_win_whatever_the_spelling(
    layers: list[dict[str, JsonValue]], merged: dict[str, JsonValue]
) -> None:
    assert merge(TABLE, *layers) == merged


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (4, 4),
        ("4", 4),
        ("-1", -1),
        ("+4", 4),
        ("16K", 16384),
        ("25.6k", 25600),
        (4.5, 7),
        (True, 7),
        (None, 7),
        ("", 7),
        ("٣", 7),
        ([4], 7),
        ("9" * 5000, 7),
    ],
)
def test_an_option_as_a_whole_number(value: JsonValue, number: int) -> None:
    assert whole({"max-seqs": value}, "max-seqs", 7) == number
    assert whole({}, "max-seqs", 7) == 7


@pytest.mark.parametrize(
    "options",
    [
        {"config": {"mode": 1}, "config.depth": 2},
        {"config.depth": 2, "config": {"mode": 1}},
        {"config.a_b": 1, "config.a-b": 2},
    ],
)
def test_an_object_and_its_own_keys_are_not_given_apart(options: dict[str, JsonValue]) -> None:
    assert [p.code for p in option_problems(options, FREE, OURS)] == ["option-twice"]


@pytest.mark.parametrize(
    ("layers", "merged"),
    [
        ([{"config.a": 1}, {"config": {"b": 2}}], {"config": {"b": 2}}),
        ([{"config": {"a": 1, "b": 1}}, {"config.b": 2}], {"config": {"a": 1, "b": 2}}),
        ([{"config": '{"a": 1}'}, {"config.b.c": 2}], {"config": {"a": 1, "b": {"c": 2}}}),
        ([{"mode": "ON"}, {}], {"mode": "on"}),
    ],
)
def test_an_object_and_its_keys_become_one_option(
    layers: list[dict[str, JsonValue]], merged: dict[str, JsonValue]
) -> None:
    """vLLM 0.32 keeps the dotted key alone, whatever the order."""
    assert merge(FREE, *layers) == merged


def test_very_many_unknown_options_cost_no_near_match_each() -> None:
    found = option_problems({f"max-seq{n}": 1 for n in range(60)}, TABLE, OURS)
    assert [p.hint for p in found[49:51]] == [
        "did you mean 'max-seqs'?",
        "see the engine's own --help",
    ]
